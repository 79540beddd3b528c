"""R24: a voter is late once it has lacked an entry for `replica_lag_max` since that one became the first uncommitted."""

import bisect
import random

import pytest

from model.ids import ConsistencyLevel, Index, NodeId
from raft.follower_index_metadata import NEVER, FollowerIndexMetadata
from raft.options import RaftOptions
from runtime.workers import Pool
from tests.unit.raft.stage import Stage

QUORUM = ConsistencyLevel.QUORUM_ACK
STEP = 0.05


def stage(lag, min_in_sync=1):
    return Stage(3, RaftOptions(replica_lag_max=lag), min_in_sync)


def in_sync(story):
    """As the leader counts now."""
    oldest = story.world.time - story.options.replica_lag_max
    followers = story.replica(1).state.followers
    return {1, *(node for node, each in followers.items() if each.caught_up_at >= oldest)}


def begin(story):
    for node in story.actors:
        story.start(node)
    story.elect(1)
    assert in_sync(story) == {1, 2, 3}


def replicate(story, name):
    story.replicate(1, name, QUORUM, 200, None, 100.0)
    story.settle()


def step(story):
    """A heartbeat, everything that follows from it, and a little time."""
    story.beat(1)
    story.settle()
    story.deliver(lambda _: True)
    story.advance(STEP)


def seconds_in_sync(story, node, at_most=5.0):
    """Return for how long a voter is in sync yet."""
    seconds = 0.0
    while node in in_sync(story):
        assert seconds < at_most, f"node {node} is in sync still"
        step(story)
        seconds += STEP
    return seconds


def _a_voter_that_answers_and_lacks_the_first_uncommitted_entry_is_late_in_time(lag):
    with stage(lag, min_in_sync=2) as story:
        begin(story)
        story.wire.is_cut[3] = True
        story.actors[2].workers.hold(Pool.APPEND)
        replicate(story, "a")
        assert lag - STEP <= seconds_in_sync(story, 2) <= lag + 3 * STEP
        # Nothing more is taken that could not be answered.
        replicate(story, "b")
        assert any(event.startswith("b failed with NotEnoughReplicas") for event in story.events)
        story.call(lambda: story.actors[2].workers.release(Pool.APPEND))
        story.settle()
        step(story)
        assert 2 in in_sync(story)
        assert any(event.startswith("a done") for event in story.events)


@pytest.mark.parametrize("lag", [0.6, 1.5])
def test_row_r24_a_voter_that_answers_and_lacks_the_first_uncommitted_entry_is_late_in_time(lag):
    _a_voter_that_answers_and_lacks_the_first_uncommitted_entry_is_late_in_time(lag)


def _the_time_of_a_voter_begins_anew_with_each_entry_that_it_confirms():
    """It confirms each entry after 200 ms, while the others commit on; 300 ms are allowed."""
    with stage(0.3) as story:
        begin(story)
        sent = {}
        for number in range(120):
            replicate(story, f"w{number}")
            story.beat(1)
            story.settle()
            now = story.world.time
            for message in story.wire.in_flight:
                sent.setdefault(id(message.future), (message, now))
            story.deliver(lambda message: 3 in (message.source, message.target))
            for message, at in [*sent.values()]:
                if now - at >= 0.2 - 1e-9:
                    story.deliver(lambda each, future=message.future: each.future is future)
                    del sent[id(message.future)]
            story.advance(STEP)
            # Before its first answers under the load nobody knows how late it is.
            assert number < 12 or in_sync(story) == {1, 2, 3}, number


def test_row_r24_the_time_of_a_voter_begins_anew_with_each_entry_that_it_confirms():
    _the_time_of_a_voter_begins_anew_with_each_entry_that_it_confirms()


def _any_answer_is_enough(follower, commit, last, now, lag_max):
    """The first entry that all wait for has no time."""
    if follower.match_index >= commit:
        follower.caught_up_at = now


def test_row_r24_fails_if_an_answer_of_a_voter_is_enough(monkeypatch):
    monkeypatch.setattr(FollowerIndexMetadata, "update_caught_up", _any_answer_is_enough)
    with pytest.raises(AssertionError, match="node 2 is in sync still"):
        _a_voter_that_answers_and_lacks_the_first_uncommitted_entry_is_late_in_time(0.6)


def test_row_r24_fails_if_a_voter_must_hold_what_is_committed_now(monkeypatch):
    monkeypatch.setattr(FollowerIndexMetadata, "update_caught_up", _any_answer_is_enough)
    with pytest.raises(AssertionError):
        _the_time_of_a_voter_begins_anew_with_each_entry_that_it_confirms()


def test_row_r24_a_voter_that_lacks_what_the_others_have_committed_is_late_in_time():
    with stage(0.6) as story:
        begin(story)
        story.actors[2].workers.hold(Pool.APPEND)
        replicate(story, "a")
        assert 0.6 - STEP <= seconds_in_sync(story, 2) <= 0.6 + 3 * STEP
        assert any(event.startswith("a done") for event in story.events)
        assert in_sync(story) == {1, 3}


@pytest.mark.parametrize("seed", range(20))
def test_what_a_follower_lacks_is_as_old_as_it_is_told_to_be(seed):
    """Against the time at which each entry became the first uncommitted, in a random history."""
    rng, lag = random.Random(seed), rng_lag(seed)
    one, now = FollowerIndexMetadata(NodeId(2), Index(0)), 0.0
    last, commit, match, longest_gap, replied = 0, 0, 0, 0.0, 0.0
    # When each entry was appended, and when those before it were committed.
    appended, commits, times = [0.0], [0], [0.0]
    for _ in range(400):
        now += rng.choice([0.001, 0.01, 0.03])
        for _ in range(rng.randint(0, 3)):
            last += 1
            appended.append(now)
        if rng.random() < 0.6 and commit < last:
            commit = rng.randint(commit + 1, last)
            commits.append(commit)
            times.append(now)
        if rng.random() < 0.7:
            match = max(match, rng.randint(max(match, last - 12), last) if rng.random() < 0.8 else match)
            one.match_index = Index(match)
            longest_gap, replied = max(longest_gap, now - replied), now
            one.update_caught_up(Index(commit), Index(last), now, lag)
            lacked = match + 1
            head_at = now
            if lacked <= last and lacked <= commit + 1:
                # The commit that made it the first one, if it was there by then.
                later = bisect.bisect_left(commits, lacked)
                was_first = commits[later - 1] == lacked - 1
                head_at = max(appended[lacked], times[later - 1]) if was_first else times[later]
            if now - head_at < 2 * lag - longest_gap:
                assert one.caught_up_at <= head_at + longest_gap + 1e-9
                has_been = one.caught_up_at > NEVER
                assert not has_been or one.caught_up_at >= head_at - lag / 8 - 2 * longest_gap - 1e-9


def rng_lag(seed):
    return [0.1, 0.3, 2.0][seed % 3]
