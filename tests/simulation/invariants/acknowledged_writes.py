"""RFC 0003, levels: what each level promises to the producer."""

from collections.abc import Sequence

from cluster.node import Node
from model.ids import ConsistencyLevel, GroupId
from raft.group_configuration import Revision
from raft.replicate_item import ReplicateResult
from storage.entry import EntryKind
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView, Standing


class AcknowledgedWrites(Invariant):
    """quorum_ack: committed when answered; leader_ack: written, and lost only by a truncation, or with a log that is gone."""

    def __init__(self, history):
        super().__init__(history)
        # group, index -> content, by level; and what was seen to be removed from a log or lost by a crash.
        self._quorum: dict[tuple[str, int], bytes] = {}
        self._leader: dict[tuple[str, int], bytes] = {}
        self._removed: set[tuple[str, bytes]] = set()

    def on_answered(self, view: ReplicaView, level: ConsistencyLevel, content: bytes, result: ReplicateResult) -> None:
        index = result.first_index
        key = (view.group, index)
        if level is ConsistencyLevel.QUORUM_ACK:
            gold = self.history.committed_in(view.group)
            if len(gold) < index or gold[index - 1].content != content:
                self.violated(view, f"acks=all was answered for entry {index}, which is not committed")
            if gold[index - 1].base_offset != result.base_offset:
                self.violated(view, f"entry {index} has offset {gold[index - 1].base_offset}, not {result.base_offset}")
            self._quorum[key] = content
            return
        ghost = view.at(index)
        if (view.group, content) not in self._removed and (ghost is None or ghost.content != content):
            self.violated(view, f"the leader's write {index} was answered but is not in its log: {ghost}")
        if level is ConsistencyLevel.LEADER_ACK:
            self._leader[key] = content

    def on_truncated(self, view: ReplicaView, removed: Sequence[Ghost], before: Standing) -> None:
        self._removed.update((view.group, ghost.content) for ghost in removed)

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        if former is None:
            return
        is_shorter = len(view.entries) < len(former.entries)
        if is_shorter and view.node_id not in self.history.lost_power and not view.may_hold_less_than(former):
            self.violated(view, f"written entries were lost without a power loss: there were {len(former.entries)}")
        # A process that dies while it truncates or installs a snapshot is not seen to do so: its next life has other
        # entries in those places, and may have as many of them (seed 30525).
        self._removed.update(
            (view.group, ghost.content)
            for ghost in former.entries
            if (now := view.at(ghost.index)) is None or now.chain != ghost.chain
        )

    def on_left(self, node: Node, view: ReplicaView | None, group: GroupId, revision: Revision | None) -> None:
        # What nobody else has is gone with it, as by a truncation.
        if view is not None:
            self._removed.update((group, ghost.content) for ghost in view.entries)

    def on_disk_lost(self, view: ReplicaView) -> None:
        self._removed.update((view.group, ghost.content) for ghost in view.entries)

    def on_disk_taken_out(self, view: ReplicaView) -> None:
        # A replica without a vote need not have left before its broker is removed (seed 52585).
        self._removed.update((view.group, ghost.content) for ghost in view.entries)

    def at_end(self) -> None:
        for (group, index), content in self._quorum.items():
            gold = self.history.committed_in(group)
            if len(gold) < index or gold[index - 1].content != content:
                self.violated(None, f"{group}: entry {index}, acknowledged at acks=all, is gone")
        for (group, index), content in self._leader.items():
            gold = self.history.committed_in(group)
            if len(gold) >= index and gold[index - 1].content == content:
                continue
            self.history.counts["leader_ack lost"] += 1
            if (group, content) not in self._removed:
                self.violated(None, f"{group}: entry {index}, acknowledged at acks=1, is gone and no log truncated it")
        self._check_phantoms()

    def _check_phantoms(self) -> None:
        for group, gold in self.history.committed.items():
            seen: dict[bytes, int] = {}
            for ghost in gold:
                if ghost.kind is not EntryKind.DATA:
                    continue
                if ghost.content not in self.history.sent:
                    self.violated(None, f"{group}: entry {ghost.index} was never sent")
                if ghost.content in seen:
                    self.violated(None, f"{group}: entries {seen[ghost.content]} and {ghost.index} are one write")
                seen[ghost.content] = ghost.index
