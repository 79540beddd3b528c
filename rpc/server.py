"""The inbound side: accepts links, calls the handlers of requests, writes their answers."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from model.ids import NodeId
from rpc.codec import REPLY, REQUEST, body_builtins, encode_error_reply, encode_header, number, parse_body
from rpc.connection import Connection
from rpc.errors import (
    ErrorCode,
    FrameTooLargeError,
    LinkBusyError,
    MalformedBodyError,
    MalformedFrameError,
    NotFoundedError,
    RpcError,
    UnknownMethodError,
)
from rpc.handshake import Role
from rpc.identity import Peer
from rpc.link import LinkOwner, in_flight_limit
from rpc.methods import Handler, Method

_logger = logging.getLogger("rpc")


class _Registered(NamedTuple):
    method: Method[Any, Any]
    handler: Handler[Any, Any]


class Server:
    """Serves the links that peers dialled.

    * At most one working inbound link per peer: a newer one replaces the older, whose other end is gone.
    * At most `max_handshakes` connections in their handshake: one more closes the oldest, so that strangers who
      connect and say nothing never keep a peer out.
    """

    def __init__(self, owner: LinkOwner) -> None:
        self._owner = owner
        self._options = owner.options
        self._methods: dict[int, _Registered] = {}
        # In arrival order: the first is the oldest.
        self._handshaking: dict[Connection, None] = {}
        self._links: dict[NodeId, Connection] = {}
        # Requests whose handler has returned a future, per connection. A connection is in here until it is lost.
        self._unanswered: dict[Connection, int] = {}
        self._is_closed = False

    def register(self, method: Method[Any, Any], handler: Handler[Any, Any]) -> None:
        """Say who answers a method."""
        assert method.number not in self._methods, f"method number {method.number} is taken"
        self._methods[method.number] = _Registered(method, handler)

    def accept(self) -> Connection:
        """Return the protocol of a new inbound connection."""
        handshake = self._owner.new_handshake(Role.ACCEPTOR, None)
        return Connection(self, handshake, self._options, self._owner.connections)

    def peer(self, node_id: NodeId) -> Peer | None:
        """Return who is on the working inbound link of that node."""
        connection = self._links.get(node_id)
        return connection.peer if connection is not None and connection.is_open else None

    def last_received(self, node_id: NodeId) -> float | None:
        """Return the loop time of the newest byte on the working inbound link of a node; None: there is none."""
        connection = self._links.get(node_id)
        return connection.last_received if connection is not None and connection.is_open else None

    def disconnect_if(self, is_wrong: Callable[[Peer], bool]) -> None:
        """Close the links of peers that are wrong by now, and unfinished handshakes; they dial again."""
        for connection in list(self._handshaking):
            connection.abort()
        for connection in list(self._links.values()):
            if connection.peer is not None and is_wrong(connection.peer):
                connection.close()

    def close(self) -> None:
        """Take no more connections."""
        self._is_closed = True

    # ConnectionOwner

    def on_connected(self, connection: Connection) -> None:
        """Make room among the handshakes for this one."""
        self._unanswered[connection] = 0
        if self._is_closed:
            connection.abort()
            return
        if len(self._handshaking) >= self._options.max_handshakes:
            oldest = next(iter(self._handshaking))
            del self._handshaking[oldest]
            oldest.abort()
        self._handshaking[connection] = None

    def on_handshake_done(self, connection: Connection, peer: Peer) -> None:
        """Let the peer call methods."""
        self._handshaking.pop(connection, None)
        node_id = peer.replica.node_id
        replaced = self._links.get(node_id)
        if not peer.is_founded and replaced is not None and replaced.peer is not None and replaced.peer.is_founded:
            # Whoever asks to join under a node id takes no link from the node that has it.
            return
        self._links[node_id] = connection
        if replaced is not None:
            replaced.abort()
        self._owner.refusals.works(f"node {node_id} from {connection.remote_host}", node_id)

    def on_frame(self, connection: Connection, items: list[object], payload: memoryview) -> None:
        """Call the handler of one request."""
        if items[0] != REQUEST or len(items) != 4:
            raise MalformedFrameError(f"a frame of kind {items[0]!r} and {len(items)} items is no request")
        request_id, method_number = number(items[1]), number(items[2])
        try:
            answer = self._call(connection, method_number, items[3], payload)
        except RpcError as error:
            if isinstance(error, MalformedBodyError):
                self._report_damage(connection, "a request", error)
            self._write_error(connection, request_id, error.code, str(error))
            return
        if not asyncio.isfuture(answer):
            self._reply(connection, request_id, answer)
        elif answer.done():
            self._reply_with_outcome(connection, request_id, answer)
        else:
            self._unanswered[connection] += 1
            answer.add_done_callback(partial(self._answer_later, connection, request_id))

    def on_lost(self, connection: Connection) -> None:
        """Forget the connection; what its handlers still answer goes nowhere."""
        self._unanswered.pop(connection, None)
        self._handshaking.pop(connection, None)
        if connection.refusal is not None:
            claimed = connection.claimed_node
            # The port tells nothing and is another one each time: what was said once need not be said again.
            who = f"{'an unknown node' if claimed is None else f'node {claimed}'} from {connection.remote_host}"
            # Who claims to be a node whose link works is somebody else.
            is_other = claimed is not None and self.peer(claimed) is not None
            self._owner.refusals.refused(who, None if is_other else claimed, connection.refusal)
        if (peer := connection.peer) is None:
            return
        if self._links.get(peer.replica.node_id) is connection:
            del self._links[peer.replica.node_id]
        if connection.damage is not None:
            self._report_damage(connection, "a frame", connection.damage)
        self._owner.link_is_lost(peer, Role.ACCEPTOR)

    # Requests

    def _report_damage(self, connection: Connection, what: str, error: RpcError) -> None:
        assert connection.peer is not None
        self._owner.damage.damaged(connection.peer.replica.node_id, "link from", what, error)

    def _call(self, connection: Connection, method_number: int, body: object, payload: memoryview) -> object:
        registered = self._methods.get(method_number)
        if registered is None:
            raise UnknownMethodError(f"method {method_number} is unknown here")
        method, peer = registered.method, connection.peer
        assert peer is not None
        if not peer.is_founded and not method.before_founding:
            raise NotFoundedError(f"{method.name} needs a cluster id on both sides")
        if self._unanswered[connection] >= in_flight_limit(self._options, method):
            raise LinkBusyError(f"{self._unanswered[connection]} requests of this link are unanswered")
        if payload and not method.takes_payload:
            raise MalformedBodyError(f"{method.name} takes no payload, and {len(payload)} bytes came with it")
        return registered.handler(peer, parse_body(body, method.request), payload)

    def _answer_later(self, connection: Connection, request_id: int, future: asyncio.Future[object]) -> None:
        if connection in self._unanswered:
            self._unanswered[connection] -= 1
        self._reply_with_outcome(connection, request_id, future)

    def _reply_with_outcome(self, connection: Connection, request_id: int, future: asyncio.Future[object]) -> None:
        if future.cancelled():
            self._write_error(connection, request_id, ErrorCode.CANCELLED, "the request was given up here")
        elif (error := future.exception()) is None:
            self._reply(connection, request_id, future.result())
        elif isinstance(error, RpcError):
            self._write_error(connection, request_id, error.code, str(error))
        else:
            peer = connection.peer
            where = "a link" if peer is None else f"link from node {peer.replica.node_id}"
            _logger.error("%s: a request failed in a way it should not", where, exc_info=error)
            self._write_error(connection, request_id, ErrorCode.INTERNAL, type(error).__name__)

    def _reply(self, connection: Connection, request_id: int, body: object) -> None:
        try:
            self._write(connection, encode_header(REPLY, request_id, body_builtins(body)))
        except FrameTooLargeError as error:
            self._write_error(connection, request_id, error.code, str(error))

    def _write_error(self, connection: Connection, request_id: int, code: int, message: str) -> None:
        self._write(connection, encode_error_reply(request_id, code, message))

    def _write(self, connection: Connection, header: bytes) -> None:
        if not connection.is_open:
            return
        if connection.unsent_bytes > self._options.send_buffer_bytes:
            # It sends requests and does not read the answers.
            connection.abort()
            return
        connection.write(header)
