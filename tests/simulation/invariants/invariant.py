"""The base of all invariants."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from cluster.events import Event
from cluster.health_counts import ClusterCounts, LedCounts
from cluster.node import Node
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.groups.lag import LagReport
from model.ids import ConsistencyLevel, GroupId, Index
from raft.group_configuration import Revision
from raft.replicate_item import ReplicateResult
from rpc.identity import Peer
from storage.entry import Entry
from storage.segment import Segment
from storage.snapshot_file import Snapshot
from tests.simulation.clients.history import History
from tests.simulation.world.replica_view import Ghost, ReplicaView, Standing


class InvariantBrokenError(Exception):
    """The run has shown a bug; the message says which sentence is broken and by what."""


class Invariant:
    """Every method is called right after it happened; the view holds the new state. All do nothing by default."""

    def __init__(self, history: History) -> None:
        self.history = history

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        """A replica has been opened; `former` is the same replica at the end of its former life."""

    def on_vote(self, view: ReplicaView, term: int, candidate: int) -> None:
        """A replica has told a candidate that it has its vote."""

    def on_truncated(self, view: ReplicaView, removed: Sequence[Ghost], before: Standing) -> None:
        """Entries were cut off."""

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        """Entries were written."""

    def on_elected(self, view: ReplicaView) -> None:
        """The replica became the leader of a term."""

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        """Any position, the term or the role has changed; called after all of the above."""

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        """Entries nobody had committed before are committed at this replica."""

    def on_compacted(self, view: ReplicaView, entries: Sequence[Entry]) -> None:
        """Entries that passes may have changed have their places in a log, at least one; these are what it holds now.

        A pass has put them there, a leader has sent them, or the log was opened with them.
        """

    def on_swapped(self, view: ReplicaView, segment: Segment, entries: Sequence[Entry]) -> None:
        """A pass has put a segment in the place of others; `on_compacted` is told of the same entries."""

    def on_answered(self, view: ReplicaView, level: ConsistencyLevel, content: bytes, result: ReplicateResult) -> None:
        """A producer has got a success."""

    def on_read(self, view: ReplicaView, offset: int, record_count: int, content: bytes) -> None:
        """A consumer has got a batch from a leader."""

    def on_damaged_answer(self, host: str, group: GroupId, reason: str, *, has_rotted: bool) -> None:
        """A consumer has got what is no whole batch; whether a bit of that broker's disk has flipped."""

    def on_snapshot(self, view: ReplicaView, snapshot: Snapshot) -> None:
        """A replica saves or installs a snapshot, or was restored from this one."""

    def on_latest(self, group: GroupId, committed: int, end: int) -> None:
        """A client has been told the latest offset; so many entries were committed when it asked."""

    def on_told_end(self, group: GroupId, end: int) -> None:
        """A client has been told, as latest offset or high watermark, where a log ends."""

    def on_group_offset(self, group: GroupId, offset: int) -> None:
        """A consumer group has committed an offset, or has been told what it had committed."""

    def on_power_lost(self, group: GroupId, released: Sequence[Ghost]) -> None:
        """A machine has lost its power: `released` was shown, is not committed, and no majority holds it any more."""

    def on_removed(self, node_id: int, group: GroupId, *, is_in_table: bool) -> None:
        """A broker is about to delete its replica of a group; `is_in_table`: the broker knows its topic."""

    def on_left(self, node: Node, view: ReplicaView | None, group: GroupId, revision: Revision | None) -> None:
        """A broker is about to delete its replica of a group that goes on elsewhere; its gravestone is durable.

        Args:
            node: The broker.
            view: The replica as it was last; None: it was not open in any life that was seen, or has left before.
            group: The group.
            revision: The newest finished move that the broker knows, by which it leaves; None: a former life has seen
                to that.
        """

    def on_disk_lost(self, view: ReplicaView) -> None:
        """The disk of a replica is gone for good; its process has ended before."""

    def on_disk_taken_out(self, view: ReplicaView) -> None:
        """The disk of a replica left its machine with the broker, which was removed."""

    def on_registered(self, node_id: int, committed: int, covered: int) -> None:
        """raft0's leader has answered a broker's registration.

        Args:
            committed: How many entries of raft0 were committed when the broker asked.
            covered: Up to where the answer lets the broker apply raft0 before it believes its tables.
        """

    def on_links(self, node: Node, peers: Sequence[Peer]) -> None:
        """These are the other ends of a broker's links that work, of brokers in the cluster; a few times per second."""

    def on_event(self, node: Node, life: int, event: Event) -> None:
        """A broker, in its n-th life, has recorded an event in this very step."""

    def on_counted(self, node: Node, life: int, led: LedCounts, cluster: ClusterCounts | None) -> None:
        """A broker was asked what it counts; called a few times per second while its process runs."""

    def on_lag(self, node: Node, active: CoordinatedPartition, ends: Mapping[GroupId, int], report: LagReport) -> None:
        """A coordinator has compared what a group has committed with the visible ends that it knows."""

    def on_lag_reports(self, node: Node, reports: Sequence[LagReport]) -> None:
        """A broker was asked how far its groups are behind; called a few times per second."""

    def on_table(self, view: ReplicaView, applied_index: Index, rows: tuple[bytes, ...]) -> None:
        """At the end of the run a replica of raft0 or of consumer groups has this table, in whatever order of rows."""

    def on_quiet(self, seconds: float, group: GroupId, views: Sequence[ReplicaView]) -> None:
        """It is so late, all faults are mended, and these are a group's replicas; called a few times per second."""

    def on_look(self, now: float, view: ReplicaView) -> None:
        """By the clock of its node it is so late; called a few times per second while the process runs, faults or not."""

    def at_end(self) -> None:
        """The run has ended and the cluster has converged."""

    def violated(self, view: ReplicaView | None, what: str) -> NoReturn:
        """End the run."""
        sentence = (type(self).__doc__ or "").strip().split("\n")[0]
        raise InvariantBrokenError(f"{type(self).__name__}: {sentence}\n  {what}\n  at {view}")
