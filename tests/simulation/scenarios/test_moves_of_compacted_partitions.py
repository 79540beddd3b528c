"""RFC 0022, sections 4 and 7: a compacted partition moves to a broker that never had it, and its leader dies meanwhile.

The new member gets the state of its first leader, and entries of two that have compacted differently. From then on its
clean index bounds tombstones, as that of every member.
"""

import pytest

from raft.errors import RaftError
from raft.options import RaftOptions
from raft.recovery_stm import RecoveryStm
from storage.entry import EntryKind
from tests.feature_levels import LIVING
from tests.simulation.invariants import DeletedRecordsAreGone
from tests.simulation.scenarios.compacted_story import (
    KEYS,
    SEGMENT_BYTES,
    ask,
    bound_deletes_by_voters_only,
    compact,
    keyed,
    kinds,
    objection,
    put,
    record_of,
    records,
    table,
)
from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.scenarios.test_members import Members
from tests.simulation.world.world import SimulationError

# Nothing is sent from memory, and a chunk has an entry: there is a middle in which the leader can die.
_SLOWLY = RaftOptions(recovery_chunk_bytes=512, follower_window=1, tail_cache_bytes=1)
_GONE = KEYS[0]
_OLD, _TOMBSTONE = record_of(_GONE, b"old" * 300), record_of(_GONE, None)
_BACK = "a deleted key has come back"


class _Moved(Members):
    """Five brokers, and one compacted partition on three of them. `placed` has the offset of each record."""

    def __init__(self, seed: int) -> None:
        Scenario.__init__(self, seed, nodes=5, replicas=3, features=LIVING, segment_bytes=SEGMENT_BYTES, raft=_SLOWLY)
        self.placed: dict[int, bytes] = {}

    def put(self, key: bytes, value: bytes | None, *, producer: int, sequence: int) -> int:
        """Write a record to the leader; return its offset."""
        write = put(self, self.leader, key, value, producer=producer, sequence=sequence)
        assert write.result is not None, write.error
        self.placed.setdefault(int(write.result.base_offset), record_of(key, value))
        return int(write.result.base_offset)

    def overwrite(self, first: int, count: int, members: list[int]) -> None:
        """Overwrite the keys that live, and wait until each member may compact as far as that."""
        for number in range(first, first + count):
            self.put(KEYS[1 + number % 2], b"%d" % number + b"new" * 300, producer=8, sequence=number)
        end = self.replica(self.leader).log.closed_index
        for node_id in members:
            log = self.replica(node_id).log
            self.wait(lambda log=log: log.snapshot_index >= min(end, log.closed_index))

    def compact_all(self, members: list[int]) -> None:
        """Let all members make a pass, and tell the leader how far they are clean, and the others what follows."""
        for node_id in members:
            compact(self, node_id)
        for _ in range(2):
            ask(self)


def _the_new_member_has_a_part(story: _Moved, members: list[int], new: int, deleted: int) -> None:
    """Ask for the move, and cut the new member off where it has the old record and lacks the tombstone."""
    first, second, source = members
    story.ask([first, second, new])
    story.wait(lambda: story.cluster.consensus(new, story.group) is not None)
    story.wait(lambda: story.replica(new).log.dirty_index >= 2)
    story.connect([node_id for node_id in story.world.nodes if node_id != new])
    assert story.replica(new).log.dirty_index < deleted
    assert _OLD in records(story, new)
    assert [int(each.node_id) for each in story.replica(first).configuration.learners] == [new]
    assert source in story.voters


def _a_compacted_partition_moves() -> None:
    with _Moved(75) as story:
        first = story.leader
        second, source = [node_id for node_id in story.voters if node_id != first]
        new = next(node_id for node_id in story.world.nodes if node_id not in story.voters)
        old = [first, second, source]
        story.put(_GONE, b"old" * 300, producer=7, sequence=0)
        story.overwrite(0, 16, old)
        for node_id in old:
            assert compact(story, node_id) > 12
            assert EntryKind.PLACEHOLDER in kinds(story, node_id)
        story.overwrite(16, 8, old)
        story.put(_GONE, None, producer=7, sequence=1)
        deleted = story.replica(first).log.dirty_index
        story.overwrite(24, 16, old)
        _the_new_member_has_a_part(story, old, new, deleted)
        # Those that vote are clean, and say so; by the second pass the tombstone would go.
        for _ in range(2):
            story.compact_all(old)
            assert all(story.replica(node_id).clean_index > deleted for node_id in old)
        assert not any(_OLD in records(story, node_id) for node_id in old)
        newest = table(story, first) | {_GONE: _TOMBSTONE}
        story.kill(first)
        story.heal()
        story.elect_into_office(second)
        # The move goes on under the next leader, also while the one before is down.
        story.wait(lambda: story.replica(new).log.dirty_index == story.replica(second).log.dirty_index, 20.0)
        story.restart(first)
        now = [first, second, new]
        story.until_placed(now)
        story.candidates = set()
        assert story.cluster.consensus(source, story.group) is None
        assert EntryKind.PLACEHOLDER in kinds(story, new)
        for node_id in now:
            assert {_GONE: _TOMBSTONE} | table(story, node_id) == newest, _BACK
        _the_new_member_holds_the_tombstone(story, now, new, deleted)
        _the_new_member_leads(story, now, new)


def _the_new_member_holds_the_tombstone(story: _Moved, members: list[int], new: int, deleted: int) -> None:
    """It stays until the new member has made a pass, too; then it goes everywhere."""
    clean = [node_id for node_id in members if node_id != new]
    for _ in range(2):
        story.compact_all(clean)
    assert story.replica(new).clean_index == 0
    assert story.replica(story.leader).deletes_to < deleted
    if story.leader != new:
        assert story.replica(story.leader).holders_of_deletes == (new,)
    assert all(_TOMBSTONE in records(story, node_id) for node_id in members), "the new member does not bound deletes"
    # What it got fits into few segments, and no pass reads the last one.
    story.overwrite(40, 12, members)
    for _ in range(2):
        story.compact_all(members)
    assert story.replica(story.leader).deletes_to > deleted
    for node_id in members:
        compact(story, node_id)
        assert _GONE not in table(story, node_id)
        assert table(story, node_id) == table(story, new)


def _the_new_member_leads(story: _Moved, members: list[int], new: int) -> None:
    """Records are where they were acknowledged, and it knows producers of which nothing is left in its log."""
    for node_id in members:
        assert all(story.placed[offset] == record for offset, _, record in keyed(story, node_id))
    story.elect_into_office(new)
    assert story.put(_GONE, None, producer=7, sequence=1) < story.replica(new).log.next_offset - 1
    assert story.put(KEYS[1], b"next", producer=7, sequence=2) == story.replica(new).log.next_offset - 1
    story.until_placed(members)
    story.cluster.observer.at_end()


def test_a_compacted_partition_moves_though_its_leader_dies_and_its_new_member_bounds_tombstones() -> None:
    _a_compacted_partition_moves()


def test_a_deleted_key_comes_back_in_the_new_member_of_a_move_that_bounds_no_tombstones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bound_deletes_by_voters_only(monkeypatch)
    with objection(DeletedRecordsAreGone):
        _a_compacted_partition_moves()


def test_a_move_of_compacted_entries_without_the_state_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecoveryStm, "_lacks_state", lambda stm, first: False)
    monkeypatch.setattr("raft.append_dispatch.FollowerIndexMetadata.lacks_state", lambda *_: False)
    with pytest.raises((AssertionError, SimulationError, RaftError)):
        _a_compacted_partition_moves()
