"""Who may talk to whom, decided before the first request. A state machine over header items; no I/O.

    dialer                                  acceptor
    [HELLO, version, cluster, node, dir, nonce, ...]  ->
                                            <-   [HELLO, version, cluster, node, dir, nonce, ...]
    [PROOF, hmac]                                ->
                                            <-   [PROOF, hmac]

Format 4 adds the generation of raft0, and the generation and the index of the node's epoch (RFC 0020). The dialer
chooses the format, the acceptor answers in it. A cluster uses format 4 from level 1 of `raftka.membership` on. It
refuses format 3 from then on, so that no older version comes back.

A proof is the HMAC-SHA256, keyed with the cluster secret, of the prover's role and of everything both hellos said.
The role keeps a proof from being reflected, the two nonces keep it from being replayed, and the acceptor proves
nothing to a dialer that has not proved itself. Either side may answer [REFUSED, code, message] instead, and closes.
"""

import hmac
from collections.abc import Mapping, Sequence, Set
from enum import IntEnum
from typing import NamedTuple

from model.ids import DirectoryId, NodeId, Replica
from rpc.codec import HELLO, MAX_MESSAGE_CHARACTERS, PROOF, REFUSED, encode_header
from rpc.errors import RETIRED, SAID_BY_PEER, HandshakeRefusedError, MalformedFrameError, RefusalCode
from rpc.identity import FOUNDING_EPOCH, Epoch, KnownReplica, LinkIdentity, Peer

# The version of everything on the link: framing, handshake and header layout. Epochs came with 4; all else is the same.
FORMAT_VERSION = 4
FORMAT_WITHOUT_EPOCHS = 3

NONCE_BYTES = 32

_MAX_DIRECTORY_ID = 64
_MAX_CLUSTER_ID = 128
_MAX_NODE_ID = (1 << 31) - 1
_MAX_INDEX = (1 << 63) - 1
_HELLO_ITEMS = {FORMAT_WITHOUT_EPOCHS: 6, FORMAT_VERSION: 9}


class Role(IntEnum):
    """Which end of a connection."""

    DIALER = 0
    ACCEPTOR = 1


class _Hello(NamedTuple):
    cluster_id: str | None
    replica: Replica
    nonce: bytes
    generation: int
    epoch: Epoch


class KnownReplicas(NamedTuple):
    """What a node knows of others when a handshake begins.

    Attributes:
        by_node: Who was admitted with which directory.
        retired: Directories that never count again.
        formats: The link formats that are accepted.
    """

    by_node: Mapping[NodeId, KnownReplica]
    retired: Set[DirectoryId] = frozenset()
    formats: Sequence[int] = (FORMAT_WITHOUT_EPOCHS, FORMAT_VERSION)


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
        known: KnownReplicas,
        link_format: int = FORMAT_WITHOUT_EPOCHS,
    ) -> None:
        """Begin one.

        Args:
            role: Which end this is.
            identity: Of this node.
            nonce: Random, NONCE_BYTES long.
            dialled_node: Who should answer; None for the acceptor.
            known: See `KnownReplicas`.
            link_format: The dialer's; the acceptor takes what comes, if `known` has it.
        """
        assert len(nonce) == NONCE_BYTES
        assert (role is Role.DIALER) == (dialled_node is not None)
        self._role = role
        self._secret = identity.secret or b""
        self._own = _Hello(identity.cluster_id, identity.replica, nonce, identity.generation, identity.epoch)
        self._dialled_node = dialled_node
        self._known = known
        self._format = link_format
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
        formats = self._known.formats if self._role is Role.ACCEPTOR else [self._format]
        self._format, theirs = _parse_hello(items, formats)
        self._theirs = theirs
        self._check(theirs)
        if self._role is Role.ACCEPTOR:
            return [self._hello_header()]
        return [encode_header(PROOF, self._proof(Role.DIALER, theirs))]

    def _check(self, theirs: _Hello) -> None:
        own_cluster, own_node = self._own.cluster_id, self._own.replica.node_id
        node_id = theirs.replica.node_id
        if own_cluster is not None and theirs.cluster_id is not None and own_cluster != theirs.cluster_id:
            message = f"node {node_id} belongs to cluster {theirs.cluster_id!r}, node {own_node} to {own_cluster!r}"
            raise HandshakeRefusedError(RefusalCode.WRONG_CLUSTER, message)
        if self._dialled_node is not None and node_id != self._dialled_node:
            message = f"the address of node {self._dialled_node} is answered by node {node_id}"
            raise HandshakeRefusedError(RefusalCode.WRONG_NODE, message)
        if node_id == own_node:
            raise HandshakeRefusedError(RefusalCode.WRONG_NODE, f"two nodes have the id {node_id}")
        # Where brokers join, who is in no cluster yet may ask to; what it says of its directory binds nobody.
        is_stranger = theirs.cluster_id is None and FORMAT_WITHOUT_EPOCHS not in self._known.formats
        if not is_stranger:
            self._check_directory(theirs)

    def _check_directory(self, theirs: _Hello) -> None:
        node_id, directory_id = theirs.replica
        is_founded = theirs.cluster_id is not None and self._own.cluster_id is not None
        if is_founded and self._format >= FORMAT_VERSION and theirs.generation != self._own.generation:
            message = (
                f"node {node_id} knows generation {theirs.generation} of raft0, and node"
                f" {self._own.replica.node_id} generation {self._own.generation}: raft0 was recovered by hand, and the"
                " one of the lower generation must join anew with an empty data.dir"
            )
            raise HandshakeRefusedError(RefusalCode.WRONG_CLUSTER, message)
        if directory_id in self._known.retired:
            message = (
                f"the data directory {directory_id} of node {node_id}{RETIRED}: start node {node_id}"
                f" with an empty data.dir, or, if it was removed from the cluster, leave it stopped"
            )
            raise HandshakeRefusedError(RefusalCode.WRONG_DIRECTORY, message)
        known = self._known.by_node.get(node_id)
        if known is None or known.directory_id == directory_id:
            return
        # A later epoch: it was admitted with another directory, and this node has not heard of it yet.
        if self._format < FORMAT_VERSION or theirs.epoch <= known.epoch:
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
        epoch = theirs.epoch if self._format >= FORMAT_VERSION else None
        self.peer = Peer(theirs.replica, theirs.cluster_id, is_founded, self._format, epoch)
        if self._role is Role.DIALER:
            return []
        return [encode_header(PROOF, self._proof(Role.ACCEPTOR, theirs))]

    def _hello_header(self) -> bytes:
        own = self._own
        return encode_header(HELLO, self._format, own.cluster_id, *own.replica, own.nonce, *self._epochs(own))

    def _epochs(self, *hellos: _Hello) -> list[int]:
        """Return what format 4 adds to a hello, or to the proof of two."""
        if self._format < FORMAT_VERSION:
            return []
        return [number for hello in hellos for number in (hello.generation, *hello.epoch)]

    def _proof(self, prover: Role, theirs: _Hello) -> bytes:
        is_dialer = self._role is Role.DIALER
        dialer, acceptor = (self._own, theirs) if is_dialer else (theirs, self._own)
        # cbor2 frames each item, so no two different handshakes give the same bytes.
        said = encode_header(
            *(int(prover), self._format),
            *(dialer.nonce, acceptor.nonce),
            *(*dialer.replica, *acceptor.replica),
            *(dialer.cluster_id, acceptor.cluster_id),
            *self._epochs(dialer, acceptor),
        )
        return hmac.digest(self._secret, said, "sha256")


def refusal_header(error: HandshakeRefusedError | MalformedFrameError) -> bytes:
    """Return the header that tells the peer why."""
    if isinstance(error, HandshakeRefusedError):
        return encode_header(REFUSED, int(error.refusal), error.message[:MAX_MESSAGE_CHARACTERS])
    return encode_header(REFUSED, int(RefusalCode.MALFORMED), str(error)[:MAX_MESSAGE_CHARACTERS])


def _parse_hello(items: list[object], formats: Sequence[int]) -> tuple[int, _Hello]:
    # The version first: another one may have any other shape behind it.
    version = items[1] if len(items) > 1 else None
    if type(version) is not int or version not in formats:
        accepted = " and ".join(map(str, formats))
        message = f"link format {str(version)[:20]} is not taken here; this is format {accepted}"
        if version == FORMAT_WITHOUT_EPOCHS:
            message += ": the cluster uses raftka.membership at level 1; start a version that has it"
        raise HandshakeRefusedError(RefusalCode.UNSUPPORTED_VERSION, message)
    if len(items) != _HELLO_ITEMS[version]:
        raise MalformedFrameError(f"a hello of {len(items)} items")
    _, _, cluster_id, node_id, directory_id, nonce = items[:6]
    if cluster_id is not None and not (isinstance(cluster_id, str) and 0 < len(cluster_id) <= _MAX_CLUSTER_ID):
        raise MalformedFrameError("a hello with a malformed cluster id")
    if type(node_id) is not int or not 0 <= node_id <= _MAX_NODE_ID:
        raise MalformedFrameError("a hello with a malformed node id")
    if not isinstance(directory_id, str) or not 0 < len(directory_id) <= _MAX_DIRECTORY_ID:
        raise MalformedFrameError("a hello with a malformed directory id")
    if not isinstance(nonce, bytes) or len(nonce) != NONCE_BYTES:
        raise MalformedFrameError("a hello with a malformed nonce")
    numbers = items[6:] or [0, *FOUNDING_EPOCH]
    generation, epoch = _number(numbers[0]), Epoch(_number(numbers[1]), _number(numbers[2]))
    replica = Replica(NodeId(node_id), DirectoryId(directory_id))
    return version, _Hello(cluster_id, replica, nonce, generation, epoch)


def _number(item: object) -> int:
    if type(item) is not int or not 0 <= item <= _MAX_INDEX:
        raise MalformedFrameError("a hello with a malformed generation or epoch")
    return item


def _refused_by_peer(items: list[object]) -> HandshakeRefusedError | MalformedFrameError:
    if len(items) != 3 or not isinstance(items[2], str):
        return MalformedFrameError("a refusal that is not [kind, code, message]")
    try:
        refusal = RefusalCode(items[1])  # type: ignore[arg-type]
    except ValueError:
        return MalformedFrameError("a refusal for an unknown reason")
    message = items[2][:MAX_MESSAGE_CHARACTERS]
    return HandshakeRefusedError(refusal, f"{SAID_BY_PEER}{message}", by_peer=True)
