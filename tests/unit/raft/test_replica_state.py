"""Terms, roles and positions, one synchronous transition at a time."""

from dataclasses import dataclass, field

import pytest

from model.ids import Index, NodeId, Offset, Term
from raft.configuration_log import ConfigurationLog
from raft.effects import LEADER_CHANGED, PROGRESSED, Effect, LeadershipLost, Moved
from raft.errors import InvariantViolatedError
from raft.group_configuration import GroupConfiguration, RaftPolicy
from raft.messages import AppendEntriesReply, AppendStatus
from raft.replica_state import ReplicaState, Role, voters_of
from raft.rules.agreement import CopyPosition
from raft.rules.election import LogEnd
from tests.unit.raft.message_wire import replica

A, B, C = NodeId(1), NodeId(2), NodeId(3)


@dataclass
class Terms:
    """`replica_state.LogPositions` of a log that is a list of terms."""

    terms: list[int]
    flushed: int | None = None
    pending: list[int] = field(default_factory=list)

    @property
    def start_index(self) -> Index:
        return Index(1)

    @property
    def next_offset(self) -> Offset:
        return Offset(0)

    @property
    def dirty_index(self) -> Index:
        return Index(len(self.terms))

    @property
    def last_term(self) -> Term:
        return self.term_at(self.dirty_index)

    @property
    def pending_index(self) -> Index:
        return Index(len(self.terms) + len(self.pending))

    @property
    def pending_term(self) -> Term:
        return Term(self.pending[-1]) if self.pending else self.last_term

    @property
    def flushed_index(self) -> Index:
        return self.dirty_index if self.flushed is None else Index(self.flushed)

    def term_at(self, index: Index) -> Term:
        return Term(self.terms[index - 1] if index else 0)


class Subject:
    """A replica of three on node 1."""

    def __init__(self, *terms: int, term: int = 1, voted_for: NodeId | None = None, min_in_sync: int = 1) -> None:
        self.log = Terms(list(terms))
        # What the newest `hold` has come to.
        self.effect: Effect | None = None
        configuration = GroupConfiguration.of(tuple(map(replica, (1, 2, 3))))
        self.state = ReplicaState(replica(1), ConfigurationLog(configuration), RaftPolicy(min_in_sync), self.log)
        self.state.restore(Term(term), voted_for)

    def stand(self) -> None:
        """Become a candidate whose term and vote are durable."""
        self.state.become_candidate()
        self.state.on_term_durable(self.state.term)

    def lead(self) -> ReplicaState:
        self.stand()
        self.state.become_leader()
        return self.state

    def write(self, *terms: int) -> None:
        self.log.terms.extend(terms)

    def hold(self, node: NodeId, dirty: int, flushed: int | None = None) -> None:
        """Let a follower say what it holds, all of it matched."""
        reply = AppendEntriesReply(
            self.state.term, AppendStatus.SUCCESS, dirty, dirty, dirty if flushed is None else flushed
        )
        self.state.followers[node].on_success(reply)
        self.effect = self.state.advance()

    @property
    def positions(self) -> tuple[int, int]:
        """Commit and visible."""
        return self.state.commit_index, self.state.visible_index


def test_what_was_persisted_is_taken_unless_the_log_knows_a_newer_term() -> None:
    assert (Subject(1, 2, term=3, voted_for=B).state.term, Subject(1, term=3, voted_for=B).state.voted_for) == (3, B)
    newer = Subject(1, 4, term=3, voted_for=B).state
    assert (newer.term, newer.voted_for) == (4, None), "the vote was for an older term"


def test_a_newer_term_frees_the_vote_and_forgets_leader_and_match() -> None:
    state = Subject(1, 1, voted_for=A).state
    state.follow(B)
    state.on_matched(Index(2))
    state.adopt_term(Term(2))
    assert (state.term, state.voted_for, state.leader_id, state.matched_index) == (2, None, None, 0)
    with pytest.raises(AssertionError):
        state.adopt_term(Term(2))


def test_two_leaders_of_one_term_break_an_invariant() -> None:
    state = Subject(1).state
    state.follow(B)
    state.follow(B)
    with pytest.raises(InvariantViolatedError, match="nodes 2 and 3 both lead 1"):
        state.follow(C)
    with pytest.raises(InvariantViolatedError, match="nodes 1 and 2 both lead 2"):
        Subject(1).lead().follow(B)


def test_a_candidate_enters_the_next_term_and_votes_for_itself() -> None:
    state = Subject(1).state
    state.follow(B)
    state.become_candidate()
    assert (state.role, state.term, state.voted_for, state.leader_id) == (Role.CANDIDATE, 2, A, None)
    state.follow(C)
    assert (state.role, state.voted_for) == (Role.FOLLOWER, A), "the vote of the term stays given"


def test_nobody_stands_while_an_append_is_in_flight_but_votes_count_it() -> None:
    subject = Subject(1, 1)
    subject.log.pending.append(2)
    assert subject.state.log_end == LogEnd(Term(2), Index(3))
    with pytest.raises(AssertionError, match="stands with what is written"):
        subject.state.become_candidate()


def test_a_vote_is_given_once_per_term() -> None:
    state = Subject(1).state
    state.grant_vote(B, Term(3))
    state.grant_vote(B, Term(3))
    assert (state.term, state.voted_for) == (3, B)
    with pytest.raises(AssertionError):
        state.grant_vote(C, Term(3))
    state.grant_vote(C, Term(4))
    assert (state.term, state.voted_for) == (4, C)


def test_a_leader_is_in_office_once_its_barrier_is_committed() -> None:
    subject = Subject(1)
    state = subject.lead()
    assert (state.is_leader, state.is_in_office, state.barrier_index, state.last_asked_index) == (True, False, 2, 2)
    subject.hold(B, 1)
    assert subject.positions == (0, 0), "an older term is not committed by counting"
    subject.write(2)
    subject.hold(B, 2)
    assert (state.is_in_office, subject.positions, state.last_asked_index) == (True, (2, 2), 0)


def test_commit_waits_for_the_own_fsync() -> None:
    subject = Subject()
    state = subject.lead()
    subject.write(2)
    subject.log.flushed = 0
    subject.hold(B, 1)
    subject.hold(C, 1)
    assert subject.positions == (0, 0)
    subject.log.flushed = 1
    state.advance()
    assert subject.positions == (1, 1)


def office() -> Subject:
    """Return a leader of term 2 whose barrier, index 1, everybody has."""
    subject = Subject()
    subject.lead()
    subject.write(2)
    subject.hold(B, 1)
    subject.hold(C, 1)
    return subject


def test_relaxed_entries_are_visible_on_a_majority_before_they_are_committed() -> None:
    subject = office()
    subject.write(2)
    subject.log.flushed = 1
    subject.hold(B, 2, flushed=1)
    assert subject.positions == (1, 2)


def test_relaxed_entries_behind_an_uncommitted_quorum_write_are_not_visible() -> None:
    subject = office()
    subject.state.ask_flush(Index(2), Index(2))
    subject.write(2, 2)
    subject.hold(B, 3, flushed=1)
    assert (subject.positions, subject.state.last_asked_index) == ((1, 1), 2)
    subject.hold(B, 3, flushed=2)
    assert subject.positions == (2, 3)


def test_a_round_that_was_not_written_holds_nothing_up() -> None:
    subject = office()
    subject.state.ask_flush(Index(2), Index(2))
    subject.state.withdraw_flush(Index(9))
    assert subject.state.last_asked_index == 2
    subject.state.withdraw_flush(Index(2))
    subject.write(2)
    subject.hold(B, 2, flushed=1)
    assert subject.positions == (1, 2)


def test_min_in_sync_raises_the_answer_and_not_commit() -> None:
    subject = Subject(min_in_sync=3)
    subject.lead()
    subject.write(2)
    subject.hold(B, 1)
    assert (subject.state.commit_index, subject.state.answer_index()) == (1, 0)
    subject.hold(C, 1)
    assert subject.state.answer_index() == 1


def test_a_leader_that_has_counted_again_says_whether_positions_moved() -> None:
    subject = office()
    assert subject.state.advance() == PROGRESSED
    subject.write(2)
    subject.hold(B, 2, flushed=2)
    assert subject.effect == Moved(Index(2), Index(2))
    assert Subject(1).state.advance() is None, "only a leader counts"


def test_each_change_of_leadership_says_what_ended_and_why() -> None:
    assert Subject().lead().adopt_term(Term(9)) == LeadershipLost("term 9 has begun")
    assert Subject().lead().lose_leader("no majority") == LeadershipLost("no majority")
    state = Subject().state
    assert state.follow(B) == LEADER_CHANGED
    assert state.follow(B) is None
    assert state.lose_leader("it was silent") == LEADER_CHANGED
    assert state.adopt_term(Term(9)) == LEADER_CHANGED


def test_a_follower_never_passes_what_it_has_matched_and_commits_only_what_it_has_fsynced() -> None:
    subject = Subject(1, 1, 1)
    subject.log.flushed = 1
    subject.state.follow(B)
    subject.state.on_leader_progress(Index(3), Index(3))
    assert subject.positions == (0, 0)
    subject.state.on_matched(Index(2))
    subject.state.on_leader_progress(Index(3), Index(3))
    assert subject.positions == (1, 2)
    subject.state.on_leader_progress(Index(0), Index(0))
    assert subject.positions == (1, 2), "an old request moves nothing backwards"


def test_a_truncation_clamps_visible_and_match_and_never_reaches_commit() -> None:
    subject = Subject(1, 1, 1)
    subject.log.flushed = 1
    state = subject.state
    state.follow(B)
    state.on_matched(Index(3))
    state.on_leader_progress(Index(1), Index(3))
    state.on_truncating(Index(2))
    assert (state.visible_index, state.matched_index) == (1, 1)
    with pytest.raises(InvariantViolatedError, match="truncation at 1, commit is 1"):
        state.on_truncating(Index(1))


@pytest.mark.parametrize(("is_log_kept", "positions"), [(True, (3, 3)), (False, (2, 2))])
def test_an_installed_snapshot_clamps_visible_and_match_only_where_the_log_goes(
    is_log_kept: bool, positions: tuple[int, int]
) -> None:
    subject = Subject(1, 1, 1)
    subject.log.flushed = 1
    state = subject.state
    state.follow(B)
    state.on_matched(Index(3))
    state.on_leader_progress(Index(1), Index(3))
    state.on_installing(Index(3), is_log_kept=is_log_kept)
    assert (state.visible_index, state.matched_index) == positions
    with pytest.raises(InvariantViolatedError, match="a snapshot up to 1, commit is 1"):
        state.on_installing(Index(2), is_log_kept=is_log_kept)


def test_a_log_that_lost_what_was_committed_or_matched_is_noticed_at_the_next_transition() -> None:
    subject = Subject(1, 1, 1)
    subject.state.follow(B)
    subject.state.on_matched(Index(3))
    subject.state.on_leader_progress(Index(2), Index(3))
    subject.log.terms.pop()
    with pytest.raises(AssertionError):
        subject.state.lose_leader("the test says so")
    subject.log.terms.append(1)
    subject.log.flushed = 1
    with pytest.raises(AssertionError):
        subject.state.adopt_term(Term(2))


def test_what_is_committed_is_visible_unless_the_answer_waits_for_more_copies() -> None:
    subject = Subject(1, 1)
    subject.state.commit_index = Index(2)
    with pytest.raises(AssertionError):
        subject.state.check_invariants()
    subject = Subject(1, 1, min_in_sync=3)
    subject.state.commit_index = Index(2)
    subject.state.check_invariants()


def test_a_leader_never_truncates() -> None:
    with pytest.raises(InvariantViolatedError):
        Subject(1).lead().on_truncating(Index(1))


def test_the_end_of_a_leadership_forgets_followers_and_who_waits() -> None:
    state = office().state
    state.ask_flush(Index(2), Index(2))
    state.lose_leader("the test says so")
    assert (state.role, state.followers, state.last_asked_index, state.term) == (Role.FOLLOWER, {}, 0, 2)
    assert state.voted_for == A


def test_a_failed_replica_stays_failed() -> None:
    state = office().state
    state.fail()
    state.lose_leader("the test says so")
    assert (state.role, state.leader_id, state.is_in_office) == (Role.FAILED, None, False)


def test_the_own_position_is_the_logs_and_a_followers_what_it_said() -> None:
    subject = office()
    subject.write(2)
    subject.log.flushed = 1
    assert subject.state.position_of(A) == CopyPosition(Index(2), Index(1))
    assert subject.state.position_of(B) == CopyPosition(Index(1), Index(1))
    assert voters_of(subject.state.commit_quorums) == (1, 2, 3)
