"""What all replicas of one node share: seams, options, the kvstore, the links, and the limits over all groups."""

from dataclasses import dataclass, field
from typing import Protocol

from model.fixed_histogram import FixedHistogram
from model.ids import Replica
from raft.call_figures import CallFigures
from raft.client import RaftClient
from raft.deadline_queue import DeadlineQueue
from raft.link_names import LinkNames
from raft.node_limits import NodeLimits
from raft.options import RaftOptions
from raft.probe import RaftProbe
from runtime.environment import Environment
from storage.kvstore import KvStore


class ConfigurationGuard(Protocol):
    """Whether this node may hold configurations yet: entries of kind 2, and snapshots that have one (RFC 0019).

    Before the first one something else must be durable, which the owner of the node knows.
    """

    @property
    def is_open(self) -> bool:
        """Whether it may; from then on it always may."""
        ...

    def open_soon(self) -> None:
        """Begin what is missing; never waits. Whoever has a configuration to write tries again later."""
        ...


class OpenGuard:
    """Nothing else is needed."""

    is_open = True

    def open_soon(self) -> None:
        """It is open."""


@dataclass(slots=True)
class NodeResources:
    """One per node; it outlives the node's replicas.

    Attributes:
        env: Time, disk, network and chance.
        options: Of all groups; replaced where some of them change (`GroupManager.change_options`).
        self_replica: The node with its data directory.
        kvstore: Terms, votes and markers of all groups.
        client: Sends to the other nodes.
        configurations: Whether they may be written here yet.
        deadlines: One timer of the loop for the deadlines of all groups.
        probe: Counters over all groups.
        call_figures: Durations and counts by kind of entry, over all groups.
        fsyncs: How long the fsyncs of all logs took.
        link_names: What messages call the groups.
        limits: Budgets and the state of the disk, shared by all groups.
    """

    env: Environment
    options: RaftOptions
    self_replica: Replica
    kvstore: KvStore
    client: RaftClient
    configurations: ConfigurationGuard = field(default_factory=OpenGuard)
    deadlines: DeadlineQueue = field(init=False, default_factory=DeadlineQueue)
    probe: RaftProbe = field(init=False, default_factory=RaftProbe)
    call_figures: CallFigures = field(init=False, default_factory=CallFigures)
    fsyncs: FixedHistogram = field(init=False, default_factory=FixedHistogram)
    link_names: LinkNames = field(init=False, default_factory=LinkNames)
    limits: NodeLimits = field(init=False)

    def __post_init__(self) -> None:
        self.limits = NodeLimits.of(self.self_replica.node_id, self.options)
