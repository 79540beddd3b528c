"""What is at an address, by its answer to the first request: librdkafka only knows that no Kafka broker has answered.

The kernel takes connections for a process that is stopped, or whose loop hangs. So only an answer says that a broker
works.
"""

import socket
import struct
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto

from raftka.config import parse_address

# How long one address has to take a connection, and then to answer.
PROBE_SECONDS = 1.0
_FOREIGN_SECONDS = 2.0
_AT_A_TIME_MAX = 32
_CORRELATION = 0x52614674
# ApiVersions, version 0, from a client without a name: every Kafka answers it, before anything else.
_REQUEST = struct.pack(">ihhih", 10, 18, 0, _CORRELATION, -1)


class Reply(Enum):
    """What an address makes of a connection and an ApiVersions request."""

    # Kafka's protocol.
    KAFKA = auto()
    # Another protocol.
    FOREIGN = auto()
    # It ends the connection. A broker that does not serve yet does so.
    HANGS_UP = auto()
    # It takes the connection and sends nothing in time.
    NOTHING = auto()
    # It takes no connection, or is no address.
    UNREACHED = auto()


def foreign_protocol(address: str) -> str:
    """Return what is spoken at an address instead of Kafka's protocol; empty: that, or nothing.

    A broker that does not serve yet ends each connection without a word.
    """
    reply, answer = _ask(address, _FOREIGN_SECONDS)
    if reply is not Reply.FOREIGN:
        return ""
    return "HTTP" if answer.startswith(b"HTTP") else "something else"


def probe_all(addresses: Iterable[str], seconds: float = PROBE_SECONDS) -> dict[str, Reply]:
    """Return the reply of each address (HOST:PORT); all are asked at the same time.

    Args:
        addresses: May name one twice.
        seconds: How long each has to take a connection, and then to answer; above 0.
    """
    wanted = list(dict.fromkeys(addresses))
    if not wanted:
        return {}
    with ThreadPoolExecutor(min(len(wanted), _AT_A_TIME_MAX)) as pool:
        return dict(zip(wanted, pool.map(lambda address: _ask(address, seconds)[0], wanted), strict=True))


def _ask(address: str, seconds: float) -> tuple[Reply, bytes]:
    """Return the reply, and the first 8 bytes of the answer or what has come of them."""
    answer, reply = b"", Reply.UNREACHED
    try:
        with socket.create_connection(parse_address(address), timeout=seconds) as connection:
            # Until the other side ends the connection, or has answered.
            reply = Reply.NOTHING
            connection.sendall(_REQUEST)
            while len(answer) < 8 and (part := connection.recv(8 - len(answer))):
                answer += part
            reply = Reply.HANGS_UP
    except TimeoutError:
        # What has come by then counts.
        pass
    except (OSError, ValueError):
        reply = Reply.UNREACHED if reply is Reply.UNREACHED else Reply.HANGS_UP
    if answer:
        is_kafka = len(answer) == 8 and struct.unpack_from(">i", answer, 4)[0] == _CORRELATION
        reply = Reply.KAFKA if is_kafka else Reply.FOREIGN
    return reply, answer
