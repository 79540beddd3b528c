"""RFC 0022, section 4: a damaged replica that two leaders refill in turn, which have compacted differently."""

import pytest

from model.ids import Index
from raft.consensus import Consensus
from raft.errors import RaftError
from raft.options import RaftOptions
from raft.recovery_stm import RecoveryStm
from storage.entry import Entry, EntryKind
from storage.errors import CorruptLogError
from storage.snapshot_file import Snapshot
from tests.simulation.invariants import DeletedRecordsAreGone
from tests.simulation.scenarios.compacted_story import (
    KEYS,
    SEGMENT_BYTES,
    ask,
    compact,
    objection,
    put,
    record_of,
    records,
    table,
)
from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.world.world import SimulationError

# Nothing is sent from memory, and a chunk has a few entries: there is a middle in which the leader can die.
_SLOWLY = RaftOptions(recovery_chunk_bytes=512, follower_window=1, tail_cache_bytes=1)
_GONE = KEYS[0]
_OLD, _TOMBSTONE = record_of(_GONE, b"old" * 300), record_of(_GONE, None)
_BACK = "a deleted key has come back"


def _write(story: Scenario, first: int, count: int) -> None:
    """Overwrite the keys that live, and wait until each replica may compact as far as that."""
    for number in range(first, first + count):
        put(story, story.leader, KEYS[1 + number % 2], b"%d" % number + b"new" * 300, producer=8, sequence=number)
    end = story.replica(story.leader).log.closed_index
    for node_id in story.world.nodes:
        log = story.replica(node_id).log
        story.wait(lambda log=log: log.snapshot_index >= min(end, log.closed_index))


def _placeholders(story: Scenario, node_id: int) -> list[tuple[int, int]]:
    log = story.replica(node_id).log
    found: list[Entry] = story.world.run(story.machine(node_id), log.read(log.start_index, 1 << 30))
    return [(each.index, each.last_index) for each in found if each.kind is EntryKind.PLACEHOLDER]


def _lose(story: Scenario, node_id: int) -> None:
    """Let a compacted segment rot, and wait until the replica is opened anew without it."""
    path = story.replica(node_id).log._segments[0].path
    story.kill(node_id)
    assert story.machine(node_id).disk.rot(path, 40)
    story.restart(node_id)
    before = story.replica(node_id)
    with pytest.raises(CorruptLogError):
        records(story, node_id)
    story.wait(lambda: story.cluster.consensus(node_id, story.group) not in (None, before))


def _states(story: Scenario) -> set[Snapshot]:
    """Return what the replicas have derived from the same entries."""
    return {
        story.world.run(story.machine(each), story.replica(each)._log_state.take_snapshot())
        for each in story.world.nodes
    }


def _refill_from_two(story: Scenario, first: int, second: int, rotten: int) -> int:
    """Lose the third replica, let one leader begin to fill it and the other end that; return where the first one died."""
    _lose(story, rotten)
    story.heal()
    filled = story.replica(rotten)
    story.wait(lambda: filled.log.dirty_index > 0)
    reached = filled.log.dirty_index
    story.kill(first)
    assert filled.log.dirty_index == reached < story.replica(second).log.dirty_index
    story.elect_into_office(second)
    assert story.replica(rotten) is filled
    story.wait(lambda: filled.log.dirty_index == story.replica(second).log.dirty_index)
    return reached


def _two_leaders_refill_a_damaged_replica(*, is_first_cleaner: bool) -> None:
    """One leader has the deleted record, and has cleaned nothing from before the tombstone on; the other one has."""
    with Scenario(71, segment_bytes=SEGMENT_BYTES, raft=_SLOWLY) as story:
        first, second, rotten = story.leader, *story.followers
        little, much = (second, first) if is_first_cleaner else (first, second)
        put(story, first, _GONE, b"old" * 300, producer=7, sequence=0)
        _write(story, 0, 16)
        assert compact(story, little) > 12
        _write(story, 16, 8)
        put(story, first, _GONE, None, producer=7, sequence=1)
        deleted = story.replica(first).log.dirty_index
        _write(story, 24, 16)
        assert compact(story, rotten) > deleted
        _write(story, 40, 8)
        # By the second pass a tombstone goes, if it may. The first one leaves more placeholders, so more chunks.
        for _ in range(1 if is_first_cleaner else 2):
            assert compact(story, much) > story.replica(rotten).clean_index
            ask(story)
        assert _OLD in records(story, little)
        newest = table(story, little)
        ahead = _placeholders(story, second)
        reached = _refill_from_two(story, first, second, rotten)
        assert reached < deleted
        if is_first_cleaner:
            # What the second leader sends are records that the first one has no more.
            assert reached > ahead[-1][1]
            assert _placeholders(story, rotten)[-1][1] == reached
        else:
            # The first leader has died in the middle of what one placeholder of the second one stands for.
            assert any(begin <= reached < end for begin, end in ahead)
            assert any(begin == reached + 1 for begin, _ in _placeholders(story, rotten))
        assert table(story, rotten) == newest, _BACK
        story.restart(first)
        story.converge()
        assert len(_states(story)) == 1
        _delete_at_last(story)


def _delete_at_last(story: Scenario) -> None:
    """The tombstone goes once all are clean, and nobody has what it deletes."""
    # What was sent to the damaged replica fits into few segments, and no pass reads the last one.
    _write(story, 48, 8)
    end = story.replica(story.leader).log.dirty_index
    story.wait(lambda: all(story.replica(node_id).log.dirty_index == end for node_id in story.world.nodes))
    for _ in range(2):
        for node_id in story.world.nodes:
            compact(story, node_id)
            assert table(story, node_id).get(_GONE) in (_TOMBSTONE, None), _BACK
        ask(story)
        ask(story)
    for node_id in story.world.nodes:
        compact(story, node_id)
        assert _GONE not in table(story, node_id)
        assert table(story, node_id) == table(story, story.leader)


@pytest.mark.parametrize("is_first_cleaner", [False, True])
def test_a_damaged_replica_that_two_leaders_refill_in_turn_has_what_they_have(is_first_cleaner: bool) -> None:
    _two_leaders_refill_a_damaged_replica(is_first_cleaner=is_first_cleaner)


def test_a_deleted_key_comes_back_if_one_leader_deletes_what_the_other_one_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Consensus, "deletes_to", property(lambda consensus: Index(1 << 40)))
    with objection(DeletedRecordsAreGone):
        _two_leaders_refill_a_damaged_replica(is_first_cleaner=False)


def test_a_refill_without_the_states_of_both_leaders_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecoveryStm, "_lacks_state", lambda stm, first: False)
    monkeypatch.setattr("raft.append_dispatch.FollowerIndexMetadata.lacks_state", lambda *_: False)
    with pytest.raises((AssertionError, SimulationError, RaftError)):
        _two_leaders_refill_a_damaged_replica(is_first_cleaner=False)
