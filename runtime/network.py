"""Bytes on the wire, as asyncio transports and protocols.

Code above this seam is written against `asyncio.Transport` and `asyncio.Protocol` or
`asyncio.BufferedProtocol`; the simulator supplies transports with the same behaviour (back-pressure through
`pause_writing`, `connection_lost(None)` for an orderly end and with an exception for a reset).
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Protocol

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Listener(Protocol):
    """An open listening port."""

    @property
    def port(self) -> int:
        """The port really bound (useful where 0 was asked for)."""
        ...

    def close(self) -> None:
        """Stop accepting; established connections stay."""
        ...


class Network(Protocol):
    """Listens and dials."""

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        """Accept connections on `host:port` (0 = any free port); each gets a protocol from `factory`.

        Raises:
            OSError: The address cannot be bound.
        """
        ...

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory, *, source_host: str | None = None
    ) -> asyncio.Transport:
        """Dial `host:port`, from `source_host` if given.

        Raises:
            OSError: Refused, unreachable or reset. The caller bounds the wait with `asyncio.timeout`.
        """
        ...


def bound_unsent(transport: asyncio.Transport, unsent_bytes: int) -> None:
    """Let the kernel take no more bytes than it can send soon: about `unsent_bytes` beyond what is on its way.

    What waits then waits in user space, where something urgent can still pass it. No effect where there is no TCP
    socket, or where the platform cannot be told (TCP_NOTSENT_LOWAT).
    """
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(socket, "TCP_NOTSENT_LOWAT"):
        return
    # A connection that was reset a moment ago says so to its protocol.
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)


class _OsListener:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self._port: int = server.sockets[0].getsockname()[1]

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        self._server.close()


class OsNetwork:
    """`Network` on TCP sockets, with Nagle off."""

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        """Listen on a TCP port."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(factory, host, port, backlog=1024, reuse_address=True)
        return _OsListener(server)

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory, *, source_host: str | None = None
    ) -> asyncio.Transport:
        """Dial a TCP port."""
        loop = asyncio.get_running_loop()
        local = (source_host, 0) if source_host is not None else None
        transport, _ = await loop.create_connection(factory, host, port, local_addr=local)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport
