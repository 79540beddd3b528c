"""RFC 0022, section 4: a tombstone stays while any member may hold, or be sent, the record that it deletes (C4)."""

import pytest

from cluster.placements import AlterPlacementsRequest, WantedMove
from model.ids import Index
from raft.consensus import Consensus
from storage.errors import CorruptLogError
from tests.feature_levels import LIVING
from tests.simulation.invariants import DeletedRecordsAreGone
from tests.simulation.scenarios.compacted_story import (
    KEYS,
    SEGMENT_BYTES,
    ask,
    bound_deletes_by_voters_only,
    compact,
    objection,
    put,
    record_of,
    records,
    table,
)
from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.world.cluster import TOPIC

KEY = KEYS[0]
OLD, TOMBSTONE = record_of(KEY, b"old" * 300), record_of(KEY, None)
_C4 = "a tombstone is gone, and a member holds what it deletes"


def _write_old(story: Scenario) -> None:
    put(story, story.leader, KEY, b"old" * 300, producer=7, sequence=0)
    put(story, story.leader, KEYS[1], b"old" * 300, producer=7, sequence=1)


def _delete(story: Scenario, *node_ids: int) -> None:
    """Delete the key, and write on until these replicas have closed segments behind that and a state of them."""
    put(story, story.leader, KEY, None, producer=8, sequence=0)
    for number in range(12):
        put(story, story.leader, KEYS[1 + number % 2], b"new" * 400, producer=8, sequence=1 + number)
    for node_id in node_ids:
        log = story.replica(node_id).log
        story.wait(lambda log=log: log.snapshot_index >= log.closed_index > 8)


def _ask(story: Scenario) -> None:
    """Let the leader ask its followers how far they are clean, and tell them the bound that follows from it."""
    for _ in range(2):
        ask(story)


def _check(story: Scenario) -> None:
    """C4, for the one key."""
    held = [records(story, node_id) for node_id in story.world.nodes]
    assert all(TOMBSTONE in each for each in held) or not any(OLD in each for each in held), _C4


def _has_all(story: Scenario, node_id: int) -> bool:
    leader = story.cluster.leader_of(story.group)
    return leader is not None and story.replica(node_id).log.dirty_index == story.replica(leader).log.dirty_index


def _until_all_are_clean(story: Scenario) -> None:
    """The tombstone does go in the end."""
    for _ in range(2):
        for node_id in story.world.nodes:
            compact(story, node_id)
        _ask(story)
    for node_id in story.world.nodes:
        compact(story, node_id)
        assert KEY not in table(story, node_id)
    _check(story)


def _a_member_has_everything_and_is_not_clean() -> None:
    with Scenario(65, segment_bytes=SEGMENT_BYTES) as story:
        leader, other, unclean = story.leader, *story.followers
        _write_old(story)
        _delete(story, leader, other, unclean)
        for _ in range(2):
            for node_id in (leader, other):
                assert compact(story, node_id) >= 4
            _ask(story)
            _check(story)
        assert OLD in records(story, unclean)
        _until_all_are_clean(story)


def test_a_tombstone_waits_for_a_member_that_has_it_and_is_not_clean() -> None:
    _a_member_has_everything_and_is_not_clean()


def test_a_tombstone_goes_too_early_if_what_members_have_matched_bounds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_match(consensus: Consensus) -> Index:
        matched = [follower.match_index for follower in consensus.state.followers.values()]
        consensus.note_deletes_bound(min([consensus.clean_index, *matched]))
        return consensus.deletes_to

    monkeypatch.setattr(Consensus, "raise_deletes_bound", by_match)
    with objection(DeletedRecordsAreGone):
        _a_member_has_everything_and_is_not_clean()


def _a_clean_member_is_damaged_and_filled_by_one_that_is_not_clean() -> None:
    """Schedule 2: it has told its leader that it is clean, and its log is lost after that."""
    with Scenario(66, segment_bytes=SEGMENT_BYTES) as story:
        leader, other, rotten = story.leader, *story.followers
        _write_old(story)
        _delete(story, leader, other, rotten)
        for node_id in (other, rotten):
            assert compact(story, node_id) >= 4
        _ask(story)
        path = story.replica(rotten).log._segments[0].path
        story.kill(rotten)
        assert story.machine(rotten).disk.rot(path, 40)
        story.restart(rotten)
        before = story.replica(rotten)
        with pytest.raises(CorruptLogError):
            records(story, rotten)
        # It is opened anew, without what is damaged.
        story.wait(lambda: story.cluster.consensus(rotten, story.group) not in (None, before))
        story.wait(lambda: story.replica(rotten).state.commit_index == story.replica(leader).state.commit_index)
        assert {OLD, TOMBSTONE} <= {*records(story, rotten)}
        for _ in range(2):
            assert compact(story, leader) >= 4
            _ask(story)
            _check(story)
        put(story, story.leader, KEYS[1], b"more" * 900, producer=9, sequence=0)
        put(story, story.leader, KEYS[2], b"more" * 900, producer=9, sequence=1)
        log = story.replica(rotten).log
        story.wait(lambda: log.snapshot_index >= log.closed_index > 8)
        _until_all_are_clean(story)


def test_a_tombstone_waits_for_a_member_that_has_lost_its_clean_log() -> None:
    _a_clean_member_is_damaged_and_filled_by_one_that_is_not_clean()


def test_a_tombstone_goes_too_early_if_a_clean_index_outlives_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    computed, kept = Consensus.clean_index.fget, dict[int, Index]()
    assert computed is not None

    def largest(consensus: Consensus) -> Index:
        node_id = int(consensus.state.node_id)
        kept[node_id] = max(kept.get(node_id, Index(0)), computed(consensus))
        return kept[node_id]

    monkeypatch.setattr(Consensus, "clean_index", property(largest))
    with objection(DeletedRecordsAreGone):
        _a_clean_member_is_damaged_and_filled_by_one_that_is_not_clean()


def _a_learner_lacks_the_tombstone() -> None:
    """It has got the record when it is cut off; the voters are clean, and go on."""
    with Scenario(67, nodes=4, replicas=3, features=LIVING, segment_bytes=SEGMENT_BYTES) as story:
        voters = [int(node) for node in story.replica(story.leader).configuration.voter_ids]
        leader, learner = story.leader, next(node for node in story.world.nodes if node not in voters)
        _write_old(story)
        wanted = AlterPlacementsRequest([WantedMove(TOPIC, 0, [*voters, learner])], True, 5.0)
        story.machine(leader).spawn(story.cluster.nodes[leader].placements.alter(wanted))
        held = story.replica(leader).log.dirty_index

        def is_filled() -> bool:
            consensus = story.cluster.consensus(learner, story.group)
            return consensus is not None and consensus.log.dirty_index >= held

        story.wait(is_filled)
        story.connect(voters)
        configuration = story.replica(leader).configuration
        assert [int(each.node_id) for each in configuration.learners] == [learner]
        _delete(story, *voters)
        for _ in range(3):
            for node_id in voters:
                assert compact(story, node_id) >= 4
            _ask(story)
        story.candidates = None
        story.heal()
        story.wait(lambda: story.cluster.has_converged() and _has_all(story, learner), 30.0)
        assert table(story, learner).get(KEY) in (None, TOMBSTONE), "a deleted key has come back"


def test_a_tombstone_waits_for_a_learner_that_lacks_it() -> None:
    _a_learner_lacks_the_tombstone()


def test_a_deleted_key_comes_back_in_a_learner_if_only_voters_bound_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    bound_deletes_by_voters_only(monkeypatch)
    with objection(DeletedRecordsAreGone):
        _a_learner_lacks_the_tombstone()
