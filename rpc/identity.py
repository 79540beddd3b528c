"""Who this node is, and whom it talks to."""

from dataclasses import dataclass, field
from typing import NamedTuple

from model.ids import DirectoryId, Replica


class Address(NamedTuple):
    """Where a peer's links listen."""

    host: str
    port: int


class Epoch(NamedTuple):
    """When a node was admitted with its data directory: of two directories, the later epoch counts (RFC 0020).

    Attributes:
        generation: How often raft0 had been recovered by hand by then.
        raft0_index: Of the command in raft0's log; 1 for founders.
    """

    generation: int
    raft0_index: int


FOUNDING_EPOCH = Epoch(0, 1)


class KnownReplica(NamedTuple):
    """With which data directory a node was admitted, as far as this node knows."""

    directory_id: DirectoryId
    epoch: Epoch = FOUNDING_EPOCH


@dataclass(frozen=True, slots=True)
class LinkIdentity:
    """What this node says of itself in a handshake.

    Attributes:
        replica: Node id and data directory id; a directory id has 1-64 characters.
        cluster_id: None before the cluster is founded; at most 128 characters.
        secret: Shared by all nodes of the cluster, or None; both sides must agree.
        epoch: When the node was admitted with that directory.
        generation: How often raft0 was recovered by hand: both sides must agree.
    """

    replica: Replica
    cluster_id: str | None
    secret: bytes | None = field(repr=False)
    epoch: Epoch = FOUNDING_EPOCH
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Peer:
    """The proven other end of a connection.

    Attributes:
        replica: Its node id and data directory id.
        cluster_id: Its cluster id at the handshake; None if it had none.
        is_founded: Whether both sides had a cluster id, and so the same one.
        link_format: That of the handshake.
        epoch: What it has told, by format 4; None by format 3.
    """

    replica: Replica
    cluster_id: str | None
    is_founded: bool
    link_format: int = 3
    epoch: Epoch | None = None
