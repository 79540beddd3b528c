"""What no honest client sends, to the Kafka, the rpc and the admin port; and a raw socket to send it with."""

import errno
import random
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import cbor2

from rpc.framing import encode_frame
from tests.process.broker_processes import ADMIN_PORT, DEADLINE_SECONDS, KAFKA_PORT, RPC_PORT

METADATA, API_VERSIONS, PRODUCE = 3, 18, 0
UNSUPPORTED_VERSION = 35
# Key -> (versions served, first flexible version).
_KAFKA_APIS = {
    0: (range(3, 14), 9),
    1: (range(4, 19), 12),
    2: (range(1, 12), 6),
    3: (range(14), 9),
    18: (range(5), 3),
    19: (range(2, 8), 5),
    20: (range(1, 7), 4),
    23: (range(2, 5), 4),
    60: (range(3), 0),
    75: (range(1), 0),
}
# Creating and deleting with luck is not what random bytes are for.
_HARMLESS_KEYS = sorted(_KAFKA_APIS.keys() - {19, 20})


@dataclass(frozen=True, slots=True)
class Hostile:
    """Bytes for one port.

    Attributes:
        name: What is wrong with them.
        port: Whom they are for.
        data: The bytes.
        is_partial: The broker may wait for the rest; otherwise it has to end the connection by itself.
    """

    name: str
    port: int
    data: bytes
    is_partial: bool = False

    def __str__(self) -> str:
        return f"{self.port}-{self.name}"


def kafka_frame(api_key: int, version: int, body: bytes = b"", correlation: int = 7) -> bytes:
    """Return a request with its length and header, for the header version that goes with it."""
    known = _KAFKA_APIS.get(api_key)
    is_flexible = known is not None and version >= known[1]
    header = struct.pack(">hhih", api_key, version, correlation, 4) + b"evil" + (b"\0" if is_flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def _rpc_frame(*items: object) -> bytes:
    return encode_frame(cbor2.dumps(list(items)))


_VERY_MANY = struct.pack(">i", 2**31 - 1)
_HELLO = 0

KAFKA = [
    Hostile("http", KAFKA_PORT, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    Hostile("garbage", KAFKA_PORT, b"\xff" * 64),
    Hostile("oversize length", KAFKA_PORT, _VERY_MANY + b"abc"),
    Hostile("negative length", KAFKA_PORT, struct.pack(">i", -1) + b"abc"),
    Hostile("most negative length", KAFKA_PORT, struct.pack(">i", -(2**31))),
    Hostile("empty frame", KAFKA_PORT, struct.pack(">i", 0)),
    Hostile("frame shorter than a header", KAFKA_PORT, struct.pack(">i", 3) + b"abc"),
    Hostile("half a length", KAFKA_PORT, b"\0\0", is_partial=True),
    Hostile("truncated frame", KAFKA_PORT, kafka_frame(METADATA, 1, b"\0" * 40)[:-20], is_partial=True),
    Hostile("unknown key", KAFKA_PORT, kafka_frame(9_999, 0)),
    Hostile("negative key", KAFKA_PORT, kafka_frame(-1, 0)),
    Hostile("unknown version of a known key", KAFKA_PORT, kafka_frame(METADATA, 99)),
    Hostile("negative version", KAFKA_PORT, kafka_frame(METADATA, -1)),
    Hostile("advertised but not served", KAFKA_PORT, kafka_frame(PRODUCE, 2, b"\0" * 20)),
    Hostile("negative client id", KAFKA_PORT, struct.pack(">ihhih", 10, METADATA, 1, 1, -5)),
    Hostile("client id beyond the frame", KAFKA_PORT, struct.pack(">ihhih", 10, METADATA, 1, 1, 30_000)),
    Hostile("array of two billion topics", KAFKA_PORT, kafka_frame(METADATA, 1, _VERY_MANY)),
    Hostile("compact array without end", KAFKA_PORT, kafka_frame(METADATA, 12, b"\xff" * 9 + b"\x01")),
    Hostile("body cut off", KAFKA_PORT, kafka_frame(METADATA, 1, struct.pack(">ih", 3, 10) + b"abc")),
]
RPC = [
    Hostile("http", RPC_PORT, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    Hostile("garbage", RPC_PORT, b"\xff" * 64),
    Hostile("oversize length", RPC_PORT, struct.pack(">III", 2**31, 10, 0) + b"abc"),
    Hostile("header longer than the frame", RPC_PORT, struct.pack(">III", 20, 2**20, 0) + b"a" * 12),
    Hostile("wrong checksum", RPC_PORT, _rpc_frame(_HELLO)[:-1] + b"?"),
    Hostile("half a prefix", RPC_PORT, b"\0\0\0\x10", is_partial=True),
    Hostile("truncated frame", RPC_PORT, _rpc_frame(_HELLO, b"x" * 100)[:-20], is_partial=True),
    Hostile("no cbor", RPC_PORT, encode_frame(b"\xff\xfe\xfd")),
    Hostile("no list", RPC_PORT, encode_frame(cbor2.dumps({"a": 1}))),
    Hostile("empty list", RPC_PORT, _rpc_frame()),
    Hostile("request before the handshake", RPC_PORT, _rpc_frame(3, 1, 2, [])),
    Hostile("hello of wrong types", RPC_PORT, _rpc_frame(_HELLO, "1", 2, -3, None, 5)),
    Hostile("unknown kind", RPC_PORT, _rpc_frame(99)),
    Hostile("nested a thousand deep", RPC_PORT, encode_frame(b"\x81" * 1_000 + b"\x00")),
]
ADMIN = [
    Hostile("garbage", ADMIN_PORT, b"\xff\x00\xfe" * 20 + b"\r\n\r\n"),
    Hostile("unknown version", ADMIN_PORT, b"GET /v1/status/ready HTTP/x.y\r\n\r\n"),
    Hostile("negative length", ADMIN_PORT, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n"),
    Hostile("two lengths", ADMIN_PORT, b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
    Hostile("endless header", ADMIN_PORT, b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n"),
    Hostile("endless path", ADMIN_PORT, b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n"),
    Hostile("half a request", ADMIN_PORT, b"GET /v1/status", is_partial=True),
]


def random_frames(seed: int, count: int) -> Iterator[Hostile]:
    """Yield noise that passes the first checks: right lengths, real keys and versions, right checksums."""
    rng = random.Random(seed)
    for number in range(count):
        noise = rng.randbytes(rng.choice((0, 1, 7, 40, 300, 5_000)))
        key = rng.choice(_HARMLESS_KEYS)
        yield Hostile(f"noise {number}", KAFKA_PORT, kafka_frame(key, rng.choice(_KAFKA_APIS[key][0]), noise), True)
        yield Hostile(f"raw noise {number}", KAFKA_PORT, noise, True)
        yield Hostile(f"noise {number}", RPC_PORT, encode_frame(noise), True)
        yield Hostile(f"listed noise {number}", RPC_PORT, _rpc_frame(rng.randrange(8), _random_item(rng), noise), True)
        yield Hostile(f"raw noise {number}", RPC_PORT, noise, True)
        yield Hostile(f"noise {number}", ADMIN_PORT, b"GET /" + noise + b" HTTP/1.1\r\n\r\n", True)


def _random_item(rng: random.Random) -> object:
    return rng.choice((None, -1, 2**64, "", "x" * 300, 1.5, [], [[]], {}, {"a": []}, b"", True))


def send_all(host: str, hostile: Hostile) -> bytes:
    """Send the bytes and return what comes back until the broker ends the connection (which it has to do).

    After partial bytes the sending side is closed; otherwise it stays open, so that the broker cannot wait for that.
    """
    with socket.create_connection((host, hostile.port), timeout=DEADLINE_SECONDS) as connection:
        try:
            connection.sendall(hostile.data)
            if hostile.is_partial:
                _end_sending(connection)
            return _read_to_end(connection)
        except (ConnectionResetError, BrokenPipeError):
            return b""


def _end_sending(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError as error:
        # The broker has reset the connection already.
        if error.errno != errno.ENOTCONN:
            raise


def _read_to_end(connection: socket.socket) -> bytes:
    received = b""
    while part := connection.recv(65_536):
        received += part
    return received


def half_open(host: str, port: int, data: bytes = b"") -> socket.socket:
    """Return a connection that has said `data` and nothing more."""
    connection = socket.create_connection((host, port), timeout=DEADLINE_SECONDS)
    connection.sendall(data)
    return connection


def read_kafka_response(connection: socket.socket) -> bytes:
    """Return the next response's bytes after its length."""
    length = struct.unpack(">i", _read_exactly(connection, 4))[0]
    return _read_exactly(connection, length)


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        assert part, f"the broker ended the connection after {len(received)} of {count} bytes"
        received += part
    return received
