"""Listeners that answer DescribeCluster and hang up on everything else, as brokers without a controller do."""

import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress

DESCRIBE_CLUSTER = 60


def free_address() -> str:
    """Return an address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


class LonelyBroker:
    """A broker that knows the others and no controller; `is_paused`: it takes connections and says nothing.

    Attributes:
        address: HOST:PORT.
        brokers: What it says of the members: HOST:PORT by node id.
        controller: Node id, -1: none.
    """

    def __init__(self, *, is_paused: bool = False) -> None:
        self.brokers: Mapping[int, str] = {}
        self.controller = -1
        self._is_paused = is_paused
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in self._open:
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self._is_paused:
                self._open.append(connection)
                continue
            with connection, suppress(OSError, struct.error):
                connection.settimeout(5)
                _, key, _, correlation = struct.unpack(">ihhi", connection.recv(1_000)[:12])
                if key == DESCRIBE_CLUSTER:
                    connection.sendall(self._answer(correlation))

    def _answer(self, correlation: int) -> bytes:
        body = struct.pack(">i", correlation) + b"\0" + struct.pack(">ih", 0, 0) + b"\0" + _compact("cluster")
        body += struct.pack(">i", self.controller) + bytes([len(self.brokers) + 1])
        for node, address in self.brokers.items():
            host, _, port = address.rpartition(":")
            body += struct.pack(">i", node) + _compact(host) + struct.pack(">i", int(port)) + b"\0\0"
        body += struct.pack(">i", -(2**31)) + b"\0"
        return struct.pack(">i", len(body)) + body


def _compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()
