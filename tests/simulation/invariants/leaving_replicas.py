"""RFC 0019 section 6, L5; A1: a replica is deleted because raft0 has moved its partition elsewhere for good."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cluster.commands import (
    AlterPlacements,
    Command,
    CreatePartitions,
    CreateTopic,
    FinishPlacement,
    ReplicaRecord,
    decode_command,
)
from cluster.node import Node
from model.ids import RAFT0, DirectoryId, GroupId, NodeId, Replica, TopicId, partition_group
from raft.group_configuration import Revision
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView

_Replicas = frozenset[Replica]


@dataclass(slots=True)
class _Partition:
    """What the committed commands of raft0 say of one: where it is, where it was asked to be, what was finished."""

    now: _Replicas
    asked: tuple[int, _Replicas] | None = None
    finished: dict[int, _Replicas] = field(default_factory=dict)


class LeavingReplicas(Invariant):
    """A replica leaves by a finished move that does not name it, its log has no later one, and its broker's tables are confirmed."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._partitions: dict[GroupId, _Partition] = {}
        # By node: how much of raft0 it was told to apply in this life, before it judges what it has.
        self._covered: dict[int, int] = {}

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        if view.group == RAFT0:
            self._covered.pop(view.node_id, None)

    def on_registered(self, node_id: int, committed: int, covered: int) -> None:
        self._covered.setdefault(node_id, covered)

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        if view.group == RAFT0:
            for ghost in new:
                if ghost.command:
                    self._apply(ghost.index, decode_command(ghost.command))

    def _apply(self, index: int, command: Command) -> None:
        match command:
            case CreateTopic(_, topic_id, partitions):
                self._add(topic_id, 0, partitions)
            case CreatePartitions(topic_id, first, partitions):
                self._add(topic_id, first, partitions)
            case AlterPlacements(moves) if command.of_raft0 is None:
                known = [(self._partitions.get(_group(each.topic_id, each.partition)), each.target) for each in moves]
                # All of it or nothing: a partition is gone, or there is nothing to cancel.
                if all(one is not None and (target is not None or one.asked is not None) for one, target in known):
                    for one, target in known:
                        assert one is not None
                        one.asked = index, one.now if target is None else _replicas(target)
            case FinishPlacement(group, (_, asked_at)):
                one = self._partitions.get(GroupId(group))
                if one is not None and one.asked is not None and one.asked[0] == asked_at:
                    one.now = one.finished[asked_at] = one.asked[1]
                    one.asked = None
                    self.history.counts["moves finished"] += 1

    def _add(self, topic_id: str, first: int, partitions: Sequence[Sequence[ReplicaRecord]]) -> None:
        for number, replicas in enumerate(partitions, first):
            # The first of two growths wins.
            self._partitions.setdefault(_group(topic_id, number), _Partition(_replicas(replicas)))

    def on_left(self, node: Node, view: ReplicaView | None, group: GroupId, revision: Revision | None) -> None:
        if view is None or revision is None:
            return
        replica, node_id = node.replica, node.options.node_id
        finished = self._partitions[group].finished.get(revision.raft0_index)
        if finished is None or replica in finished:
            self.violated(view, f"node {node_id} lets it leave by {revision}, which has moved it to {finished}")
        if node_id not in self._covered or node.controller.applied_index < self._covered[node_id]:
            self.violated(view, f"node {node_id} lets it leave by tables that nobody has confirmed since it began")
        if view.consensus.configuration.revision > revision:
            self.violated(view, f"it leaves by {revision}, and its log has {view.consensus.configuration}")


def _group(topic_id: str, number: int) -> GroupId:
    return partition_group(TopicId(topic_id), number)


def _replicas(replicas: Sequence[ReplicaRecord]) -> _Replicas:
    return frozenset(Replica(NodeId(each.node_id), DirectoryId(each.directory_id)) for each in replicas)
