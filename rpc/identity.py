"""Who this node is, and whom it talks to."""

from dataclasses import dataclass, field
from typing import NamedTuple

from model.ids import Replica


class Address(NamedTuple):
    """Where a peer's links listen."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class LinkIdentity:
    """What this node says of itself in a handshake.

    Attributes:
        replica: Node id and data directory id; a directory id has 1-64 characters.
        cluster_id: None before the cluster is founded; at most 128 characters.
        secret: Shared by all nodes of the cluster, or None; both sides must agree.
    """

    replica: Replica
    cluster_id: str | None
    secret: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Peer:
    """The proven other end of a connection.

    Attributes:
        replica: Its node id and data directory id.
        cluster_id: Its cluster id at the handshake; None if it had none.
        is_founded: Whether both sides had a cluster id, and so the same one.
    """

    replica: Replica
    cluster_id: str | None
    is_founded: bool
