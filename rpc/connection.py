"""One TCP connection between two nodes: handshake, frames, end. Dialer and acceptor use it alike."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

from model.ids import NodeId
from rpc.codec import decode_header
from rpc.errors import HandshakeRefusedError, MalformedFrameError, RefusalCode
from rpc.framing import Buffer, FrameReader
from rpc.handshake import Handshake, refusal_header
from rpc.identity import Peer
from rpc.options import LinkOptions
from rpc.writer import FrameWriter
from runtime.network import bound_unsent


class ConnectionOwner(Protocol):
    """Who made a connection. Everything is called synchronously, by the reader."""

    def on_connected(self, connection: "Connection") -> None:
        """The TCP connection stands; the handshake begins."""
        ...

    def on_handshake_done(self, connection: "Connection", peer: Peer) -> None:
        """The peer has proved who it is."""
        ...

    def on_frame(self, connection: "Connection", items: list[object], payload: memoryview) -> None:
        """A frame after the handshake; a MalformedFrameError closes the connection."""
        ...

    def on_lost(self, connection: "Connection") -> None:
        """The connection is gone. Called once, if `on_connected` was."""
        ...


class OpenConnections:
    """The connections of a node whose transports are not gone yet, so that its end can wait for theirs."""

    def __init__(self) -> None:
        # A dict keeps the order: aborting in hash order would make simulated runs differ.
        self._open: dict[Connection, None] = {}
        self._waiter: asyncio.Future[None] | None = None

    def add(self, connection: "Connection") -> None:
        """Count a connection."""
        self._open[connection] = None

    def remove(self, connection: "Connection") -> None:
        """Count it no more."""
        self._open.pop(connection, None)
        if not self._open and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def abort_all(self, timeout: float) -> None:
        """Abort every connection and wait, at most `timeout` seconds, until all transports have said so."""
        for connection in list(self._open):
            connection.abort()
        if self._open:
            self._waiter = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._waiter


class Connection(asyncio.BufferedProtocol):
    """Reads and writes frames.

    Attributes:
        peer: The proven other end; None until the handshake is done.
        refusal: Why the handshake failed, if it did.
        damage: What was wrong with the last bytes of the proven other end, if that is why the connection was closed.
        last_received: loop.time() of the last byte from the peer.
    """

    def __init__(
        self, owner: ConnectionOwner, handshake: Handshake, options: LinkOptions, connections: OpenConnections
    ) -> None:
        self._owner = owner
        self._connections = connections
        self._handshake = handshake
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(options.max_handshake_frame_bytes)
        self._transport: asyncio.Transport | None = None
        self._writer: FrameWriter | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closing = False
        self.peer: Peer | None = None
        self.refusal: HandshakeRefusedError | None = None
        self.damage: MalformedFrameError | None = None
        self.last_received = self._loop.time()

    @property
    def is_open(self) -> bool:
        """Whether frames can be written: the handshake is done and nobody has closed."""
        # A transport whose socket failed says `connection_lost` only in the loop's next step.
        return self.peer is not None and not self._is_closing and not self._transport_is_closing

    @property
    def _transport_is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def unsent_bytes(self) -> int:
        """What was written and the kernel has not taken yet; its own share is bounded (`kernel_unsent_bytes`)."""
        return self._writer.unsent_bytes if self._writer is not None else 0

    @property
    def claimed_node(self) -> NodeId | None:
        """Who the peer says it is, unproven."""
        return self._handshake.claimed_node

    @property
    def remote_host(self) -> str:
        """Where it comes from, for a log line."""
        address = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(address[0]) if address else "an unknown address"

    def write(self, header: bytes, buffers: Sequence[Buffer] = (), *, urgent: bool = False) -> None:
        """Write one frame; dropped if the transport is closing. See `FrameWriter.write`.

        Raises:
            FrameTooLargeError: Nothing was written.
        """
        assert self._writer is not None
        if not self._transport_is_closing:
            self._writer.write(header, buffers, urgent=urgent)

    def close(self) -> None:
        """Take no more frames, let what was written drain for a moment, then close."""
        if self._transport is None or self._is_closing:
            return
        self._is_closing = True
        self._set_timer(self._options.close_timeout)
        # Nobody takes out of the reader's buffer any more.
        self._transport.pause_reading()
        assert self._writer is not None
        self._writer.close()

    def abort(self) -> None:
        """Close at once; `on_lost` follows."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = transport  # type: ignore[assignment]
        assert self._transport is not None
        bound_unsent(self._transport, self._options.kernel_unsent_bytes)
        self._writer = FrameWriter(self._transport, self._loop)
        self._connections.add(self)
        self._owner.on_connected(self)
        if self._is_closing:  # aborted while it was dialled, or by its owner just now
            self._transport.abort()
            return
        self._set_timer(self._options.handshake_timeout)
        for header in self._handshake.start():
            self._writer.write(header)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle every frame that is complete."""
        self.last_received = self._loop.time()
        self._reader.received(nbytes)
        try:
            while not self._is_closing and (frame := self._reader.next_frame()) is not None:
                items = decode_header(frame.header)
                if self.peer is None:
                    self._receive_handshake(items)
                else:
                    self._owner.on_frame(self, items, frame.payload)
        except HandshakeRefusedError as error:
            self._refuse(error)
        except MalformedFrameError as error:
            if self.peer is None:
                self._refuse(HandshakeRefusedError(RefusalCode.MALFORMED, str(error)))
            else:
                # A stream out of step has nothing worth draining.
                self.damage = error
                self.abort()

    def pause_writing(self) -> None:
        """Let what is written wait in the queue."""
        if self._writer is not None:
            self._writer.pause()

    def resume_writing(self) -> None:
        """Write what waits."""
        if self._writer is not None:
            self._writer.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner."""
        self._is_closing = True
        self._clear_timer()
        if self._writer is not None:
            self._writer.drop()
        self._connections.remove(self)
        self._owner.on_lost(self)

    def _receive_handshake(self, items: list[object]) -> None:
        answers = self._handshake.receive(items)
        for header in answers:
            self.write(header)
        if (peer := self._handshake.peer) is not None:
            self._clear_timer()
            self.peer = peer
            self._reader.allow(self._options.max_frame_bytes)
            self._owner.on_handshake_done(self, peer)

    def _refuse(self, error: HandshakeRefusedError) -> None:
        self.refusal = error
        if not error.by_peer:
            self.write(refusal_header(error))
        self.close()

    def _set_timer(self, delay: float) -> None:
        self._clear_timer()
        self._timer = self._loop.call_later(delay, self.abort)

    def _clear_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
