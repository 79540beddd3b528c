"""What brokers tell each other when they found a cluster, and what each of them writes down then.

`founding` has the rules: who asks whom, and which word counts.
"""

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from cluster.data_directory import MEMBERSHIP_LEVELS
from cluster.founders_levels import word_of
from model.ids import DirectoryId, NodeId, Replica
from rpc.identity import FOUNDING_EPOCH, Address
from rpc.methods import Method


class Seed(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One line of the configuration's `seeds`."""

    node_id: int
    host: str
    port: int


class ClusterRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A founded cluster, as each member keeps it.

    Attributes:
        format_version: 1.
        cluster_id: See `found`.
        members: Sorted (node id, directory id) pairs of the founders.
        features: The levels that the cluster begins with, by feature, above 0: every member had them (RFC 0018).
        epoch: When this broker was admitted, (generation, index in raft0's log); founders have the first (RFC 0020).
    """

    format_version: int
    cluster_id: str
    members: list[tuple[int, str]]
    features: dict[str, int] = {}
    epoch: tuple[int, int] = (FOUNDING_EPOCH.generation, FOUNDING_EPOCH.raft0_index)

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """The founders as replicas, in ascending order of node id: the voters that raft0 begins with."""
        return tuple(Replica(NodeId(node), DirectoryId(directory)) for node, directory in self.members)


class FoundRequest(msgspec.Struct, frozen=True, array_like=True):
    """A broker introduces itself. Versions without features leave them out, and ignore them."""

    node_id: int
    directory_id: str
    seeds: list[Seed]
    features: dict[str, int] = {}


class FoundReply(msgspec.Struct, frozen=True, array_like=True):
    """The other broker's side of the same; `cluster` once it is founded there."""

    node_id: int
    directory_id: str
    seeds: list[Seed]
    cluster: ClusterRecord | None
    features: dict[str, int] = {}


class SeedWord(FoundReply, frozen=True, array_like=True):
    """What versions that agree on membership only read an answer as, and send once they are bound.

    Attributes:
        is_bound: It is not founded, and bound to level 1 of membership and to no other level.
        would_found: The id of the cluster that a bound seed would found, by what the others have told it, at whatever
            levels; empty: not all have.
    """

    is_bound: bool = False
    would_found: str = ""


class AnyWord(SeedWord, frozen=True, array_like=True):
    """What an answer is read as. A seed that is not bound sends a FoundReply, which older versions have sent, too.

    Attributes:
        levels: It is not founded, and bound to these; empty if `is_bound` says all.
    """

    levels: dict[str, int] = {}

    @property
    def bound(self) -> Mapping[str, int]:
        """What the seed is bound to; empty: it is not."""
        return MEMBERSHIP_LEVELS if self.is_bound else self.levels

    @property
    def word(self) -> Mapping[str, int]:
        """The highest levels that the seed founds a cluster at."""
        return word_of(self.features, self.bound)


FOUND: Method[FoundRequest, FoundReply] = Method(30, "found", FoundRequest, AnyWord, urgent=True, before_founding=True)


def found(members: Mapping[int, str], features: Sequence[Mapping[str, int]] = ()) -> ClusterRecord:
    """Return the cluster of these members: the same on every one of them.

    Args:
        members: Node id -> directory id.
        features: For each member, the highest level of each feature that it has. The cluster begins with the highest
            that all of them have.
    """
    pairs = sorted(members.items())
    digest = hashlib.sha256(msgspec.json.encode(pairs)).hexdigest()
    names = sorted(set[str]().union(*features))
    levels = {name: min(each.get(name, 0) for each in features) for name in names}
    return ClusterRecord(1, digest[:32], pairs, {name: level for name, level in levels.items() if level > 0})


def addresses(seeds: Sequence[Seed]) -> dict[NodeId, Address]:
    """Return where to dial each seed."""
    return {NodeId(seed.node_id): Address(seed.host, seed.port) for seed in seeds}
