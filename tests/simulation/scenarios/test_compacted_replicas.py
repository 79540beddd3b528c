"""RFC 0022, sections 4 and 7: replicas that are filled from compacted logs, and tombstones that go once all are clean."""

import pytest

from model.ids import Index
from raft.consensus import Consensus
from raft.errors import RaftError
from raft.recovery_stm import RecoveryStm
from storage.entry import EntryKind
from tests.simulation.invariants import DeletedRecordsAreGone
from tests.simulation.scenarios.compacted_story import (
    KEYS,
    SEGMENT_BYTES,
    ask,
    compact,
    kinds,
    objection,
    put,
    record_of,
    table,
)
from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.world.world import SimulationError


def _a_follower_is_filled_from_a_compacted_log_and_leads() -> None:
    """Schedule 3: nothing is left of a producer's batches where the follower gets its entries from."""
    with Scenario(61, segment_bytes=SEGMENT_BYTES) as story:
        leader, other, away = story.leader, *story.followers
        story.connect([leader, other])
        for number in range(3):
            put(story, leader, KEYS[number], b"old" * 300, producer=7, sequence=number)
        for number in range(12):
            put(story, leader, KEYS[number % 3], b"new" * 300, producer=8, sequence=number)
        log = story.replica(leader).log
        story.wait(lambda: log.snapshot_index >= log.closed_index > 6)
        clean_index = compact(story, leader)
        assert clean_index >= 6
        assert EntryKind.PLACEHOLDER in kinds(story, leader)
        story.heal()
        story.wait(lambda: story.replica(away).log.dirty_index == log.dirty_index)
        assert EntryKind.PLACEHOLDER in kinds(story, away)
        assert table(story, away) == table(story, leader) == table(story, other)
        # It leads, and knows what its log does not hold any more.
        story.elect_into_office(away)
        again = put(story, away, KEYS[2], b"old" * 300, producer=7, sequence=2)
        assert again.result is not None, again.error
        following = put(story, away, KEYS[0], b"next", producer=7, sequence=3)
        assert following.result is not None, following.error
        assert following.result.base_offset > again.result.base_offset
        story.converge()


def test_a_replica_that_was_filled_from_a_compacted_log_knows_all_producers() -> None:
    _a_follower_is_filled_from_a_compacted_log_and_leads()


def test_without_the_state_it_takes_a_retry_for_new_or_a_new_batch_for_one_behind_a_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RecoveryStm, "_lacks_state", lambda stm, first: False)
    monkeypatch.setattr("raft.append_dispatch.FollowerIndexMetadata.lacks_state", lambda *_: False)
    with pytest.raises((AssertionError, SimulationError, RaftError)):
        _a_follower_is_filled_from_a_compacted_log_and_leads()


def live(story: Scenario, node_id: int) -> set[bytes]:
    """Return the keys of a replica that are not deleted."""
    deleted = {record_of(key, None) for key in KEYS}
    return {key for key, record in table(story, node_id).items() if record not in deleted}


def test_a_tombstone_stays_until_every_member_is_clean_and_its_key_never_comes_back() -> None:
    with Scenario(62, segment_bytes=SEGMENT_BYTES) as story:
        leader, other, away = story.leader, *story.followers
        put(story, leader, KEYS[0], b"old" * 300, producer=7, sequence=0)
        put(story, leader, KEYS[1], b"old" * 300, producer=7, sequence=1)
        story.converge()
        story.candidates = set()
        leader = story.leader
        other, away = story.followers
        # One follower has the record and lacks the tombstone.
        story.connect([leader, other])
        put(story, leader, KEYS[0], None, producer=8, sequence=0)
        for number in range(9):
            put(story, leader, KEYS[1 + number % 2], b"new" * 400, producer=8, sequence=1 + number)
        for node_id in (leader, other):
            log = story.replica(node_id).log
            story.wait(lambda log=log: log.snapshot_index >= log.closed_index > 6)
        for _ in range(2):
            for node_id in (leader, other):
                assert compact(story, node_id) >= 4
            ask(story)
        assert story.replica(leader).deletes_to == 0
        assert KEYS[0] in table(story, leader), "the tombstone is gone, and a member lacks it"
        assert live(story, away) == {KEYS[0], KEYS[1]}
        story.heal()
        story.wait(lambda: story.replica(away).log.dirty_index == story.replica(leader).log.dirty_index)
        ask(story)
        # It was filled, and has cleaned nothing itself.
        assert story.replica(leader).deletes_to == 0
        # What it got fits into its active segment, which no pass reads.
        for number in range(5):
            put(story, leader, KEYS[1 + number % 2], b"more" * 400, producer=8, sequence=10 + number)
        log = story.replica(away).log
        story.wait(lambda: log.snapshot_index >= log.closed_index > 4)
        assert compact(story, away) >= 4
        ask(story)
        ask(story)
        assert story.replica(leader).deletes_to >= 4
        for node_id in (leader, other, away):
            compact(story, node_id)
            assert KEYS[0] not in table(story, node_id)
            assert live(story, node_id) == {KEYS[1], KEYS[2]}
        story.kill(leader)
        story.restart(leader)
        story.converge()
        for node_id in (leader, other, away):
            assert live(story, node_id) == {KEYS[1], KEYS[2]}


@pytest.mark.parametrize("power_loss", [False, True])
def test_a_compacted_replica_that_starts_again_is_what_it_was(power_loss: bool) -> None:
    with Scenario(63, segment_bytes=SEGMENT_BYTES) as story:
        leader = story.leader
        for number in range(12):
            put(story, leader, KEYS[number % 3], b"new" * 300, producer=8, sequence=number)
        log = story.replica(leader).log
        story.wait(lambda: log.snapshot_index >= log.closed_index > 6)
        compact(story, leader)
        before = table(story, leader)
        if power_loss:
            story.lose_power(leader)
        else:
            story.kill(leader)
        story.restart(leader)
        assert EntryKind.PLACEHOLDER in kinds(story, leader)
        assert table(story, leader) == before
        story.converge()
        story.elect_into_office(leader)
        again = put(story, leader, KEYS[2], b"new" * 300, producer=8, sequence=11)
        assert again.result is not None, again.error
        assert put(story, leader, KEYS[0], b"next", producer=8, sequence=12).result is not None


def test_without_the_bound_a_tombstone_goes_that_a_member_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Consensus, "deletes_to", property(lambda consensus: Index(1 << 40)))
    with objection(DeletedRecordsAreGone):
        test_a_tombstone_stays_until_every_member_is_clean_and_its_key_never_comes_back()
