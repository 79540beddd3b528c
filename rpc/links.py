"""All node links of this node: what raft/ and cluster/ use."""

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TypeVar

from model.error_text import reason_of
from model.ids import DirectoryId, NodeId, Replica
from rpc.connection import OpenConnections
from rpc.damage_log import DamageLog
from rpc.errors import HandshakeRefusedError, LinkDownError, RefusalCode, RpcError
from rpc.framing import Buffer
from rpc.handshake import FORMAT_VERSION, FORMAT_WITHOUT_EPOCHS, NONCE_BYTES, Handshake, KnownReplicas, Role
from rpc.identity import Address, Epoch, KnownReplica, LinkIdentity, Peer
from rpc.link import LinkOwner, OutgoingLink, failed
from rpc.methods import AsyncHandler, Handler, Method
from rpc.options import LinkOptions
from rpc.refusal_log import RefusalLog
from rpc.server import Server
from runtime.environment import Environment
from runtime.gate import Gate
from runtime.network import Listener

Q = TypeVar("Q")
R = TypeVar("R")

LinkListener = Callable[[NodeId], None]


# Of a broker that works more is heard: it asks over silent links more often (`idle_probe`).
SILENCE_SECONDS = 5.0


class Links:
    """One outgoing and one inbound link per peer.

    This node's requests go out over the link it dialled, and their replies come back over the same one. Nothing is
    sent twice: a request whose link was lost fails, and its outcome is unknown.
    """

    def __init__(self, env: Environment, identity: LinkIdentity, options: LinkOptions) -> None:
        assert identity.secret != b"", "an empty secret is no secret; None means none"
        self._env = env
        self._identity = identity
        self._gate = Gate(f"links-{identity.replica.node_id}")
        self._connections = OpenConnections()
        self._known = KnownReplicas({})
        self._prefers_epochs = False
        # By which format each node was dialled last.
        self._dialled_formats: dict[NodeId, int] = {}
        self._reset_listeners: list[LinkListener] = []
        self._up_listeners: list[LinkListener] = []
        self._lost_listeners: list[Callable[[Peer], None]] = []
        self._outgoing: dict[NodeId, OutgoingLink] = {}
        self._listener: Listener | None = None
        self._owner = LinkOwner(
            *(env, options, self._gate, RefusalLog(), DamageLog(), self._connections),
            self._new_handshake,
            self._link_is_up,
            self._link_is_lost,
            lambda: self._identity.cluster_id is not None,
        )
        self._server = Server(self._owner)

    @property
    def cluster_id(self) -> str | None:
        """The cluster id of this node; None before founding."""
        return self._identity.cluster_id

    def register(self, method: Method[Q, R], handler: Handler[Q, R]) -> None:
        """Answer `method` by `handler`, called synchronously by the reader in arrival order.

        It returns the reply or a future of it. An RpcError that it raises, or that the future ends with, becomes an
        error reply with the error's `code`; so does any other exception of the future (INTERNAL). The payload view
        is read-only and stays valid.
        """
        self._server.register(method, handler)

    def register_async(self, method: Method[Q, R], handler: AsyncHandler[Q, R]) -> None:
        """Answer `method` by a coroutine function; each call is a task that ends with these links."""

        def spawn(peer: Peer, request: Q, payload: memoryview) -> asyncio.Future[R]:
            future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
            self._gate.spawn(_run(handler, future, peer, request, payload), name=method.name)
            return future

        self._server.register(method, spawn)

    async def start(self, host: str, port: int) -> int:
        """Accept links on `host:port` (0 = any free port); return the port.

        Raises:
            OSError: The address cannot be bound.
        """
        assert self._listener is None
        try:
            self._listener = await self._env.network.listen(host, port, self._server.accept)
        except OSError as error:
            raise OSError(
                error.errno, f"cannot listen for node links on {host}:{port}: {error.strerror or reason_of(error)}"
            ) from error
        return self._listener.port

    def set_cluster_id(self, cluster_id: str) -> None:
        """Say which cluster this node belongs to, once; links made before that are made again.

        They are closed by a later step of the loop: a handler may call this and still answer.
        """
        assert self._identity.cluster_id in {None, cluster_id}
        if self._identity.cluster_id is None:
            self._identity = replace(self._identity, cluster_id=cluster_id)
            asyncio.get_running_loop().call_soon(self._reconnect_if, lambda peer: not peer.is_founded)

    def set_epoch(self, epoch: Epoch) -> None:
        """Say when this node was admitted; before `set_cluster_id`."""
        self._identity = replace(self._identity, epoch=epoch)

    def set_known_replicas(self, known: Mapping[NodeId, KnownReplica], retired: Set[DirectoryId] = frozenset()) -> None:
        """Say which data directory each node was admitted with, and which never count again.

        A link with another directory, unless it has a later epoch, is closed and refused.
        """
        self._know(self._known._replace(by_node=dict(known), retired=frozenset(retired)))

    def prefer_epochs(self, *, is_preferred: bool = True) -> None:
        """Dial by format 4 first from now on: all brokers are known, or expected, to have it."""
        self._prefers_epochs = is_preferred

    def require_epochs(self) -> None:
        """Make links by format 4 only from now on; those that were made by format 3 are made again.

        So are those of peers in no cluster: an older version could go on to found one with this node, which would
        refuse its links as soon as that was done.
        """
        self._know(self._known._replace(formats=(FORMAT_VERSION,)))

    def _know(self, known: KnownReplicas) -> None:
        if known != self._known:
            self._known = known
            self._reconnect_if(self._is_refused_by_now)

    def _is_refused_by_now(self, peer: Peer) -> bool:
        if peer.link_format not in self._known.formats:
            return True
        if not peer.is_founded:
            return False
        if peer.replica.directory_id in self._known.retired:
            return True
        known = self._known.by_node.get(peer.replica.node_id)
        if known is None or known.directory_id == peer.replica.directory_id:
            return False
        return peer.epoch is None or peer.epoch <= known.epoch

    def set_peers(self, peers: Mapping[NodeId, Address]) -> None:
        """Keep links to exactly these nodes; this node itself is skipped."""
        assert not self._gate.is_closed
        wanted = {node_id: peers[node_id] for node_id in peers if node_id != self._identity.replica.node_id}
        self._owner.refusals.peers = frozenset(wanted)
        for node_id, link in list(self._outgoing.items()):
            if wanted.get(node_id) != link.address:
                link.close()
                del self._outgoing[node_id]
        for node_id, address in wanted.items():
            if node_id not in self._outgoing:
                self._outgoing[node_id] = OutgoingLink(node_id, address, self._owner)

    def is_up(self, node_id: NodeId) -> bool:
        """Whether the outgoing link to a node works."""
        link = self._outgoing.get(node_id)
        return link is not None and link.is_up

    def why_down(self, node_id: NodeId) -> RpcError | OSError | None:
        """Return why the outgoing link to a node does not work: the outcome of the newest attempt.

        None while it works, and before the first attempt has ended. A HandshakeRefusedError: one of the two nodes
        refuses the other.
        """
        link = self._outgoing.get(node_id)
        return None if link is None else link.why_down

    @property
    def refusals(self) -> Mapping[NodeId, HandshakeRefusedError]:
        """The newest refusal between this node and each peer since a link between them last worked, in any direction.

        It stays when the other node has ended since. Of a handshake that the peer began, the node id is unproven.
        """
        return self._owner.refusals.newest

    def note_refusal(self, node_id: NodeId, error: HandshakeRefusedError) -> None:
        """A peer is refused for a reason that is found after the handshake: it counts as a refused one."""
        self._owner.refusals.refused(f"node {node_id}", node_id, error)

    @property
    def refusal_times(self) -> Mapping[NodeId, float]:
        """When each of `refusals` came; loop time."""
        return self._owner.refusals.times

    def has_room(self, node_id: NodeId, size: int) -> bool:
        """Whether a payload of `size` bytes would not be refused because too much is unsent on the link to a node."""
        link = self._outgoing.get(node_id)
        return link is not None and link.has_room(size)

    def outgoing(self) -> list[OutgoingLink]:
        """Return the links to the peers, up or not, for their figures."""
        return list(self._outgoing.values())

    @property
    def damaged(self) -> Mapping[NodeId, int]:
        """How many frames and requests of each peer have arrived damaged; nobody without any."""
        return self._owner.damage.counts

    def replica_of(self, node_id: NodeId) -> Replica | None:
        """Return which data directory answers as that node; None while no link with it works."""
        link = self._outgoing.get(node_id)
        peer = (link.peer if link is not None else None) or self._server.peer(node_id)
        return peer.replica if peer is not None else None

    def heard_replica(self, node_id: NodeId, within: float) -> Replica | None:
        """Return which data directory answers as that node; None: none does, or none was heard of for so many seconds.

        An inbound link of a machine that has lost its power stays open for as long as nothing is sent over it: for
        ever, where this node has nothing to answer.
        """
        link = self._outgoing.get(node_id)
        if link is not None and link.peer is not None:
            return link.peer.replica
        received = self._server.last_received(node_id)
        is_heard = received is not None and received >= asyncio.get_running_loop().time() - within
        return self.replica_of(node_id) if is_heard else None

    def send(
        self, node_id: NodeId, method: Method[Q, R], body: Q, buffers: Sequence[Buffer] = (), *, timeout: float
    ) -> asyncio.Future[R]:
        """Write a request now; requests to one node go out in call order, but urgent ones pass all others.

        Args:
            node_id: A node of `set_peers`.
            method: What is asked.
            body: Its body.
            buffers: Their concatenation is the payload. They must not change any more, not even when the future is
                done: a request that timed out is still sent.
            timeout: Seconds until the future fails with RpcTimeoutError (or up to `sweep_interval` later).

        Returns:
            A future of the reply's body. It fails with LinkDownError (at once if the link is not up), RpcTimeoutError,
            LinkBusyError, NotFoundedError or FrameTooLargeError (the last three: nothing was sent), RemoteError or
            MalformedBodyError. Nobody has to wait for it.
        """
        link = self._outgoing.get(node_id)
        if link is None:
            future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
            return failed(future, LinkDownError(f"node {node_id} is not among the peers"))
        return link.send(method, body, buffers, timeout)

    def add_reset_listener(self, listener: LinkListener) -> None:
        """Call `listener` once for each working link, to or from a node, that is lost (not by `close`)."""
        self._reset_listeners.append(listener)

    def add_up_listener(self, listener: LinkListener) -> None:
        """Call `listener` when the outgoing link to a node is up."""
        self._up_listeners.append(listener)

    def add_lost_listener(self, listener: Callable[[Peer], None]) -> None:
        """Call `listener` with the other end when the outgoing link to a node, which was up, is lost (not by `close`).

        Links that were made before the cluster was founded are made again then, on purpose: their other end was not
        founded.
        """
        self._lost_listeners.append(listener)

    async def close(self) -> None:
        """Stop listening and dialing, abort every link, end the handlers' tasks."""
        self._reset_listeners.clear()
        self._up_listeners.clear()
        self._lost_listeners.clear()
        if self._listener is not None:
            self._listener.close()
        for link in self._outgoing.values():
            link.close()
        await self._gate.close()
        self._server.close()
        await self._connections.abort_all(self._owner.options.close_timeout)
        self._outgoing.clear()

    def _new_handshake(self, role: Role, dialled_node: NodeId | None) -> Handshake:
        nonce = self._env.rng.randbytes(NONCE_BYTES)
        return Handshake(
            role,
            self._identity,
            nonce,
            dialled_node=dialled_node,
            known=self._known,
            link_format=self._format_for(dialled_node),
        )

    def _format_for(self, dialled_node: NodeId | None) -> int:
        """Return by which format to dial: the preferred one, and the other one where the peer has refused that."""
        formats = self._known.formats
        if dialled_node is None:
            return formats[0]
        found = FORMAT_VERSION if self._prefers_epochs else formats[0]
        why = self.why_down(dialled_node)
        if isinstance(why, HandshakeRefusedError) and why.by_peer and why.refusal is RefusalCode.UNSUPPORTED_VERSION:
            former = self._dialled_formats.get(dialled_node)
            found = next((each for each in (FORMAT_VERSION, *formats) if each != former), FORMAT_VERSION)
        self._dialled_formats[dialled_node] = found
        return found

    def _reconnect_if(self, is_wrong: Callable[[Peer], bool]) -> None:
        for link in self._outgoing.values():
            link.reconnect_if(is_wrong)
        self._server.disconnect_if(is_wrong)

    def _link_is_up(self, peer: Peer) -> None:
        for listener in self._up_listeners:
            listener(peer.replica.node_id)

    def _link_is_lost(self, peer: Peer, role: Role) -> None:
        if not peer.is_founded and FORMAT_WITHOUT_EPOCHS not in self._known.formats:
            # Whoever asks to join under a node id is not the node that has it: its end says nothing of that one.
            return
        for listener in self._reset_listeners:
            listener(peer.replica.node_id)
        for lost_listener in self._lost_listeners if role is Role.DIALER else ():
            lost_listener(peer)


async def _run(
    handler: AsyncHandler[Q, R], future: asyncio.Future[R], peer: Peer, request: Q, payload: memoryview
) -> None:
    try:
        reply = await handler(peer, request, payload)
        if not future.done():
            future.set_result(reply)
    except RpcError as error:
        failed(future, error)
    finally:
        # Cancelled, or died of a bug: the gate reports it, the caller gets an answer.
        future.cancel()
