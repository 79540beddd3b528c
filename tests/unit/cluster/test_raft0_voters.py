"""Who votes in raft0: the rule, the table, and how raft0's state holds it."""

from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.commands import (
    AlterPlacements,
    BrokerRecord,
    FinishPlacement,
    PlacementRecord,
    RegisterBroker,
    ReplicaRecord,
    SetBrokerState,
    SetFeature,
    decode_command,
    encode_command,
)
from cluster.controller_state import ControllerState
from cluster.errors import FeatureLevelError, NoReassignmentError, UnknownBrokerError
from cluster.placement import Move, Placement
from cluster.raft0_candidates import Candidate, Candidates, raft0_candidates
from cluster.raft0_table import Raft0Placement, Raft0Table, raft0_target
from cluster.raft0_voters import voter_count, wanted_amid_move, wanted_voters
from cluster.saved_placement import decode_raft0, save_raft0
from model.features import MEMBERSHIP, OFFERED
from model.ids import DirectoryId, NodeId, Replica
from raft.group_configuration import NO_REVISION, Revision
from raft.membership_steps import Target
from storage.errors import CorruptLogError
from tests.unit.cluster.test_features import Machine

SEVEN = range(1, 8)


def replica(node):
    return Replica(NodeId(node), DirectoryId(f"dir{node}"))


def replicas(*nodes):
    return tuple(map(replica, nodes))


def candidates(*nodes, leaving=()):
    return [Candidate(replica(node), qualifies=node not in leaving) for node in nodes]


def wanted(voters, admitted, *, leader=1, unready=()):
    found = wanted_voters(replicas(*voters), admitted, NodeId(leader), lambda each: each.node_id not in unready)
    return [each.node_id for each in found]


# -- the rule ---------------------------------------------------------------------------------------------------------


def test_there_are_five_voters_at_most_and_an_odd_number_above_two():
    assert [voter_count(brokers) for brokers in range(1, 10)] == [1, 2, 3, 3, 5, 5, 5, 5, 5]


def test_of_too_many_voters_the_leader_stays_and_those_that_answer():
    assert wanted(SEVEN, candidates(*SEVEN)) == [1, 2, 3, 4, 5]
    assert wanted(SEVEN, candidates(*SEVEN), leader=7) == [1, 2, 3, 4, 7]
    assert wanted(SEVEN, candidates(*SEVEN), leader=7, unready=(1, 2)) == [3, 4, 5, 6, 7]
    assert wanted([1, 2, 3, 4], candidates(1, 2, 3, 4)) == [1, 2, 3]


def test_a_voter_that_is_only_down_stays():
    assert wanted([3, 4, 5, 6, 7], candidates(*SEVEN), leader=5, unready=(3, 4)) == [3, 4, 5, 6, 7]


def test_a_voter_that_is_to_go_gives_way_to_the_first_learner_that_is_ready():
    admitted = candidates(*SEVEN, leaving=(2,))
    assert wanted([1, 2, 3, 4, 5], admitted) == [1, 3, 4, 5, 6]
    assert wanted([1, 2, 3, 4, 5], admitted, unready=(6,)) == [1, 3, 4, 5, 7]
    # Until there is one, it stays.
    assert wanted([1, 2, 3, 4, 5], admitted, unready=(6, 7)) == [1, 2, 3, 4, 5]


def test_what_is_not_admitted_any_more_goes_at_once():
    assert wanted([1, 2, 3, 4, 5], candidates(1, 3, 4, 5, 6, 7), unready=(6, 7)) == [1, 3, 4, 5]
    new = Candidate(Replica(NodeId(2), DirectoryId("other")), qualifies=True)
    assert wanted([1, 2, 3], [*candidates(1, 3), new], unready=(2,)) == [1, 3]


def test_a_smaller_cluster_has_fewer_voters():
    assert wanted([1, 2, 3], candidates(1, 2, 3, leaving=(3,))) == [1, 2]
    assert wanted([1, 2], candidates(1, 2, leaving=(1,))) == [2]
    # The last one has nobody to give way to.
    assert wanted([1], candidates(1, leaving=(1,))) == [1]


def test_voters_become_fewer_only_if_a_majority_of_those_that_stay_is_ready():
    admitted = candidates(1, 2, 3, leaving=(3,))
    assert wanted([1, 2, 3], admitted, unready=(2,)) == [1, 2, 3]
    # Another broker has joined: nobody waits for the one that is down.
    assert wanted([1, 2, 3], candidates(1, 2, 3, 4, leaving=(3,)), unready=(2,)) == [1, 2, 4]
    five = candidates(1, 2, 3, 4, 5, leaving=(4, 5))
    assert wanted([1, 2, 3, 4, 5], five, unready=(2, 3)) == [1, 2, 3, 4, 5]
    assert wanted([1, 2, 3, 4, 5], five, unready=(3,)) == [1, 2, 3]
    # A lost disk never answers, so it is not waited for.
    assert wanted([1, 2, 3], candidates(1, 2), unready=(2,)) == [1, 2]


def test_a_new_voter_waits_for_another_one_if_the_number_would_be_even():
    assert wanted([1, 2, 3], candidates(1, 2, 3, 4, 5), unready=(5,)) == [1, 2, 3]
    assert wanted([1, 2, 3], candidates(1, 2, 3, 4, 5)) == [1, 2, 3, 4, 5]
    # Below three there is no such choice.
    assert wanted([1], candidates(1, 2, 3), unready=(3,)) == [1, 2]


def test_a_founder_alone_is_joined_by_a_second_and_a_third():
    assert wanted([1], candidates(1, 2)) == [1, 2]
    assert wanted([1, 2], candidates(1, 2, 3)) == [1, 2, 3]
    assert wanted([1, 2, 3], candidates(1, 2, 3, 4)) == [1, 2, 3]


def test_nobody_who_qualifies_is_no_reason_to_have_no_voters():
    assert wanted([1, 2, 3], []) == [1, 2, 3]
    assert wanted([1, 2, 3], candidates(1, 2, leaving=(1, 2))) == [1, 2]


@given(
    st.sets(st.integers(1, 9), min_size=1),
    st.sets(st.integers(1, 9)),
    st.sets(st.integers(1, 9)),
    st.sets(st.integers(1, 9)),
    st.integers(1, 9),
)
def test_the_rule_comes_to_rest_and_never_takes_who_does_not_qualify(voters, admitted, leaving, unready, leader):
    known = candidates(*sorted(admitted), leaving=leaving)
    found = wanted(sorted(voters), known, leader=leader, unready=unready)
    assert wanted(found, known, leader=leader, unready=unready) == found
    # Readiness alone moves nobody: what is down comes and goes.
    if len(found) == voter_count(len(admitted - leaving)) and set(found) <= admitted - leaving:
        for others in ((), SEVEN, unready):
            assert wanted(found, known, leader=leader, unready=others) == found
    assert found
    fresh = set(found) - voters
    assert fresh <= admitted - leaving - unready
    if admitted & voters:
        assert set(found) <= admitted


# -- the rule while raft0 moves ---------------------------------------------------------------------------------------


def amid_move(voting, target, admitted, *, leader=1, unready=(), lost=(), origin=()):
    found = wanted_amid_move(
        *(replicas(*voting), replicas(*target), admitted, NodeId(leader)),
        lambda each: each.node_id not in {*unready, *lost},
        replicas(*lost),
        replicas(*origin),
    )
    return [each.node_id for each in found]


def test_a_move_comes_to_its_end_before_anything_else_is_wanted():
    assert amid_move([1, 2, 3], [1, 2, 3, 4, 5], candidates(*SEVEN)) == [1, 2, 3, 4, 5]
    assert amid_move([1, 2, 3], [1, 2, 5], candidates(1, 2, 3, 4, 5, leaving=(3,)), unready=(5,)) == [1, 2, 5]


def test_who_is_lost_before_it_votes_gives_way_to_a_learner_that_is_ready():
    admitted = candidates(1, 2, 3, 4, 5, leaving=(3,))
    assert amid_move([1, 2, 3], [1, 2, 4], admitted, lost=(4,)) == [1, 2, 5]
    assert amid_move([1, 2, 3], [1, 2, 3, 4, 5], candidates(*SEVEN), lost=(5,)) == [1, 2, 3, 4, 6]


def test_who_is_lost_before_it_votes_gives_way_to_the_voter_before_it_if_there_is_no_other():
    admitted = candidates(1, 2, 3, 4, 5, leaving=(3,))
    assert amid_move([1, 2, 3], [1, 2, 4], admitted, lost=(4,), unready=(5,)) == [1, 2, 3]
    # Four voters would bear no more than three.
    assert amid_move([1, 2, 3], [1, 2, 3, 4, 5], candidates(1, 2, 3, 4, 5), lost=(5,)) == [1, 2, 3]


def test_who_is_to_leave_before_it_votes_is_not_kept_in_the_place_of_a_voter():
    admitted = candidates(1, 2, 3, 4, 5, leaving=(3, 4))
    assert amid_move([1, 2, 3], [1, 2, 4], admitted, unready=(5,)) == [1, 2, 3]
    assert amid_move([1, 2, 3], [1, 2, 4], admitted) == [1, 2, 5]


def test_who_votes_already_is_not_given_up_though_it_is_lost():
    assert amid_move([1, 2, 3, 4], [1, 2, 4], candidates(1, 2, 3, 4, 5, leaving=(3,)), lost=(4,)) == [1, 2, 4]


def test_who_is_on_its_way_keeps_its_place_if_another_one_is_lost():
    assert amid_move([1, 2, 3], [1, 2, 3, 6, 7], candidates(*SEVEN), lost=(7,)) == [1, 2, 3, 4, 6]
    assert amid_move([1, 2, 3], [1, 2, 3, 6, 7], candidates(*SEVEN), lost=(7,), unready=(4, 6)) == [1, 2, 3, 5, 6]


def test_a_target_with_fewer_voters_is_raised_anew_once_a_learner_is_ready():
    admitted = candidates(1, 2, 3, 4, leaving=(3,))
    assert amid_move([1, 2, 3], [1, 2], admitted, unready=(2, 4), origin=[1, 2, 3]) == [1, 2]
    assert amid_move([1, 2, 3], [1, 2], admitted, unready=(2,), origin=[1, 2, 3]) == [1, 2, 4]
    # With as many voters as before it comes to its end.
    more = candidates(1, 2, 3, 4, 5, 6, leaving=(3,))
    assert amid_move([1, 2, 3], [1, 2, 4], more, origin=[1, 2, 3]) == [1, 2, 4]


def test_a_target_that_must_change_becomes_no_smaller_one_that_is_not_ready():
    admitted = candidates(1, 2, 3, 4, leaving=(3, 4))
    assert amid_move([1, 2, 3], [1, 2, 4], admitted, unready=(2,)) == [1, 2, 3]
    assert amid_move([1, 2, 3], [1, 2, 4], admitted) == [1, 2]


# -- the table --------------------------------------------------------------------------------------------------------


def move(*nodes):
    target = [ReplicaRecord(node, f"dir{node}") for node in nodes]
    return AlterPlacements([PlacementRecord("raft0", 0, target or None)])


def finish(revision):
    return FinishPlacement("raft0", tuple(revision))


def machine_of(count=7, *, level=1):
    machine = Machine(OFFERED, replicas(*range(1, count + 1)))
    for node in range(1, count + 1):
        record = BrokerRecord(node, f"dir{node}", "k", 9092, "r", 1, "a", 2, {MEMBERSHIP: 1})
        assert machine.apply(RegisterBroker(record)) is None
    if level:
        assert machine.apply(SetFeature(MEMBERSHIP, level)) is None
    return machine


def target_of(machine):
    tables = machine.state.tables
    return raft0_target(tables.raft0, raft0_candidates(tables.members))


def test_raft0_stays_where_it_was_founded_below_the_level_and_no_byte_is_written():
    machine = machine_of(level=0)
    before = machine.saved()
    assert isinstance(machine.apply(move(1, 2, 3, 4, 5)), FeatureLevelError)
    assert machine.saved() == before
    assert before[0] == 1
    assert target_of(machine) is None


def test_raft0_moves_by_revision_and_all_others_learn():
    machine = machine_of()
    table = machine.state.tables.raft0
    before = machine.saved()
    assert b"raft0" not in before
    assert machine.apply(move(1, 2, 3, 4, 5)) is None
    first = Revision(0, machine.index)
    assert table.voters == replicas(*SEVEN)
    assert table.move == Move(replicas(*SEVEN), replicas(1, 2, 3, 4, 5), first)
    assert target_of(machine) == Target(replicas(1, 2, 3, 4, 5), first, frozenset(), replicas(6, 7))
    assert machine.apply(move(3, 4, 5, 6, 7)) is None
    second = Revision(0, machine.index)
    assert isinstance(machine.apply(finish(first)), NoReassignmentError)
    assert machine.apply(finish(second)) is None
    assert (table.voters, table.move) == (replicas(3, 4, 5, 6, 7), None)
    # The logs of all replicas begin with the founders.
    assert table.placement == Placement(replicas(*SEVEN), second)
    assert target_of(machine) == Target(replicas(3, 4, 5, 6, 7), second, frozenset(), replicas(1, 2))
    assert isinstance(machine.apply(finish(second)), NoReassignmentError)


def test_raft0_goes_back_if_its_move_is_cancelled():
    machine = machine_of()
    assert isinstance(machine.apply(move()), NoReassignmentError)
    assert isinstance(machine.apply(finish((0, 1))), NoReassignmentError)
    assert machine.apply(move(1, 2, 3)) is None
    assert machine.apply(move()) is None
    assert target_of(machine).voters == replicas(*SEVEN)
    assert machine.apply(finish((0, machine.index))) is None
    assert machine.state.tables.raft0.voters == replicas(*SEVEN)


def test_a_broker_that_is_not_admitted_cannot_vote():
    machine = machine_of(3)
    stranger = AlterPlacements([PlacementRecord("raft0", 0, [ReplicaRecord(1, "another directory")])])
    for command in (move(1, 2, 4), stranger):
        refusal = machine.apply(command)
        assert isinstance(refusal, UnknownBrokerError)
        assert "cannot vote in raft0" in str(refusal)
    table = Raft0Table(replicas(1, 2, 3))
    retired = Candidates(tuple(candidates(1, 2, 3)), frozenset([replica(3).directory_id]))
    with pytest.raises(UnknownBrokerError):
        table.apply_alter(move(2, 3).of_raft0, retired, Revision(0, 9))


def test_a_broker_that_drains_votes_on_and_one_that_is_to_be_empty_gives_way():
    machine = machine_of()
    assert machine.apply(move(1, 2, 3, 4, 5)) is None
    members = machine.state.tables.members
    voters = [1, 2, 3, 4, 5]
    assert machine.apply(SetBrokerState(1, "draining")) is None
    assert wanted(voters, raft0_candidates(members).admitted, leader=2) == voters
    assert machine.apply(SetBrokerState(1, "decommissioning")) is None
    assert wanted(voters, raft0_candidates(members).admitted, leader=2) == [2, 3, 4, 5, 6]


def assert_a_revision_has_one_target():
    """The first leader's command is replaced by another one at its index; who has noted it aims in each step."""
    machine = machine_of()
    targets = [target_of(machine)]
    machine.note(move(1, 2, 3))
    targets.append(target_of(machine))
    machine.state.truncate(machine.index)
    machine.index -= 1
    machine.note(move(5, 6, 7))
    targets.append(target_of(machine))
    machine.state.commit(machine.index)
    targets.append(target_of(machine))
    assert targets[-1].voters == replicas(5, 6, 7)
    found = {}
    for target in targets:
        if target is not None:
            assert found.setdefault(target.revision, target) == target


def test_a_command_that_is_not_committed_changes_no_target():
    assert_a_revision_has_one_target()


def test_voters_by_the_newest_entry_of_the_log_are_found(monkeypatch):
    """Planted: raft0's voters come from the newest log instead of the table."""
    note = ControllerState.note

    def note_and_apply(state, entry):
        note(state, entry)
        command = decode_command(entry.payload)
        if isinstance(command, AlterPlacements):
            table = state.tables.raft0
            table.apply_alter(command.of_raft0, raft0_candidates(state.tables.members), Revision(0, entry.index))

    monkeypatch.setattr(ControllerState, "note", note_and_apply)
    with pytest.raises(AssertionError):
        assert_a_revision_has_one_target()


def test_every_broker_that_comes_or_goes_is_a_later_target():
    table, founders = Raft0Table(replicas(1, 2, 3)), tuple(candidates(1, 2, 3))
    assert raft0_target(table, Candidates(founders)) is None
    joined = Candidates(tuple(candidates(1, 2, 3, 4)), frozenset(), Revision(0, 20))
    assert raft0_target(table, joined) == Target(replicas(1, 2, 3), Revision(0, 20), frozenset(), replicas(4))
    table.apply_alter(move(2, 3, 4).of_raft0, joined, Revision(0, 21))
    assert raft0_target(table, joined) == Target(replicas(2, 3, 4), Revision(0, 21), frozenset(), replicas(1))
    gone = frozenset([replica(3).directory_id])
    lost = Candidates(tuple(candidates(1, 2, 4)), gone, Revision(0, 22))
    assert raft0_target(table, lost) == Target(replicas(2, 4), Revision(0, 22), gone, replicas(1))
    table.apply_finish(Revision(0, 21))
    assert raft0_target(table, lost).revision == Revision(0, 22)
    all_gone = Candidates((), frozenset(each.directory_id for each in replicas(2, 3, 4)), Revision(0, 23))
    assert raft0_target(table, all_gone) is None


# -- state bytes ------------------------------------------------------------------------------------------------------

# Head of the block, and its item: voters, founders, the last finished revision, the move.
GOLDEN = (
    b"\x09\x00\x00\x00" b"\x93\xa5raft0\x01\x01"
    b"\x3e\x00\x00\x00"
    b"\x94" b"\x92\x92\x01\xa4dir1\x92\x02\xa4dir2" b"\x92\x92\x01\xa4dir1\x92\x02\xa4dir2" b"\x92\x00\x00"
    b"\x94\x92\x92\x01\xa4dir1\x92\x02\xa4dir2" b"\x91\x92\x02\xa4dir2" b"\x92\x00\x04" b"\x90"
)  # fmt: skip


def test_the_block_of_raft0_is_as_it_was():
    machine = machine_of(2)
    before = machine.saved()
    assert machine.apply(move(2)) is None
    assert machine.saved() == before + GOLDEN


def test_what_is_restored_is_what_was_saved():
    machine = machine_of()
    for command in (move(1, 2, 3, 4, 5), move(6, 7, 1), move(2)):
        assert machine.apply(command) is None
        saved = machine.saved()
        other = machine_of()
        other.restore(saved)
        assert other.saved() == saved
        assert other.state.tables.raft0.saved == machine.state.tables.raft0.saved
        assert target_of(other) == target_of(machine)
        # The features are counted with eight bytes more than they take.
        assert other.state.tables.size_bytes == machine.state.tables.size_bytes == len(saved) + 8
        with pytest.raises(CorruptLogError):
            other.restore(saved[:-1])
    assert machine.apply(finish((0, machine.index))) is None
    other.restore(machine.saved())
    assert other.state.tables.raft0.voters == replicas(2)
    other.state.reset()
    assert other.state.tables.raft0.saved is None
    assert other.state.tables.raft0.voters == replicas(*SEVEN)


def test_a_snapshot_without_the_level_has_no_block_of_raft0():
    machine = machine_of()
    assert machine.apply(move(1)) is None
    saved = machine.saved()
    with pytest.raises(CorruptLogError, match="is below level 1"):
        machine.restore(saved.replace(MEMBERSHIP.encode(), b"raftka.membershix"))


@pytest.mark.parametrize(("voters", "created"), list(product([(), (1, 1), (1, 2)], repeat=2)))
def test_an_impossible_placement_is_not_read(voters, created):
    saved = save_raft0(Raft0Placement(replicas(*voters), Placement(replicas(*created))))
    item = msgspec.msgpack.encode(saved)
    if voters == created == (1, 2):
        assert decode_raft0(item) == Raft0Placement(replicas(1, 2), Placement(replicas(1, 2), NO_REVISION))
        return
    with pytest.raises(ValueError, match="impossible"):
        decode_raft0(item)


@given(
    st.lists(st.lists(st.integers(1, 7), max_size=7, unique=True) | st.just("finish"), max_size=10), st.integers(1, 4)
)
def test_the_size_is_never_above_what_was_kept_free(steps, together):
    machine = machine_of()
    state = machine.state
    for number, step in enumerate(steps, start=1):
        under_way = state.tables.raft0.move
        if step == "finish":
            machine.note(finish((0, 1) if under_way is None else under_way.revision))
        else:
            machine.note(move(*step))
        if number % together == 0:
            kept_free = state.fills()[0].used
            state.commit(machine.index)
            assert state.fills()[0].used <= kept_free
            assert state.tables.size_bytes == len(machine.saved()) + 8


def test_the_commands_keep_their_bytes():
    for command in (move(1, 2), move(), finish((0, 7))):
        assert decode_command(encode_command(command)) == command
    assert encode_command(move(1))[1:] == (
        b"\x82\xa4type\xb0alter_placements\xaaplacements\x91\x93\xa5raft0\x00\x91\x92\x01\xa4dir1"
    )
