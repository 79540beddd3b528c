"""One end of a simulated connection: TCP as asyncio code sees it.

Bytes wait in three places, as in life: the sender's user-space buffer (counted by `get_write_buffer_size`),
in flight up to the window (socket buffers and wire), and in the receiver's inbox while it does not read.
"""

import asyncio
import errno
from collections import deque
from collections.abc import Iterable

from tests.simulation.world.sim_switch import Host, Link, Switch, os_error
from tests.simulation.world.virtual_loop import VirtualLoop

_HIGH_WATER = 64 * 1024
_READ_SIZE = 256 * 1024
_WINDOWS = (16 * 1024, 64 * 1024, 256 * 1024)


class _Fin:
    """Marks the end of a stream in an inbox."""


_FIN = _Fin()
_Payload = bytes | _Fin | OSError


class SimTransport(asyncio.Transport):
    """One end of a connection.

    `held`: segments lost on the wire, in order, to be sent again. `lost_since`: nothing that is sent arrives any more.
    `last_arrival`: when what was sent last arrives, or did.
    """

    def __init__(
        self, switch: Switch, host: Host, loop: VirtualLoop, local: tuple[str, int], remote: tuple[str, int]
    ) -> None:
        super().__init__({"sockname": local, "peername": remote, "socket": None})
        self.switch = switch
        self.host = host
        self.peer: SimTransport = self
        self.held: list[_Payload] = []
        self.lost_since: float | None = None
        self.last_arrival = 0.0
        self._loop = loop
        self._link = Link()
        self._window = switch.rng.choice(_WINDOWS)
        # The kernel's socket exists, in [established, closed).
        self._open = True
        self._protocol: asyncio.BaseProtocol | None = None
        self._buffer: deque[bytes] = deque()
        self._buffered = 0
        self._in_flight = 0
        self._giving_up = False
        self._inbox: deque[_Payload] = deque()
        self._drain_posted = False
        self._reading_paused = False
        self._writing_paused = False
        self._closing = False
        self._fin_wanted = False
        self._fin_sent = False
        self._high, self._low = _HIGH_WATER, _HIGH_WATER // 4
        host.endpoints[self] = None

    @property
    def is_open(self) -> bool:
        """Whether the kernel's socket exists."""
        return self._open

    def join(self, peer: "SimTransport") -> None:
        """Know the other end; called once, before anything is sent."""
        self.peer = peer
        self._link = self.switch.link(self.host.node_id, peer.host.node_id)

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection to `protocol`, on the loop of its process."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._wake()

    # What the protocol calls.

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._wake()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = _HIGH_WATER if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low
        self._maybe_pause_writing()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._buffered

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._fin_wanted and not self._closing:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or self._loop.dead or not data:
            return
        self._buffer.append(bytes(data))
        self._buffered += len(data)
        self._pump()
        self._maybe_pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._closing and not self._fin_wanted:
            self._fin_wanted = True
            self._pump()

    def close(self) -> None:
        if not self._closing and not self._loop.dead:
            self._closing = True
            self._fin_wanted = True
            if self._inbox and isinstance(self._inbox[-1], OSError):
                self.fail(self._inbox[-1])
            self._pump()

    def abort(self) -> None:
        """Drop the buffer and close at once; the peer sees the end of the stream, or (drawn) a reset."""
        if self._open and not self._loop.dead:
            self._tell_peer()
            self.fail(None)

    # Sending.

    def _maybe_pause_writing(self) -> None:
        if self._buffered > self._high and not self._writing_paused and self._protocol is not None:
            self._writing_paused = True
            self._protocol.pause_writing()

    def _pump(self) -> None:
        if not self._open:
            return
        buffer = self._buffer
        while buffer and self._in_flight < self._window:
            chunk = buffer[0]
            room = self._window - self._in_flight
            if len(chunk) > room:
                buffer[0] = chunk[room:]
                chunk = chunk[:room]
            else:
                buffer.popleft()
            self._buffered -= len(chunk)
            self._in_flight += len(chunk)
            self._transmit(chunk)
        if self._writing_paused and self._buffered <= self._low:
            self._writing_paused = False
            if self._protocol is not None and not self._closing:
                self._protocol.resume_writing()
        if not buffer and self._fin_wanted:
            if not self._fin_sent:
                self._fin_sent = True
                self._send(_FIN, 0)
            if self._closing:
                self.fail(None)

    def _transmit(self, chunk: bytes) -> None:
        rng = self.switch.rng
        chunk = self._link.flipped(chunk)
        segment = self._link.segment_bytes
        if segment is not None:
            for position in range(0, len(chunk), segment):
                piece = chunk[position : position + segment]
                self._send(piece, len(piece))
            return
        if len(chunk) > 1 and rng.random() < 0.05:
            cut = rng.randrange(1, len(chunk))
            self._send(chunk[:cut], cut)
            chunk = chunk[cut:]
        self._send(chunk, len(chunk))

    def _send(self, payload: _Payload, size: int, extra_delay: float = 0.0) -> None:
        switch = self.switch
        scheduler = switch.scheduler
        arrival = self._link.arrival(scheduler.time, switch.rng, size) + extra_delay
        # FIFO: what was sent before arrives before.
        arrival = self.last_arrival = max(arrival, self.last_arrival)
        scheduler.at(arrival, self._arrive, payload)

    def _tell_peer(self, extra_delay: float = 0.0) -> None:
        # The kernel sends FIN, or RST when bytes were left unread or linger is off.
        if not self._fin_sent or self._inbox:
            self._fin_sent = True
            reset = self._inbox or self.switch.rng.random() < 0.5
            self._send(os_error(errno.ECONNRESET) if reset else _FIN, 0, extra_delay)

    # The kernels and the wire: runs outside any process.

    def _arrive(self, payload: _Payload) -> None:
        if self.held or self._lost_on_the_way():
            self.held.append(payload)
            # A closed end too is looked up here when the link heals: its last words are still to be said.
            self.host.endpoints[self] = None
            self._begin_to_give_up()
            return
        self._deliver(payload)

    def _lost_on_the_way(self) -> bool:
        peer = self.peer
        if self._link.cut_at is not None or self.lost_since is not None or peer.host.off_at is not None:
            return True
        # A closed end answers with RST; while that cannot come back, the bytes are sent again and again.
        return not peer._open and self._open and peer._link.cut_at is not None

    def _deliver(self, payload: _Payload) -> None:
        peer = self.peer
        size = len(payload) if isinstance(payload, bytes) else 0
        self.switch.trace.record("net", peer.host.node_id, (self.host.node_id, size))
        if not peer._open:
            if self._open and not isinstance(payload, OSError):
                scheduler = self.switch.scheduler
                back_at = peer._link.arrival(scheduler.time, self.switch.rng, 0)
                scheduler.at(back_at, self.fail, os_error(errno.ECONNRESET))
            return
        if isinstance(payload, OSError) and peer._closing:
            # Nobody reads any more, but the rest of the buffer cannot go out either.
            peer.fail(payload)
            return
        if peer._link.cut_at is not None:
            # No acknowledgement comes back.
            self._begin_to_give_up()
        peer._inbox.append(payload)
        peer._wake()

    def retransmit(self) -> None:
        """Send again what was lost, if it can arrive now."""
        if self.held and not self._lost_on_the_way():
            held, self.held = self.held, []
            for payload in held:
                self._deliver(payload)
            if not self._open:
                self.host.endpoints.pop(self, None)

    def _begin_to_give_up(self) -> None:
        if not self._giving_up and self._open:
            self._giving_up = True
            scheduler = self.switch.scheduler
            wait = self.switch.rng.uniform(*self.switch.give_up)
            scheduler.at(scheduler.time + wait, self._give_up, scheduler.time)

    def _give_up(self, since: float) -> None:
        self._giving_up = False
        if not self._open:
            return
        for silent_since in (self._link.cut_at, self.peer._link.cut_at, self.peer.host.off_at, self.lost_since):
            if silent_since is not None and silent_since <= since:
                self.fail(os_error(errno.ETIMEDOUT))
                return
        if self.held:
            self._begin_to_give_up()

    def process_died(self, *, tell_peer: bool) -> None:
        """Close the socket as the kernel does for a killed process; user-space bytes are gone."""
        if not tell_peer:
            self.held.clear()
            self.host.endpoints.pop(self, None)
        elif self._open:
            self._tell_peer(self.switch.rng.uniform(0.0, 0.05))
        self.fail(None)

    def fail(self, error: OSError | None) -> None:
        """Close the socket now; the process learns it from `connection_lost(error)`."""
        if not self._open:
            return
        self._open = False
        self._closing = True
        self._buffer.clear()
        self._buffered = 0
        # Nobody sends again for a closed end, except the kernel its last words (FIN, RST and what is before).
        if error is not None:
            self.held.clear()
        if not self.held:
            self.host.endpoints.pop(self, None)
        self._loop.post(self._connection_lost, error)

    # Receiving: runs on the loop of the process.

    def _wake(self) -> None:
        if self._drain_posted or self._reading_paused or self._protocol is None or not self._inbox:
            return
        self._drain_posted = True
        rng = self.switch.rng
        if rng.random() < 0.05:
            # The reader comes late: what arrives meanwhile is read in one piece.
            self._loop.post_at(self.switch.scheduler.time + 0.001 * rng.random(), self._drain)
        else:
            self._loop.post(self._drain)

    def _drain(self) -> None:
        self._drain_posted = False
        inbox = self._inbox
        while inbox and self._open and not self._reading_paused and not self._closing:
            payload = inbox.popleft()
            if isinstance(payload, bytes):
                if inbox:
                    payload = self._join_chunks(payload)
                self._receive(payload)
            elif isinstance(payload, OSError):
                self.fail(payload)
            elif not self.get_protocol().eof_received():  # type: ignore[attr-defined]
                self.close()

    def _join_chunks(self, first: bytes) -> bytes:
        chunks = [first]
        size = len(first)
        while self._inbox and isinstance(self._inbox[0], bytes) and size + len(self._inbox[0]) <= _READ_SIZE:
            chunks.append(self._inbox[0])
            size += len(self._inbox[0])
            self._inbox.popleft()
        return b"".join(chunks)

    def _receive(self, data: bytes) -> None:
        protocol = self._protocol
        size = consumed = len(data)
        if isinstance(protocol, asyncio.BufferedProtocol):
            consumed = 0
            while consumed < size and not self._reading_paused and not self._closing:
                buffer = protocol.get_buffer(-1)
                room = len(buffer)
                if not room:
                    raise RuntimeError("get_buffer() returned an empty buffer")
                count = min(room, size - consumed)
                buffer[:count] = data[consumed : consumed + count]
                consumed += count
                protocol.buffer_updated(count)
            if consumed < size:
                self._inbox.appendleft(data[consumed:])
        elif isinstance(protocol, asyncio.Protocol):
            protocol.data_received(data)
        self.peer._acknowledged(consumed)

    def _acknowledged(self, size: int) -> None:
        self._in_flight -= size
        if (self._buffer or self._fin_wanted) and self._open:
            self._loop.post(self._pump)

    def _connection_lost(self, error: OSError | None) -> None:
        self._inbox.clear()
        if self._protocol is not None:
            self._protocol.connection_lost(error)
