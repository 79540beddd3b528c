"""One Kafka connection without a client around it: a request, its answer, or many of them at once."""

import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import decode_response, encode_request
from kafka_api.protocol.messages import ApiVersionsRequest
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerProcess

# A connection has at most 64 requests that are not answered; more would only wait in the kernel.
IN_FLIGHT = 64


class WireSocket:
    """Requests of any key and version. A context manager.

    Args:
        source: The last part of the loopback address to connect from, of the broker's own network; 0 for any. A program
            with thousands of connections needs more than one: few source ports are left in so short a time.
    """

    def __init__(self, broker: BrokerProcess, source: int = 0) -> None:
        address = (f"{broker.host.rpartition('.')[0]}.{source}", 0) if source else None
        self.socket = socket.create_connection((broker.host, broker.config["kafka.port"]), DEADLINE_SECONDS, address)
        self._sent: dict[int, tuple[int, int]] = {}
        self._number = 0

    def __enter__(self) -> "WireSocket":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, key: ApiKey, version: int, *messages: Any) -> None:
        """Write requests, all at once."""
        data = bytearray()
        for message in messages:
            self._number += 1
            self._sent[self._number] = (key, version)
            data += b"".join(encode_request(key, version, self._number, "misbehaving", message))
        self.socket.sendall(data)

    def receive(self) -> Any:
        """Return the next answer."""
        frame = self.receive_frame()
        (number,) = struct.unpack_from(">i", frame)
        return decode_response(*self._sent.pop(number), frame)[1]

    def receive_frame(self) -> bytes:
        """Return the next answer as it is."""
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)

    def _read(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            part = self.socket.recv(min(count - len(received), 1 << 20))
            if not part:
                raise ConnectionError(f"the broker ended the connection after {len(received)} of {count} bytes")
            received += part
        return bytes(received)

    def call(self, key: ApiKey, version: int, message: Any) -> Any:
        """Return the answer to one request."""
        self.send(key, version, message)
        return self.receive()

    def call_all(self, key: ApiKey, version: int, messages: Sequence[Any]) -> list[Any]:
        """Return the answers to all of these, with as many on their way as a connection may have."""
        answers = []
        for begin in range(0, len(messages), IN_FLIGHT):
            part = messages[begin : begin + IN_FLIGHT]
            self.send(key, version, *part)
            answers += [self.receive() for _ in part]
        return answers

    def is_served(self) -> bool:
        """Ask what the broker serves."""
        return not self.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest()).error_code

    def is_ended(self) -> bool:
        """Whether the broker has closed or reset the connection; no answer may be due."""
        self.socket.setblocking(False)
        try:
            return self.socket.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        finally:
            self.socket.settimeout(DEADLINE_SECONDS)
