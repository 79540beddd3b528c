"""RFC 0008, L1 and L2: where logs begin."""

from collections.abc import Sequence

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView, Standing


class LogStarts(Invariant):
    """A log begins where a committed LOG_START entry says; earliest never goes back from one leader to the next."""

    def __init__(self, history):
        super().__init__(history)
        # Per group: the offsets that committed entries have asked for, and the newest term's earliest offset.
        self._asked: dict[str, set[int]] = {}
        self._earliest: dict[str, tuple[int, int]] = {}

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        self._asked.setdefault(view.group, {0}).update(ghost.start.offset for ghost in new if ghost.start is not None)

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._check(view)

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        now = view.now
        if now.start != before.start:
            self.history.counts["log starts moved"] += 1
            if (now.start.index, now.start.offset) < (before.start.index, before.start.offset):
                self.violated(view, f"its start went back from {before.start}")
            self._check(view)
        if not now.in_office:
            return
        term, offset = self._earliest.get(view.group, (0, 0))
        if now.term >= term and now.start.offset < offset:
            self.violated(view, f"its earliest offset is {now.start.offset}, that of term {term} was {offset}")
        self._earliest[view.group] = max((term, offset), (now.term, now.start.offset))

    def _check(self, view: ReplicaView) -> None:
        start, gold = view.now.start, self.history.committed_in(view.group)
        if start.index - 1 > len(gold):
            self.violated(view, f"it starts at {start.index}, only {len(gold)} entries are committed")
        if start.index > 1:
            before = gold[start.index - 2]
            if (before.term, before.base_offset + before.record_count) != (start.prev_term, start.base_offset):
                self.violated(view, f"{start} does not follow {before}")
        if start.offset not in self._asked.get(view.group, {0}):
            self.violated(view, f"nobody has asked for its start at offset {start.offset}")
