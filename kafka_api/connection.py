"""One client connection: frames in, responses out in the order of their requests.

    socket -> frames -> [ queue ] -> handle, one after the other -> [ answers in order ] -> socket

A handler that answers later (Produce) returns a future; the next request is handled meanwhile, and its answer waits
behind the first. Both queues are bounded by `requests_in_flight`, and in bytes: an answer that is there is encoded at
once, which is a fraction of its objects, and with a megabyte of them on their way nothing else is handled. Beyond the
first's bounds the socket is not read. Nor is it while a large frame waits for memory; a frame holds its memory until it
has been handled.
"""

import asyncio
import contextlib
import logging
from collections import deque
from typing import Any, NamedTuple, Protocol, cast

from kafka_api.answer import Answer, Outgoing
from kafka_api.client_progress import ClientProgress
from kafka_api.end_connection import EndConnectionError
from kafka_api.handlers.api_versions import api_versions_response
from kafka_api.handlers.registry import API_VERSIONS_RANGE, advertised, find_served
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import RequestHeader, decode_request, decode_request_header
from kafka_api.protocol.errors import ProtocolError
from kafka_api.protocol.framing import FrameSplitter
from kafka_api.protocol.message_classes import Buffer
from kafka_api.request_context import RequestContext
from kafka_api.request_figures import VersionFigures
from kafka_api.request_memory import RequestLease, RequestMemory
from kafka_api.response_pieces import COPIED_BYTES_MAX, ResponsePieces
from runtime.gate import Gate
from storage.errors import StorageError
from storage.file_range import RangeSender, SocketCopy

_logger = logging.getLogger("kafka")

# Requests received and not looked at, from which on no more are read: in all, and of those without a lease.
_QUEUED_BYTES_MAX = 4 * 1024 * 1024
_SMALL_QUEUED_BYTES_MAX = 64 * 1024
# Answers that are encoded and not taken by the client, from which on no request is handled.
_ANSWER_BYTES_MAX = 1024 * 1024


class _Received(NamedTuple):
    frame: memoryview
    lease: RequestLease | None


class ConnectionOwner(Protocol):
    """Whom a connection tells of its life."""

    def on_served(self, connection: "Connection") -> None:
        """Its first request is completed; called once."""
        ...

    def on_ended(self, peer: str, reason: str) -> None:
        """This side closes it, for a reason to be logged."""
        ...

    def on_closed(self, connection: "Connection") -> None:
        """Its transport is gone; `close` has to follow."""
        ...


class Connection(asyncio.BufferedProtocol):
    """See the module. Ends by itself on any malformed request; others are not touched.

    Args:
        context: What handlers may use; its lease belongs to this connection.
        memory: Where large requests take theirs, before they are received.
        scratch: Where small ones are received; all connections of the loop may share it.
        owner: Whom it tells of its life.
        is_welcome: False ends the connection at once.
    """

    def __init__(
        self,
        context: RequestContext,
        memory: RequestMemory,
        scratch: memoryview,
        owner: ConnectionOwner,
        *,
        is_welcome: bool,
    ) -> None:
        options = context.options
        self._is_welcome = is_welcome
        self._context = context
        self._figures = context.figures
        self._now = asyncio.get_running_loop().time
        self._gate = Gate("kafka connection")
        self._owner = owner
        self._memory = memory
        self._splitter = FrameSplitter(options.request_bytes_max, scratch=scratch)
        # Of the frame that is being received.
        self._lease: RequestLease | None = None
        self._is_waiting_for_memory = False
        self._transport: asyncio.Transport | None = None
        self._frames: deque[_Received] = deque()
        self._queued_bytes = 0
        self._small_queued_bytes = 0
        self._has_begun = False
        self._is_handling = False
        self._is_served = False
        self._arrived = asyncio.Event()
        self._answers: deque[Answer] = deque()
        # Of those that are encoded, with the one that is being sent.
        self._answer_bytes = 0
        self._answered = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_reading = True
        self._peer = "?"
        self._descriptor: int | None = None
        # Once it has sent from files.
        self._socket: SocketCopy | None = None
        self._received_bytes = 0
        self._received_frames = 0
        self._progress = ClientProgress(self._now(), options.stalled_request_timeout, options.idle_timeout)

    # -- asyncio.BufferedProtocol -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve."""
        self._transport = cast(asyncio.Transport, transport)
        # Writable means that the kernel has taken everything.
        self._transport.set_write_buffer_limits(high=0)
        if not self._is_welcome:
            self._transport.abort()
            return
        own_socket = transport.get_extra_info("socket")
        # A simulated network has none.
        self._descriptor = None if own_socket is None else own_socket.fileno()
        peer = transport.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        self._context.client.host = peer[0] if peer else ""

    def get_buffer(self, sizehint: int) -> memoryview:
        """Hand out the splitter's buffer: large frames are received where they stay."""
        return self._splitter.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Queue what is complete."""
        self._received_bytes += nbytes
        try:
            frames = self._splitter.buffer_updated(nbytes)
        except ProtocolError as error:
            self._end(f"bad frame: {error}")
            return
        if frames:
            self._queue(frames)
        if self._splitter.wanted_bytes:
            self._lease = self._memory.try_acquire(self._splitter.wanted_bytes)
            if self._lease is not None:
                self._splitter.allocate()
            else:
                self._is_waiting_for_memory = True
                self._gate.spawn(self._wait_for_memory(), name="memory")
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
        self._transport = self._socket = None
        self._writable.set()
        self._owner.on_closed(self)

    def make_room(self) -> None:
        """End the connection, whether or not it has its transport yet."""
        self._is_welcome = False
        self._abort()

    async def close(self) -> None:
        """End the connection and its tasks."""
        self._abort()
        await self._gate.close()
        leases = [self._lease, *(received.lease for received in self._frames)]
        self._lease = None
        self._frames.clear()
        for lease in leases:
            if lease is not None:
                lease.release()
        self._context.fetch_lease.end()

    def check_progress(self, now: float) -> None:
        """End the connection if its client does not do its part; called every now and then."""
        if self._transport is None or self._transport.is_closing():
            return
        reason = self._progress.verdict(
            now,
            received_bytes=self._received_bytes,
            frames=self._received_frames,
            incomplete_bytes=self._splitter.incomplete_bytes,
            is_busy=self._is_handling or bool(self._frames) or bool(self._answers),
            is_its_turn=self._is_reading or self._is_waiting_for_memory,
            is_waited_for=self._lease is not None and self._lease.is_waited_for,
        )
        if reason is not None:
            self._end(reason)

    # -- requests -----------------------------------------------------------------------------------------------

    def _queue(self, frames: list[memoryview]) -> None:
        lease, self._lease = self._lease, None
        # A frame with a lease has memory of its own, and comes alone.
        assert lease is None or len(frames) == 1
        for frame in frames:
            self._frames.append(_Received(frame, lease))
            self._queued_bytes += len(frame)
            if lease is None:
                self._small_queued_bytes += len(frame)
        self._received_frames += len(frames)
        if not self._has_begun:
            # Only now: whoever says nothing costs no tasks.
            self._has_begun = True
            self._gate.spawn(self._serve(), name="requests")
            self._gate.spawn(self._respond(), name="responses")
        self._arrived.set()
        self._regulate_reading()

    async def _wait_for_memory(self) -> None:
        self._lease = await self._memory.acquire(self._splitter.wanted_bytes)
        self._splitter.allocate()
        self._is_waiting_for_memory = False
        self._regulate_reading()

    async def _serve(self) -> None:
        while True:
            while not self._frames:
                self._arrived.clear()
                await self._arrived.wait()
            received = self._frames.popleft()
            self._queued_bytes -= len(received.frame)
            if received.lease is None:
                self._small_queued_bytes -= len(received.frame)
            self._is_handling = True
            try:
                # RFC 0005 section 1: what is counted is what is queued. Counted twice, the connection stops reading.
                assert self._frames or not self._queued_bytes
                assert 0 <= self._small_queued_bytes <= self._queued_bytes
                await self._handle(received.frame)
            except (ProtocolError, EndConnectionError) as error:
                self._end(str(error))
                return
            except Exception:
                # A bug in one handler must not take the broker down with all its replicas; it is logged in full.
                _logger.exception("%s: a request failed", self._peer)
                self._end("internal error")
                return
            finally:
                if received.lease is not None:
                    received.lease.release()
                self._is_handling = False
                # An idle connection keeps no request alive.
                del received
            while self._has_answers_enough():
                self._answered.clear()
                await self._answered.wait()
            self._regulate_reading()

    async def _handle(self, frame: memoryview) -> None:
        began = self._now()
        header = decode_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            self._answer_api_versions(header, frame, began)
            return
        served = find_served(header.api_key, self._has_transactions)
        if served is None or not served.first_version <= header.api_version <= served.last_version:
            raise EndConnectionError(f"key {header.api_key} version {header.api_version} is not served")
        if header.api_key != ApiKey.PRODUCE and len(frame) > self._context.options.other_request_bytes_max:
            raise EndConnectionError(f"a request of {len(frame)} bytes for key {header.api_key}")
        request: Any = decode_request(header.api_key, header.api_version, frame, header.body_position)
        figures = self._figures.of(header.api_key, header.api_version)
        figures.requests += 1
        context = self._context
        context.client.client_id = header.client_id or ""
        answer: Any = await served.handler(context, header.api_version, request)
        if context.chosen_wait.seconds:
            began += context.chosen_wait.seconds
            context.chosen_wait.seconds = 0.0
        if header.api_key == ApiKey.PRODUCE and request.acks == 0:
            if answer is not None:
                figures.refused(answer)
                raise EndConnectionError("a batch at acks=0 was refused")
            now = self._now()
            figures.ended(now - began, now)
            self._completed()
            return
        self._queue_answer(header, answer, figures, began)

    def _has_transactions(self) -> bool:
        return self._context.transactions.level > 0

    def _answer_api_versions(self, header: RequestHeader, frame: memoryview, began: float) -> None:
        low, high = API_VERSIONS_RANGE
        request: Any = None
        if low <= header.api_version <= high:
            request = decode_request(header.api_key, header.api_version, frame, header.body_position)
        else:
            # KIP-511: the answer to an unknown version is in the format of version 0.
            header = header._replace(api_version=0)
        figures = self._figures.of(header.api_key, header.api_version)
        figures.requests += 1
        served = advertised(has_transactions=self._has_transactions())
        answer = api_versions_response(served, self._context.node, header.api_version, request)
        self._queue_answer(header, answer, figures, began)

    # -- answers ------------------------------------------------------------------------------------------------

    def _has_answers_enough(self) -> bool:
        return len(self._answers) >= self._context.options.requests_in_flight or self._answer_bytes >= _ANSWER_BYTES_MAX

    def _queue_answer(self, header: RequestHeader, answer: Any, figures: VersionFigures, began: float) -> None:
        if isinstance(answer, asyncio.Future):
            self._answers.append(Answer(header, [], 0, answer, figures, began))
            answer.add_done_callback(lambda _: self._answered.set())
            return
        try:
            encoded = Answer.of(header, answer)
        except ProtocolError as error:
            self._fail_response(error)
            return
        now = self._now()
        figures.answered(answer, now - began, now)
        self._answers.append(encoded)
        self._answer_bytes += encoded.size
        self._answered.set()

    async def _respond(self) -> None:
        while True:
            while not self._answers or not self._answers[0].is_there:
                self._answered.clear()
                await self._answered.wait()
            try:
                outgoing = self._next_answers()
            except ProtocolError as error:
                self._fail_response(error)
                return
            # Room for more requests.
            self._answered.set()
            self._regulate_reading()
            if not await self._send(outgoing):
                self._end("it takes no response")
                return
            self._answer_bytes -= outgoing.counted_bytes
            self._answered.set()
            self._completed()
            if outgoing.has_fetch:
                self._context.fetch_lease.end()
            del outgoing

    def _next_answers(self) -> Outgoing:
        """Take the next answer; and those behind it that are there and small, because a call to the kernel costs more.

        Raises:
            ProtocolError: The version of the next one cannot say it.
        """
        outgoing = Outgoing()
        while self._answers and self._answers[0].is_there:
            answer = self._answers[0]
            try:
                buffers = answer.encoded()
            except ProtocolError:
                if outgoing.buffers:
                    break  # What comes before it is sent.
                raise
            if not outgoing.add(answer, buffers):
                break
            self._answers.popleft()
            if answer.later is not None and answer.figures is not None:
                now = self._now()
                answer.figures.answered(answer.later.result(), now - answer.began, now)
        return outgoing

    def _fail_response(self, error: ProtocolError) -> None:
        # As above: a response that its version cannot say ends its connection, not the broker.
        _logger.error("%s: a response failed", self._peer, exc_info=error)
        self._end("internal error")

    def _completed(self) -> None:
        if not self._is_served:
            self._is_served = True
            self._owner.on_served(self)

    async def _send(self, outgoing: Outgoing) -> bool:
        """Write until the kernel has taken everything; return False if it takes nothing any more."""
        if not outgoing.has_ranges:
            return await self._send_buffers(outgoing.in_memory())
        if self._descriptor is not None and self._socket is None:
            # Where the process has no descriptor left for it, the response goes through memory, in small pieces.
            with contextlib.suppress(OSError):
                self._socket = SocketCopy(self._descriptor)
        if self._socket is not None:
            self._socket.cork(is_corked=True)
        for part in outgoing.parts():
            sent = self._send_ranges(part) if isinstance(part, RangeSender) else self._send_buffers(part)
            if not await sent:
                return False
        if self._socket is not None:
            self._socket.cork(is_corked=False)
        return True

    async def _send_ranges(self, ranges: RangeSender) -> bool:
        """As `_send`, what lies in files."""
        while ranges:
            if self._transport is None or self._transport.is_closing():
                return False
            # The transport holds nothing: what goes past it keeps its place.
            assert not self._transport.get_write_buffer_size()
            piece = b"" if self._socket is None else ranges.send_cached(self._socket)
            try:
                if ranges and not piece:
                    piece = await ranges.send(self._socket)
            except StorageError as error:
                # The size of the response was told: it cannot end in an error.
                self._end(f"a response cannot be sent to its end: {error}")
                return False
            if piece and not await self._write(piece):
                return False
        return True

    async def _send_buffers(self, buffers: list[Buffer]) -> bool:
        """As `_send`, what is in memory."""
        if sum(map(len, buffers)) <= COPIED_BYTES_MAX:
            return await self._write(b"".join(buffers))
        pieces = ResponsePieces(buffers)
        while pieces:
            transport = self._transport
            # A transport that failed says so only in the loop's next step. Its socket is open until then.
            if transport is None or transport.is_closing():
                return False
            if self._descriptor is not None:
                # The transport holds nothing: what goes past it keeps its place.
                assert not transport.get_write_buffer_size()
                pieces.write_to(self._descriptor)
            if pieces and not await self._write(pieces.take()):
                return False
        return True

    async def _write(self, piece: Buffer) -> bool:
        """Let the transport write a piece that it may have to copy; as `_send`."""
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.write(piece)
        return self._writable.is_set() or await self._drained()

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
        wants = (
            not self._is_waiting_for_memory
            and len(self._frames) + len(self._answers) < self._context.options.requests_in_flight
            and self._queued_bytes < _QUEUED_BYTES_MAX
            and self._small_queued_bytes < _SMALL_QUEUED_BYTES_MAX
        )
        if wants and not self._is_reading:
            self._transport.resume_reading()
        elif not wants and self._is_reading:
            self._transport.pause_reading()
        self._is_reading = wants

    def _end(self, reason: str) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._owner.on_ended(self._peer, reason)
            self._abort()

    def _abort(self) -> None:
        if self._transport is None:
            return
        if self._socket is not None:
            # A thread may have the copy of the descriptor: to close this one alone would tell the client nothing.
            self._socket.shut_down()
        self._transport.abort()
