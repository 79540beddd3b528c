"""The link to one peer: dials it, sends requests over it, matches the replies."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from model.ids import NodeId
from rpc.codec import (
    ERROR_REPLY,
    MAX_MESSAGE_CHARACTERS,
    REPLY,
    REQUEST,
    body_builtins,
    encode_header,
    number,
    parse_body,
)
from rpc.connection import Connection, OpenConnections
from rpc.damage_log import DamageLog
from rpc.errors import (
    FrameTooLargeError,
    LinkBusyError,
    LinkDownError,
    MalformedBodyError,
    MalformedFrameError,
    NotFoundedError,
    RefusalCode,
    RemoteError,
    RpcError,
    RpcTimeoutError,
)
from rpc.framing import Buffer
from rpc.handshake import Handshake, Role
from rpc.identity import Address, Peer
from rpc.methods import Method
from rpc.options import LinkOptions
from rpc.refusal_log import RefusalLog
from runtime.environment import Environment
from runtime.gate import Gate

Q = TypeVar("Q")
R = TypeVar("R")


class LinkOwner(NamedTuple):
    """What a link needs of the node it belongs to."""

    env: Environment
    options: LinkOptions
    gate: Gate
    refusals: RefusalLog
    damage: DamageLog
    connections: OpenConnections
    new_handshake: Callable[[Role, NodeId | None], Handshake]
    link_is_up: Callable[[Peer], None]
    link_is_lost: Callable[[Peer, Role], None]
    is_founded: Callable[[], bool]


class _InFlight(NamedTuple):
    future: asyncio.Future[Any]
    reply: type[Any]
    deadline: float


class OutgoingLink:
    """Keeps one connection to a peer, and dials again whenever it is lost.

    * At most one dial or connection at a time.
    * Every request ends: by its reply, its deadline, or the loss of the connection.

    Attributes:
        refused_requests: How many were not sent because too much was unsent.
        why_down: Why there is no working link: the error of the newest attempt or the loss of the last link; None while
            the link is up, and before the first attempt has ended.
    """

    def __init__(self, node_id: NodeId, address: Address, owner: LinkOwner) -> None:
        self.node_id = node_id
        self.address = address
        self._owner = owner
        self._options = owner.options
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._in_flight: dict[int, _InFlight] = {}
        self._next_id = 1
        self._backoff = owner.options.backoff_min
        self._redial: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._waiting_since = 0.0
        self._last_timeout = 0.0
        self.refused_requests = 0
        self.why_down: RpcError | OSError | None = None
        self._dial()

    @property
    def is_up(self) -> bool:
        """Whether requests can be sent."""
        return self._connection is not None and self._connection.is_open

    @property
    def peer(self) -> Peer | None:
        """The proven other end, while the link is up."""
        return self._connection.peer if self._connection is not None and self._connection.is_open else None

    @property
    def last_received(self) -> float | None:
        """loop.time() of the last byte from the peer; None while the link is down."""
        return self._connection.last_received if self._connection is not None and self._connection.is_open else None

    @property
    def unsent_bytes(self) -> int:
        """What was sent over the link and its kernel has not taken yet."""
        return self._connection.unsent_bytes if self._connection is not None else 0

    @property
    def unsent_max(self) -> int:
        """How much of it there may be; one large request may lie above."""
        return self._options.send_buffer_bytes

    def has_room(self, size: int) -> bool:
        """Whether a payload of `size` bytes would be taken; a large one counts as an eighth, so it finds room too."""
        limit = self._options.send_buffer_bytes
        return self.unsent_bytes + min(size, limit // 8) <= limit

    def send(self, method: Method[Q, R], body: Q, buffers: Sequence[Buffer], timeout: float) -> asyncio.Future[R]:
        """Write a request now; see `Links.send`."""
        future: asyncio.Future[R] = self._loop.create_future()
        connection = self._connection
        if connection is None or not connection.is_open:
            return failed(future, LinkDownError(f"the link to node {self.node_id} is down"))
        refusal = self._refuses(method, connection, buffers)
        if refusal is not None:
            return failed(future, refusal)
        request_id = self._next_id
        try:
            header = encode_header(REQUEST, request_id, method.number, body_builtins(body))
            connection.write(header, buffers, urgent=method.urgent)
        except FrameTooLargeError as error:
            return failed(future, error)
        self._next_id += 1
        now = self._loop.time()
        if self._waiting_since <= connection.last_received:
            self._waiting_since = now
        self._in_flight[request_id] = _InFlight(future, method.reply, now + timeout)
        return future

    def reconnect_if(self, is_wrong: Callable[[Peer], bool]) -> None:
        """Close the connection if its peer is wrong by now, or not known yet, and dial again."""
        connection = self._connection
        if connection is None:
            return
        if connection.peer is None:
            connection.abort()
        elif is_wrong(connection.peer):
            connection.close()

    def abort_if_silent_since(self, at: float) -> None:
        """Take a link that is up for lost, and dial again, if nothing has come over it since loop.time() was `at`."""
        received = self.last_received
        if self._connection is not None and received is not None and received < at:
            self._connection.abort()

    def close(self) -> None:
        """End the link for good; requests in flight fail with LinkDownError."""
        self._is_closed = True
        if self._redial is not None:
            self._redial.cancel()
        connection = self._connection
        if connection is not None:
            was_working = connection.peer is not None
            connection.abort()
            if was_working:
                self._fail_all()
                self._stop_sweep()

    # ConnectionOwner

    def on_connected(self, connection: Connection) -> None:
        """Take the connection that the dial made."""
        if self._is_closed:
            connection.abort()

    def on_handshake_done(self, connection: Connection, peer: Peer) -> None:
        """Open the link for requests."""
        self._backoff = self._options.backoff_min
        self._waiting_since = self._last_timeout = 0.0
        self._sweep = self._loop.call_later(self._options.sweep_interval, self._check_deadlines)
        self.why_down = None
        self._owner.refusals.works(self._name(), self.node_id)
        self._owner.link_is_up(peer)

    def on_frame(self, connection: Connection, items: list[object], payload: memoryview) -> None:
        """End the request that a reply belongs to; a late reply is dropped."""
        kind, count = items[0], len(items)
        if payload:
            raise MalformedFrameError(f"a reply with a payload of {len(payload)} bytes; no method has one")
        if kind == REPLY and count == 3:
            entry = self._in_flight.pop(number(items[1]), None)
            if entry is not None and not entry.future.done():
                _finish(entry, items[2])
        elif kind == ERROR_REPLY and count == 4 and isinstance(items[3], str):
            entry = self._in_flight.pop(number(items[1]), None)
            if entry is not None and not entry.future.done():
                failed(entry.future, RemoteError(number(items[2]), items[3][:MAX_MESSAGE_CHARACTERS]))
        else:
            raise MalformedFrameError(f"a frame of kind {kind!r} and {count} items is no reply")

    def on_lost(self, connection: Connection) -> None:
        """Fail what was in flight, tell the listeners, dial again."""
        if self._connection is not connection:
            return
        self._connection = None
        self._stop_sweep()
        self._fail_all()
        when = "in the handshake" if connection.peer is None else "after it had worked"
        self.why_down = connection.refusal or LinkDownError(f"the connection was lost {when}")
        if connection.peer is not None:
            if connection.damage is not None:
                self._owner.damage.damaged(self.node_id, "link to", "a reply", connection.damage)
            self._owner.link_is_lost(connection.peer, Role.DIALER)
        if connection.refusal is not None:
            self._owner.refusals.refused(self._name(), self.node_id, connection.refusal)
        # By another format it may be taken at once.
        is_refused = (
            connection.refusal is not None and connection.refusal.refusal is not RefusalCode.UNSUPPORTED_VERSION
        )
        self._dial_later(is_refused=is_refused)

    # Dialing

    def _dial(self) -> None:
        self._redial = None
        handshake = self._owner.new_handshake(Role.DIALER, self.node_id)
        self._connection = Connection(self, handshake, self._options, self._owner.connections)
        self._owner.gate.spawn(self._connect(self._connection), name=f"dial-{self.node_id}")

    async def _connect(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(self._options.connect_timeout):
                await self._owner.env.network.connect(
                    *self.address, lambda: connection, source_host=self._options.source_host
                )
        except OSError as error:  # TimeoutError is one
            # A connection that stood and was lost before the dial returned has been handled by on_lost.
            if self._connection is connection:
                connection.abort()
                self._connection = None
                self.why_down = error
                self._dial_later(is_refused=False)

    def _dial_later(self, *, is_refused: bool) -> None:
        if self._is_closed or self._owner.gate.is_closed:
            return
        # Between a half and the whole: two nodes that lost each other do not dial in step for ever.
        delay = self._backoff * self._owner.env.rng.uniform(0.5, 1.0)
        self._backoff = min(self._backoff * 2, self._options.backoff_max)
        if is_refused:
            delay = self._options.refused_backoff * self._owner.env.rng.uniform(1.0, 2.0)
        self._redial = self._loop.call_later(delay, self._dial)

    # Requests

    def _refuses(self, method: Method[Any, Any], connection: Connection, buffers: Sequence[Buffer]) -> RpcError | None:
        peer, options = connection.peer, self._options
        assert peer is not None
        if not peer.is_founded and not method.before_founding:
            self._ask_anew_if_silent(connection)
            return NotFoundedError(f"{method.name} needs a cluster id on both sides of the link to {self.node_id}")
        if not method.urgent and not self.has_room(sum(map(len, buffers))):
            self.refused_requests += 1
            return LinkBusyError(f"{self.unsent_bytes} bytes are unsent on the link to node {self.node_id}")
        if len(self._in_flight) >= in_flight_limit(options, method):
            return LinkBusyError(f"{len(self._in_flight)} requests to node {self.node_id} are unanswered")
        return None

    def _ask_anew_if_silent(self, connection: Connection) -> None:
        """Dial a peer that was in no cluster once more, if nothing has come from it for a while.

        A node that comes into the cluster closes such links. But the network may lose that, and nothing is ever sent
        over this one that would time out (seed 53129).
        """
        is_silent = self._loop.time() - connection.last_received >= self._options.silence_limit
        if is_silent and self._owner.is_founded():
            connection.abort()

    def _check_deadlines(self) -> None:
        self._sweep = self._loop.call_later(self._options.sweep_interval, self._check_deadlines)
        now = self._loop.time()
        late = [request_id for request_id, entry in self._in_flight.items() if entry.deadline <= now]
        for request_id in late:
            entry = self._in_flight.pop(request_id)
            if not entry.future.done():
                failed(entry.future, RpcTimeoutError(f"no reply from node {self.node_id} in time"))
        if late:
            self._last_timeout = now
        connection = self._connection
        if connection is None or connection.last_received >= self._waiting_since:
            return
        # The other end may be gone without a word (half-open): replies were due and nothing at all came.
        is_silent = now - self._waiting_since >= self._options.silence_limit
        if is_silent and self._last_timeout > connection.last_received:
            connection.abort()

    def _fail_all(self) -> None:
        in_flight, self._in_flight = self._in_flight, {}
        for entry in in_flight.values():
            if not entry.future.done():
                failed(entry.future, LinkDownError(f"the link to node {self.node_id} was lost"))

    def _stop_sweep(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _name(self) -> str:
        return f"node {self.node_id} at {self.address.host}:{self.address.port}"


def in_flight_limit(options: LinkOptions, method: Method[Any, Any]) -> int:
    """Return how many unanswered requests may be on a link for one more of `method` to be taken."""
    return options.max_in_flight + options.max_in_flight // 4 if method.urgent else options.max_in_flight


def failed(future: asyncio.Future[R], error: RpcError) -> asyncio.Future[R]:
    """End a future with `error`, without a log line if nobody ever looks."""
    future.set_exception(error)
    future.exception()
    return future


def _finish(entry: _InFlight, body: object) -> None:
    try:
        entry.future.set_result(parse_body(body, entry.reply))
    except MalformedBodyError as error:
        failed(entry.future, error)
