"""Who may talk to whom, decided before the first request. A state machine over header items; no I/O.

    dialer                                  acceptor
    [HELLO, version, cluster, node, dir, nonce]  ->
                                            <-   [HELLO, version, cluster, node, dir, nonce]
    [PROOF, hmac]                                ->
                                            <-   [PROOF, hmac]

A proof is the HMAC-SHA256, keyed with the cluster secret, of the prover's role and of everything both hellos said.
The role keeps a proof from being reflected, the two nonces keep it from being replayed, and the acceptor proves
nothing to a dialer that has not proved itself. Either side may answer [REFUSED, code, message] instead, and closes.
"""

import hmac
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from model.ids import DirectoryId, NodeId, Replica
from rpc.codec import HELLO, MAX_MESSAGE_CHARACTERS, PROOF, REFUSED, encode_header
from rpc.errors import HandshakeRefusedError, MalformedFrameError, RefusalCode
from rpc.identity import LinkIdentity, Peer

# The version of everything on the link: framing, handshake and header layout.
FORMAT_VERSION = 3

NONCE_BYTES = 32

_MAX_DIRECTORY_ID = 64
_MAX_CLUSTER_ID = 128
_MAX_NODE_ID = (1 << 31) - 1


class Role(IntEnum):
    """Which end of a connection."""

    DIALER = 0
    ACCEPTOR = 1


class _Hello(NamedTuple):
    cluster_id: str | None
    replica: Replica
    nonce: bytes


class Handshake:
    """One end's handshake on one connection.

    Send what `start` and `receive` return, in order; it is done once `peer` is set. After a raised error the
    connection is of no use: send `refusal_header(error)` unless the refusal came from the peer, and close.
    """

    def __init__(
        self,
        role: Role,
        identity: LinkIdentity,
        nonce: bytes,
        *,
        dialled_node: NodeId | None,
        expected_directories: Mapping[NodeId, DirectoryId],
    ) -> None:
        assert len(nonce) == NONCE_BYTES
        assert (role is Role.DIALER) == (dialled_node is not None)
        self._role = role
        self._secret = identity.secret or b""
        self._own = _Hello(identity.cluster_id, identity.replica, nonce)
        self._dialled_node = dialled_node
        self._expected_directories = expected_directories
        self._theirs: _Hello | None = None
        self.peer: Peer | None = None

    @property
    def claimed_node(self) -> NodeId | None:
        """The node id the peer's hello named, unproven."""
        return self._theirs.replica.node_id if self._theirs is not None else None

    def start(self) -> list[bytes]:
        """Return the headers to send at once."""
        return [self._hello_header()] if self._role is Role.DIALER else []

    def receive(self, items: list[object]) -> list[bytes]:
        """Take the items of one received header; return the headers to answer with.

        Raises:
            HandshakeRefusedError: One side does not want the other.
            MalformedFrameError: The frame does not belong here.
        """
        assert self.peer is None
        kind = items[0]
        if kind == REFUSED:
            raise _refused_by_peer(items)
        if kind == HELLO and self._theirs is None:
            return self._receive_hello(items)
        if kind == PROOF and self._theirs is not None:
            return self._receive_proof(items, self._theirs)
        raise MalformedFrameError(f"a frame of kind {kind!r} came out of turn in the handshake")

    def _receive_hello(self, items: list[object]) -> list[bytes]:
        self._theirs = theirs = _parse_hello(items)
        self._check(theirs)
        if self._role is Role.ACCEPTOR:
            return [self._hello_header()]
        return [encode_header(PROOF, self._proof(Role.DIALER, theirs))]

    def _check(self, theirs: _Hello) -> None:
        own_cluster, own_node = self._own.cluster_id, self._own.replica.node_id
        node_id, directory_id = theirs.replica
        if own_cluster is not None and theirs.cluster_id is not None and own_cluster != theirs.cluster_id:
            message = f"node {node_id} belongs to cluster {theirs.cluster_id!r}, node {own_node} to {own_cluster!r}"
            raise HandshakeRefusedError(RefusalCode.WRONG_CLUSTER, message)
        if self._dialled_node is not None and node_id != self._dialled_node:
            message = f"the address of node {self._dialled_node} is answered by node {node_id}"
            raise HandshakeRefusedError(RefusalCode.WRONG_NODE, message)
        if node_id == own_node:
            raise HandshakeRefusedError(RefusalCode.WRONG_NODE, f"two nodes have the id {node_id}")
        expected = self._expected_directories.get(node_id)
        if expected is not None and expected != directory_id:
            message = (
                f"node {node_id} came with data directory {directory_id}, but is registered with another one: "
                "bring back its directory"
            )
            raise HandshakeRefusedError(RefusalCode.WRONG_DIRECTORY, message)

    def _receive_proof(self, items: list[object], theirs: _Hello) -> list[bytes]:
        proof = items[1] if len(items) == 2 else None
        if not isinstance(proof, bytes):
            raise MalformedFrameError("a proof that is not [kind, bytes]")
        prover = Role.ACCEPTOR if self._role is Role.DIALER else Role.DIALER
        if not hmac.compare_digest(proof, self._proof(prover, theirs)):
            message = f"node {theirs.replica.node_id} does not have the cluster secret of {self._own.replica.node_id}"
            raise HandshakeRefusedError(RefusalCode.WRONG_SECRET, message)
        is_founded = self._own.cluster_id is not None and theirs.cluster_id is not None
        self.peer = Peer(theirs.replica, theirs.cluster_id, is_founded)
        if self._role is Role.DIALER:
            return []
        return [encode_header(PROOF, self._proof(Role.ACCEPTOR, theirs))]

    def _hello_header(self) -> bytes:
        own = self._own
        return encode_header(HELLO, FORMAT_VERSION, own.cluster_id, *own.replica, own.nonce)

    def _proof(self, prover: Role, theirs: _Hello) -> bytes:
        is_dialer = self._role is Role.DIALER
        dialer, acceptor = (self._own, theirs) if is_dialer else (theirs, self._own)
        # cbor2 frames each item, so no two different handshakes give the same bytes.
        said = encode_header(
            *(int(prover), FORMAT_VERSION),
            *(dialer.nonce, acceptor.nonce),
            *(*dialer.replica, *acceptor.replica),
            *(dialer.cluster_id, acceptor.cluster_id),
        )
        return hmac.digest(self._secret, said, "sha256")


def refusal_header(error: HandshakeRefusedError | MalformedFrameError) -> bytes:
    """Return the header that tells the peer why."""
    if isinstance(error, HandshakeRefusedError):
        return encode_header(REFUSED, int(error.refusal), error.message[:MAX_MESSAGE_CHARACTERS])
    return encode_header(REFUSED, int(RefusalCode.MALFORMED), str(error)[:MAX_MESSAGE_CHARACTERS])


def _parse_hello(items: list[object]) -> _Hello:
    # The version first: another one may have any other shape behind it.
    version = items[1] if len(items) > 1 else None
    if version != FORMAT_VERSION:
        message = f"link format {str(version)[:20]} is unknown here; this is format {FORMAT_VERSION}"
        raise HandshakeRefusedError(RefusalCode.UNSUPPORTED_VERSION, message)
    if len(items) != 6:
        raise MalformedFrameError(f"a hello of {len(items)} items")
    _, _, cluster_id, node_id, directory_id, nonce = items
    if cluster_id is not None and not (isinstance(cluster_id, str) and 0 < len(cluster_id) <= _MAX_CLUSTER_ID):
        raise MalformedFrameError("a hello with a malformed cluster id")
    if type(node_id) is not int or not 0 <= node_id <= _MAX_NODE_ID:
        raise MalformedFrameError("a hello with a malformed node id")
    if not isinstance(directory_id, str) or not 0 < len(directory_id) <= _MAX_DIRECTORY_ID:
        raise MalformedFrameError("a hello with a malformed directory id")
    if not isinstance(nonce, bytes) or len(nonce) != NONCE_BYTES:
        raise MalformedFrameError("a hello with a malformed nonce")
    return _Hello(cluster_id, Replica(NodeId(node_id), DirectoryId(directory_id)), nonce)


def _refused_by_peer(items: list[object]) -> HandshakeRefusedError | MalformedFrameError:
    if len(items) != 3 or not isinstance(items[2], str):
        return MalformedFrameError("a refusal that is not [kind, code, message]")
    try:
        refusal = RefusalCode(items[1])  # type: ignore[arg-type]
    except ValueError:
        return MalformedFrameError("a refusal for an unknown reason")
    message = items[2][:MAX_MESSAGE_CHARACTERS]
    return HandshakeRefusedError(refusal, f"the peer says: {message}", by_peer=True)
