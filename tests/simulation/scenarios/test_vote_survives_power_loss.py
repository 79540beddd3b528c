"""A voter loses power right before or right after its vote is durable; it never votes twice in one term."""

import msgspec
import pytest

from raft.vote_store import PersistedVote, vote_key
from runtime.workers import Pool
from tests.simulation.scenarios.scenario import QUORUM, Scenario


def _durable_vote(story: Scenario, node_id: int) -> PersistedVote | None:
    stored = story.cluster._kvstores[node_id].get(vote_key(story.group))
    return None if stored is None else msgspec.msgpack.decode(stored, type=PersistedVote)


def _ask(story: Scenario) -> tuple[int, int, int, int]:
    """Return (first candidate, second candidate, voter, term): the first is asking the voter for its vote of `term`.

    The voter is the former leader, restarted, so that neither of the others hears a leader any more.
    """
    voter, [first, second] = story.leader, story.followers
    [write] = story.written(voter, QUORUM)
    story.wait(lambda: write.is_answered)
    story.run_for(0.5)
    term = story.replica(voter).term + 1
    story.kill(voter)
    story.connect({first, voter})
    story.restart(voter)
    story.run_for(1.0)
    return first, second, voter, term


def _stand(story: Scenario, candidate: int, voter: int, term: int) -> None:
    """Run until the voter has given its vote in memory."""
    story.candidates = {candidate}
    state = story.replica(voter).state
    story.wait(lambda: state.term == term and state.voted_for == candidate, 5.0)


def test_a_vote_that_was_not_durable_was_not_told_and_may_be_given_again() -> None:
    with Scenario(61) as story:
        first, second, voter, term = _ask(story)
        story.machine(voter).workers.stall(Pool.KVSTORE, 60.0)
        _stand(story, first, voter, term)
        durable = _durable_vote(story, voter)
        assert durable is None or durable.term < term
        story.lose_power(voter)
        assert not story.replica(first).state.is_leader
        story.candidates = set()
        story.connect({second, voter})
        story.restart(voter)
        assert story.replica(voter).state.term < term
        story.elect_into_office(second)
        assert story.replica(second).term == term, "the same term: the vote was free"
        assert story.replica(voter).state.voted_for == second
        story.converge()


@pytest.mark.parametrize("reply_arrives", [False, True])
def test_a_durable_vote_is_kept(reply_arrives: bool) -> None:
    with Scenario(62) as story:
        first, second, voter, term = _ask(story)
        _stand(story, first, voter, term)
        story.wait(lambda: (_durable_vote(story, voter) or PersistedVote(0, None)).term == term)
        if reply_arrives:
            story.wait(lambda: story.replica(first).state.is_leader)
        story.lose_power(voter)
        assert story.replica(first).state.is_leader == reply_arrives
        story.candidates = set()
        story.connect({second, voter})
        story.restart(voter)
        state = story.replica(voter).state
        assert (state.term, state.voted_for) == (term, first)
        assert story.replica(second).term < term, "it could stand for that very term"
        story.elect_into_office(second)
        assert story.replica(second).term > term, "the vote of that term was given away"
        story.converge()
