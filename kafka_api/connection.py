"""One client connection: frames in, responses out in the order of their requests.

    socket -> frames -> [ queue ] -> handle, one after the other -> [ answers in order ] -> socket

A handler that answers later (Produce) returns a future; the next request is handled meanwhile, and its answer waits
behind the first. Both queues are bounded by `requests_in_flight`: beyond it the socket is not read.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from kafka_api.handlers.api_versions import api_versions_response
from kafka_api.handlers.registry import ADVERTISED, API_VERSIONS_RANGE, SERVED
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import RequestHeader, decode_request, decode_request_header, encode_response
from kafka_api.protocol.errors import ProtocolError
from kafka_api.protocol.framing import FrameSplitter
from kafka_api.request_context import RequestContext
from runtime.gate import Gate

_logger = logging.getLogger("kafka")

_HIGH_WATER_BYTES = 1024 * 1024


class _EndConnectionError(Exception):
    """Nothing can be answered: the message says why the connection ends."""


class Connection(asyncio.BufferedProtocol):
    """See the module. Ends by itself on any malformed request; others are not touched."""

    def __init__(self, context: RequestContext, on_closed: Callable[["Connection"], None], *, is_welcome: bool) -> None:
        self._is_welcome = is_welcome
        self._context = context
        self._gate = Gate("kafka connection")
        self._on_closed = on_closed
        self._splitter = FrameSplitter(context.options.request_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._frames: deque[memoryview] = deque()
        self._arrived = asyncio.Event()
        self._answers: deque[tuple[RequestHeader, asyncio.Future[Any]]] = deque()
        self._answered = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_reading = True
        self._peer = "?"

    # -- asyncio.BufferedProtocol -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        if not self._is_welcome:
            self._transport.abort()
            return
        peer = transport.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        self._gate.spawn(self._serve(), name="requests")
        self._gate.spawn(self._respond(), name="responses")

    def get_buffer(self, sizehint: int) -> memoryview:
        """Hand out the splitter's buffer: large frames are received where they stay."""
        return self._splitter.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Queue what is complete."""
        try:
            frames = self._splitter.buffer_updated(nbytes)
        except ProtocolError as error:
            self._end(f"bad frame: {error}")
            return
        if frames:
            self._frames.extend(frames)
            self._arrived.set()
            self._regulate_reading()

    def eof_received(self) -> bool:
        """The client is gone: the transport writes what it has and closes."""
        return False

    def pause_writing(self) -> None:
        """The client does not take what was written."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It does again."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop serving; answers under way are dropped."""
        self._transport = None
        self._writable.set()
        self._on_closed(self)

    async def close(self) -> None:
        """End the connection and its tasks."""
        if self._transport is not None:
            self._transport.abort()
        await self._gate.close()

    # -- requests -----------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        while True:
            while not self._frames:
                self._arrived.clear()
                await self._arrived.wait()
            frame = self._frames.popleft()
            try:
                await self._handle(frame)
            except (ProtocolError, _EndConnectionError) as error:
                self._end(str(error))
                return
            except Exception:
                # A bug in one handler must not take the broker down with all its replicas; it is logged in full.
                _logger.exception("%s: a request failed", self._peer)
                self._end("internal error")
                return
            while len(self._answers) >= self._context.options.requests_in_flight:
                self._answered.clear()
                await self._answered.wait()
            self._regulate_reading()

    async def _handle(self, frame: memoryview) -> None:
        header = decode_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            self._answer_api_versions(header, frame)
            return
        served = SERVED.get(header.api_key)
        if served is None or not served.first_version <= header.api_version <= served.last_version:
            raise _EndConnectionError(f"key {header.api_key} version {header.api_version} is not served")
        request: Any = decode_request(header.api_key, header.api_version, frame, header.body_position)
        answer = await served.handler(self._context, header.api_version, request)
        if header.api_key == ApiKey.PRODUCE and request.acks == 0:
            if answer is not None:
                raise _EndConnectionError("a batch at acks=0 was refused")
            return
        if not isinstance(answer, asyncio.Future):
            answer = _ready(answer)
        self._queue_answer(header, answer)

    def _answer_api_versions(self, header: RequestHeader, frame: memoryview) -> None:
        low, high = API_VERSIONS_RANGE
        request: Any = None
        if low <= header.api_version <= high:
            request = decode_request(header.api_key, header.api_version, frame, header.body_position)
        else:
            # KIP-511: the answer to an unknown version is in the format of version 0.
            header = header._replace(api_version=0)
        self._queue_answer(header, _ready(api_versions_response(ADVERTISED, request)))

    # -- answers ------------------------------------------------------------------------------------------------

    def _queue_answer(self, header: RequestHeader, answer: asyncio.Future[Any]) -> None:
        self._answers.append((header, answer))
        if answer.done():
            self._answered.set()
        else:
            answer.add_done_callback(lambda _: self._answered.set())

    async def _respond(self) -> None:
        while True:
            while not self._answers or not self._answers[0][1].done():
                self._answered.clear()
                await self._answered.wait()
            header, answer = self._answers.popleft()
            if self._transport is None:
                return
            try:
                buffers = encode_response(header.api_key, header.api_version, header.correlation_id, answer.result())
            except ProtocolError:
                # As above: a response that its version cannot say ends its connection, not the broker.
                _logger.exception("%s: a response failed", self._peer)
                self._end("internal error")
                return
            self._transport.writelines(buffers)
            # Room for one more request.
            self._answered.set()
            self._regulate_reading()
            if not self._writable.is_set() and not await self._drained():
                self._end("it takes no response")
                return

    async def _drained(self) -> bool:
        """Wait until the client takes bytes again; give up when none moved for the whole timeout."""
        while not self._writable.is_set() and self._transport is not None:
            before = self._transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(self._context.options.slow_client_timeout):
                    await self._writable.wait()
            except TimeoutError:
                if not self._is_progressing(before):
                    return False
        return True

    def _is_progressing(self, bytes_before: int) -> bool:
        return self._transport is not None and self._transport.get_write_buffer_size() < bytes_before

    def _regulate_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        wants = len(self._frames) + len(self._answers) < self._context.options.requests_in_flight
        if wants and not self._is_reading:
            self._transport.resume_reading()
        elif not wants and self._is_reading:
            self._transport.pause_reading()
        self._is_reading = wants

    def _end(self, reason: str) -> None:
        if self._transport is not None and not self._transport.is_closing():
            _logger.info("%s: connection closed: %s", self._peer, reason)
            self._transport.abort()


def _ready(response: Any) -> asyncio.Future[Any]:
    future = asyncio.get_running_loop().create_future()
    future.set_result(response)
    return future
