"""The admin port's socket: few connections, and none that only sits there.

aiohttp waits for the first request of a connection for ever. A guard between the transport and aiohttp's protocol
counts connections, and ends one that has no request under way for too long or whose request begins with too much.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from aiohttp import web

# Request line and headers; the parser bounds each line, nobody their number.
_HEAD_BYTES_MAX = 64 * 1024
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AdminListener:
    """Accepts for an aiohttp runner.

    Args:
        connections_max: One more is closed at once.
        idle_timeout: Seconds for a whole request head, and for the next request to begin.
    """

    def __init__(self, connections_max: int, idle_timeout: float = 30.0) -> None:
        assert connections_max > 0
        self._connections_max = connections_max
        self._idle_timeout = idle_timeout
        self._guards: dict[asyncio.BaseTransport, _Guard] = {}
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port really bound."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self, runner: web.AppRunner, host: str, port: int) -> None:
        """Listen; `runner` is set up and its application has `middleware`.

        Raises:
            OSError: The address cannot be bound.
        """
        new_protocol = runner.server
        assert new_protocol is not None

        def accept() -> asyncio.Protocol:
            return _Guard(new_protocol(), self._guards, self._connections_max, self._idle_timeout)

        self._server = await asyncio.get_running_loop().create_server(accept, host, port, reuse_address=True)

    def close(self) -> None:
        """Accept no more."""
        if self._server is not None:
            self._server.close()

    @web.middleware
    async def middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Tell the guards when a request is under way."""
        guard = self._guards.get(request.transport) if request.transport is not None else None
        if guard is None:
            return await handler(request)
        guard.begin_request()
        try:
            return await handler(request)
        finally:
            guard.end_request()


class _Guard(asyncio.Protocol):
    """Stands before aiohttp's protocol."""

    def __init__(
        self,
        inner: asyncio.Protocol,
        guards: dict[asyncio.BaseTransport, "_Guard"],
        connections_max: int,
        idle_timeout: float,
    ) -> None:
        self._inner = inner
        self._guards = guards
        self._connections_max = connections_max
        self._idle_timeout = idle_timeout
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._is_busy = False

    def begin_request(self) -> None:
        self._is_busy = True
        self._stop_timer()

    def end_request(self) -> None:
        self._is_busy = False
        self._head_bytes = 0
        self._start_timer()

    # -- asyncio.Protocol ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if len(self._guards) >= self._connections_max:
            self._transport.abort()
            return
        self._guards[transport] = self
        self._start_timer()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._transport not in self._guards:
            return
        if not self._is_busy:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES_MAX:
                self._transport.abort()
                return
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._transport is not None and self._guards.pop(self._transport, None) is not None:
            self._inner.connection_lost(exc)

    # -- idle time ----------------------------------------------------------------------------------------------

    def _start_timer(self) -> None:
        self._stop_timer()
        if self._transport is not None and not self._transport.is_closing():
            self._timer = asyncio.get_running_loop().call_later(self._idle_timeout, self._transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
