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
_HEAD_END = b"\r\n\r\n"
# So many the kernel keeps for us, and so many are accepted in one step of the loop. A client that finds no place among
# them tries again after a second.
_BACKLOG = 1024
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AdminListener:
    """Accepts for an aiohttp runner.

    Args:
        connections_max: One more closes the oldest without a completed request; it is closed at once if there is none.
        idle_timeout: Seconds for a whole request head, and for the next request to begin.
    """

    def __init__(self, connections_max: int, idle_timeout: float = 30.0) -> None:
        assert connections_max > 0
        self._idle_timeout = idle_timeout
        self._guards = _Guards(connections_max)
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
            return _Guard(new_protocol, self._guards, self._idle_timeout)

        self._server = await asyncio.get_running_loop().create_server(
            accept, host, port, backlog=_BACKLOG, reuse_address=True
        )

    def close(self) -> None:
        """Accept no more, and end those of which aiohttp does not know yet."""
        if self._server is not None:
            self._server.close()
        for guard in list(self._guards.by_transport.values()):
            guard.end_unknown()

    @web.middleware
    async def middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Tell the guards when a request is under way."""
        guard = self._guards.by_transport.get(request.transport) if request.transport is not None else None
        if guard is None:
            return await handler(request)
        guard.begin_request()
        try:
            return await handler(request)
        finally:
            guard.end_request()


class _Guards:
    """The open connections, and which of them had no request yet."""

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self.by_transport: dict[asyncio.BaseTransport, _Guard] = {}
        # In arrival order: the first is the oldest.
        self.strangers: dict[asyncio.BaseTransport, None] = {}

    def add(self, transport: asyncio.BaseTransport, guard: "_Guard") -> bool:
        """Return whether there is room, made or not."""
        if len(self.by_transport) >= self._connections_max:
            if not self.strangers:
                return False
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]
            # It is among the connections until the loop's next step; aiohttp dies of one that is lost in the step in
            # which it was made.
            self.by_transport[oldest].end()
        self.by_transport[transport] = guard
        self.strangers[transport] = None
        return True

    def remove(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether it was there."""
        self.strangers.pop(transport, None)
        return self.by_transport.pop(transport, None) is not None


class _Guard(asyncio.Protocol):
    """Stands before aiohttp's protocol, which is made when the first byte comes: it costs a task."""

    def __init__(self, new_inner: Callable[[], asyncio.Protocol], guards: _Guards, idle_timeout: float) -> None:
        self._new_inner = new_inner
        self._inner: asyncio.Protocol | None = None
        self._guards = guards
        self._idle_timeout = idle_timeout
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        # The last bytes of an unfinished head: its end may come in two pieces.
        self._head_tail = b""
        self._has_head = False
        self._is_busy = False

    def begin_request(self) -> None:
        self._is_busy = True
        self._stop_timer()

    def end_request(self) -> None:
        self._is_busy = self._has_head = False
        self._head_bytes, self._head_tail = 0, b""
        if self._transport is not None:
            self._guards.strangers.pop(self._transport, None)
        self._start_timer()

    def end(self) -> None:
        """Give the place to another one."""
        assert self._transport is not None
        self._transport.abort()

    def end_unknown(self) -> None:
        if self._inner is None:
            self.end()

    # -- asyncio.Protocol ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._guards.add(transport, self):
            self._transport.abort()
            return
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if self._transport not in self._guards.by_transport:
            return
        if not self._is_busy and not self._has_head:
            self._count_head(data)
            if self._head_bytes > _HEAD_BYTES_MAX:
                self._transport.abort()
                return
        if self._inner is None:
            self._inner = self._new_inner()
            self._inner.connection_made(self._transport)
        self._inner.data_received(data)

    def _count_head(self, data: bytes) -> None:
        """Count what belongs to the head: a body that comes with it is bounded by whoever reads it."""
        seen = self._head_tail + data
        end = seen.find(_HEAD_END)
        self._has_head = end >= 0
        self._head_bytes += len(data) if end < 0 else end + len(_HEAD_END) - len(self._head_tail)
        self._head_tail = seen[1 - len(_HEAD_END) :]

    def eof_received(self) -> bool | None:
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._transport is not None and self._guards.remove(self._transport) and self._inner is not None:
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
