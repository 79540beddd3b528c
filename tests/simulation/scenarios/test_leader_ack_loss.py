"""RFC 0003, levels: what acks=1 may lose with one power loss, and that acks=all loses nothing."""

from collections.abc import Sequence

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario, Write
from tests.simulation.world.replica_view import Ghost, ReplicaView, Standing


class _Removed(Invariant):
    """Collects what logs have truncated and what did not come back after a power loss."""

    def __init__(self, history) -> None:
        super().__init__(history)
        self.truncated: set[bytes] = set()
        self.lost_with_power: set[bytes] = set()

    def on_truncated(self, view: ReplicaView, removed: Sequence[Ghost], before: Standing) -> None:
        self.truncated.update(ghost.content for ghost in removed if ghost.content)

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        if former is not None:
            tail = former.entries[len(view.entries) :]
            self.lost_with_power.update(ghost.content for ghost in tail if ghost.content)


def _watch(story: Scenario) -> _Removed:
    removed = _Removed(story.cluster.history)
    story.cluster.observer.add(removed)
    return removed


def _lost(story: Scenario, writes: list[Write]) -> set[bytes]:
    gold = {entry.content for entry in story.cluster.history.committed_in(story.group)}
    return {write.content for write in writes if write.result is not None and write.content not in gold}


def test_a_never_visible_suffix_is_lost_and_the_logs_say_so() -> None:
    with Scenario(51) as story:
        removed = _watch(story)
        old, new = story.leader, story.followers[0]
        kept = [*story.written(old, QUORUM, 3), *story.written(old, LEADER, 3), *story.written(old, QUORUM)]
        story.wait(lambda: all(write.is_answered for write in kept))
        story.connect(story.followers)
        flushed = story.written(old, LEADER, 4)
        story.wait(lambda: story.replica(old).log.flushed_index == story.replica(old).log.dirty_index)
        unflushed = story.written(old, LEADER, 4)
        unanswered = story.written(old, QUORUM)
        story.lose_power(old)
        assert all(write.result is not None for write in [*flushed, *unflushed])
        assert not unanswered[0].is_answered
        story.elect_into_office(new)
        kept += story.written(new, QUORUM, 2)
        story.wait(lambda: all(write.is_answered for write in kept))
        story.converge()

        lost = _lost(story, story.writes)
        assert lost == {write.content for write in [*flushed, *unflushed]}
        reported = removed.truncated | removed.lost_with_power
        assert lost == reported - {unanswered[0].content}
        assert {write.content for write in flushed} <= removed.truncated
        assert story.counts["leader_ack lost"] == len(lost)
        assert story.counts["visible entries replaced"] == 0, "no consumer has seen any of it"
        assert not _lost(story, kept)


def _show(story: Scenario, old: int, holder: int) -> Write:
    """Return a leader_ack write that consumers can see, on the leader and one follower, fsynced on neither."""
    story.connect({old, holder})
    visible = story.write(old, LEADER)
    log = story.replica(old).log
    story.wait(lambda: visible.is_answered and story.replica(old).state.visible_index == log.dirty_index)
    assert visible.result is not None
    assert max(log.flushed_index, story.replica(holder).log.flushed_index) < log.dirty_index, "inside the flush bound"
    return visible


def _lose_visible(seed: int) -> bool:
    """Let one holder lose power while the other is away; return whether the disk had not written it by chance."""
    with Scenario(seed) as story:
        removed = _watch(story)
        old, [holder, new] = story.leader, story.followers
        kept = story.written(old, QUORUM, 3)
        story.wait(lambda: all(write.is_answered for write in kept))
        story.run_for(0.5)
        visible = _show(story, old, holder)
        story.lose_power(old)
        story.connect({old, new})
        story.restart(old)
        if story.holds(old, visible):
            return False
        story.elect_into_office(new)
        kept += story.written(new, QUORUM, 2)
        story.wait(lambda: all(write.is_answered for write in kept))
        # The other holder still has it, and gives it up to the newer leader.
        assert story.holds(holder, visible)
        story.converge()

        assert _lost(story, story.writes) == {visible.content}
        assert removed.truncated == removed.lost_with_power == {visible.content}
        assert story.counts["visible entries replaced"] > 0
        assert not _lost(story, kept)
        return True


def test_a_visible_suffix_is_lost_only_when_a_holder_loses_power_and_the_other_is_away() -> None:
    losses = [_lose_visible(seed) for seed in range(52, 57)]
    assert any(losses)


def test_without_a_power_loss_the_same_schedule_loses_nothing_visible() -> None:
    with Scenario(52) as story:
        removed = _watch(story)
        old, [holder, new] = story.leader, story.followers
        _show(story, old, holder)
        story.kill(old)
        story.connect({old, new})
        story.restart(old)
        # A majority without the other holder: only the one that has the entry can lead it.
        story.elect_into_office(old)
        story.converge()
        assert not _lost(story, story.writes)
        assert not removed.truncated | removed.lost_with_power
