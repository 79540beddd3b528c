"""P16, P18, P19: recovery_stm runs when a follower is behind, only then, and hands over without a seam, on any link."""

from collections.abc import Sequence
from itertools import cycle, pairwise
from typing import NamedTuple

from tests.simulation.scenarios.scenario import QUORUM, Scenario, Write
from tests.simulation.scenarios.steady_load import SteadyLoad, runs_that_reach

# Round-trip times of the follower that comes and goes, in seconds: one rack, one continent, two continents.
ROUND_TRIPS = (0.005, 0.050, 0.200)
# Writes that come at once where the load is bursty.
BURST = 10
_RESTARTS_PER_STORY = 50
_RESTARTS_PER_LINK = 4
_JITTER = 0.0002
_MEDIAN_SECONDS = 1.5


class _Load(NamedTuple):
    """So many writes at acks=all at once, every so many seconds."""

    burst: int
    every: float


_STEADY, _BURSTY = _Load(1, 0.004), _Load(25, 0.100)


class _Writers:
    """Writes at acks=all from outside the nodes; how long each took to be answered, in virtual seconds."""

    def __init__(self, story: Scenario, leader: int, load: _Load) -> None:
        self._story, self._leader, self._load = story, leader, load
        self._began: dict[Write, float] = {}
        story.world.scheduler.observers.append(self._look)
        self.seconds: list[float] = []

    def run(self, seconds: float) -> None:
        for _ in range(max(1, round(seconds / self._load.every))):
            for _ in range(self._load.burst):
                self._began[self._story.write(self._leader, QUORUM, size=200)] = self._story.world.time
            self._story.run_for(self._load.every)

    def median(self, seconds: float) -> float:
        """Write on, and return the median of what is answered meanwhile."""
        self.seconds.clear()
        self.run(seconds)
        return sorted(self.seconds)[len(self.seconds) // 2]

    def _look(self) -> None:
        for write in [write for write in self._began if write.is_answered]:
            assert write.error is None
            self.seconds.append(self._story.world.time - self._began.pop(write))


def _set_round_trip(story: Scenario, one: int, other: int, seconds: float) -> None:
    for link in (story.world.network.link(one, other), story.world.network.link(other, one)):
        link.base, link.jitter = seconds / 2, _JITTER


def _follower(story: Scenario, leader: int, node_id: int):
    return story.replica(leader).state.followers[node_id]


def _start_under_load(story: Scenario, node_id: int, run) -> list[tuple[int, int]]:
    """Start a broker while `run` writes; return what reaches its replica from then on (`runs_that_reach`)."""
    story.cluster.start(node_id)
    while story.cluster.consensus(node_id, story.group) is None:
        run(0.02)
    return runs_that_reach(story, node_id)


def _recoveries_of_the_partition(story: Scenario, leader: int) -> list[int]:
    """Return a list that grows by a node with each recovery of its replica; a probe counts those of raft0, too."""
    started: list[int] = []
    replica = story.replica(leader)
    start_recovery = replica._start_recovery

    def noted(node_id) -> None:
        started.append(node_id)
        start_recovery(node_id)

    replica._start_recovery = noted
    return started


def _in_flight_at_probes(story: Scenario, leader: int, follower: int) -> list[int]:
    """Return how many requests are in flight whenever a follower gets an append without entries, from now on."""
    in_flight: list[int] = []
    buffer = story.replica(follower)._buffer
    submit = buffer.submit

    def recorded(sender, request, entries: Sequence):
        if not entries:
            in_flight.append(_follower(story, leader, follower).in_flight)
        return submit(sender, request, entries)

    buffer.submit = recorded
    return in_flight


def _follow_each_other(runs: Sequence[tuple[int, int]]) -> bool:
    """Whether nothing was sent twice, out of order, or with a gap."""
    return all(first == former[1] + 1 for former, (first, _) in pairwise(runs))


# -- P16 ------------------------------------------------------------------------------------------------------------


def prove_recovery_runs_only_behind() -> None:
    _recovery_begins_when_a_follower_is_behind()
    for seconds in ROUND_TRIPS:
        for load in (_STEADY, _BURSTY):
            _recovery_ends_while_the_load_goes_on(seconds, load)


def _recovery_begins_when_a_follower_is_behind() -> None:
    with Scenario(116) as story:
        leader, follower = story.leader, story.followers[0]
        load = SteadyLoad(story, leader)
        load.run(0.5)
        started = story.probe(leader).recoveries_started
        load.run(2.0)
        assert story.probe(leader).recoveries_started == started, "nobody is behind, at any level"
        story.kill(follower)
        load.run(0.3)
        _start_under_load(story, follower, load.run)
        back = story.world.time
        # It may have begun and ended between two looks.
        while story.probe(leader).recoveries_started == started:
            load.run(0.02)
            assert story.world.time - back < 0.35, "recovery has not begun"
        load.run(1.0)
        assert not _follower(story, leader, follower).needs_recovery
        story.converge()


def _recovery_ends_while_the_load_goes_on(round_trip: float, load: _Load) -> None:
    """The near follower returns: it leaves recovery within three round trips, and answers are as quick as before.

    The other follower is three times as far away, so it can be told who makes up the majority.
    """
    with Scenario(216) as story:
        leader, (near, far) = story.leader, story.followers
        _set_round_trip(story, leader, near, round_trip)
        _set_round_trip(story, leader, far, 3 * round_trip)
        writers = _Writers(story, leader, load)
        story.run_for(1.0)
        writers.run(2 * round_trip)
        undisturbed = writers.median(_MEDIAN_SECONDS)
        story.cluster.crash(near, power_loss=False)
        writers.run(0.5 + 4 * round_trip)
        started = story.probe(leader).recoveries_started
        runs = _start_under_load(story, near, writers.run)
        began = None
        while began is None or _follower(story, leader, near).needs_recovery:
            if began is None and story.probe(leader).recoveries_started > started:
                began = story.world.time
            assert began is None or story.world.time - began <= 3 * round_trip + 0.100, "recovery does not end"
            writers.run(0.004)
        # The backlog goes through the windows of a simulated TCP connection, some of which are small.
        writers.run(0.5 + 12 * round_trip)
        since = writers.median(_MEDIAN_SECONDS)
        assert since <= 1.1 * undisturbed + 0.001, f"{since:.4f} s instead of {undisturbed:.4f} s"
        assert _follow_each_other(runs), "recovery sends nothing that rounds send"
        assert not _follower(story, leader, near).needs_recovery
        # One per group: the partition's and raft0's.
        assert story.probe(leader).recoveries_started - started <= 2
        story.converge()


# -- P18 ------------------------------------------------------------------------------------------------------------


def prove_the_hand_over_storm() -> None:
    restart_followers_under_load(118, _RESTARTS_PER_STORY)
    for number, round_trip in enumerate(ROUND_TRIPS):
        for burst in (1, BURST):
            restart_followers_under_load(318 + number, _RESTARTS_PER_LINK, round_trip=round_trip, burst=burst)
    for round_trip in ROUND_TRIPS[:2]:
        _one_recovery_answers_all_refusals(round_trip)


def restart_followers_under_load(seed: int, restarts: int, *, round_trip: float | None = None, burst: int = 1) -> None:
    """Kill or power off one follower after the other: each is brought back without a seam.

    Args:
        round_trip: Of the leader's links, in seconds; None: as the scenario's links are, some 0.6 ms.
        burst: So many writes come at once.
    """
    with Scenario(seed) as story:
        leader, followers = story.leader, cycle(story.followers)
        for node_id in story.followers if round_trip is not None else ():
            _set_round_trip(story, leader, node_id, round_trip)
        within = 1.5 + 10 * (round_trip or 0.0)
        load = SteadyLoad(story, leader, writes_per_second=100, burst=burst)
        load.run(0.3)
        for number in range(restarts):
            follower = next(followers)
            story.cluster.crash(follower, power_loss=number % 3 == 0)
            load.run(0.15)
            runs = _start_under_load(story, follower, load.run)
            back = story.world.time
            while not runs or _follower(story, leader, follower).needs_recovery:
                load.run(0.02)
                assert story.world.time - back < within, "the follower is brought back"
            load.run(0.05)
            assert _follow_each_other(runs), "nothing twice, no gap"
            assert not _follower(story, leader, follower).needs_recovery, "while the load goes on"
        assert story.counts["truncations"] == 0
        story.converge()


def _one_recovery_answers_all_refusals(round_trip: float) -> None:
    """A new leader has a dozen rounds on their way to a voter that lacks entries, each of which is refused.

    Recovery waits until the last refusal has arrived: one that came after the hand-over would begin another recovery.
    """
    with Scenario(218) as story:
        former, (elected, behind) = story.leader, story.followers
        story.run_for(0.5)
        story.connect([former, elected])
        for _ in range(20):
            story.written(former, QUORUM)
        _set_round_trip(story, elected, behind, round_trip)
        # The former leader must not bring it up to date before the election.
        story.join(elected, behind)
        story.elect(elected)
        runs, in_flight = runs_that_reach(story, behind), _in_flight_at_probes(story, elected, behind)
        started = _recoveries_of_the_partition(story, elected)
        writers = _Writers(story, elected, _Load(1, round_trip / 12.5))
        story.wait(lambda: story.replica(elected).is_in_office, 0.5 + round_trip)
        writers.run(12 * round_trip)
        follower = _follower(story, elected, behind)
        assert not follower.needs_recovery
        assert started == [behind], "one recovery, however many refusals"
        assert in_flight == [1], "it asks once, and when nothing else is to be refused any more"
        # What was refused is sent once more, and nothing else is.
        at_first = next(number for number, (first, _) in enumerate(runs) if first <= 21)
        # On a short link few rounds fit: what arrives during an fsync forms the next one.
        assert at_first > (5 if round_trip >= ROUND_TRIPS[1] else 0), "rounds were in flight when one was refused"
        assert _follow_each_other(runs[at_first:]), "nothing twice, no gap"
        story.converge()


# -- P19 ------------------------------------------------------------------------------------------------------------


def prove_the_shared_end_of_what_was_sent() -> None:
    _both_send_what_follows()
    for seconds in ROUND_TRIPS:
        for burst in (1, BURST):
            _rounds_reach_a_follower_before_it_has_answered_recovery(seconds, burst)


def _both_send_what_follows() -> None:
    with Scenario(119) as story:
        leader, follower = story.leader, story.followers[0]
        load = SteadyLoad(story, leader)
        load.run(0.3)
        story.kill(follower)
        load.run(0.4)
        runs = _start_under_load(story, follower, load.run)
        load.run(1.0)
        metadata = _follower(story, leader, follower)
        begun = story.probe(leader).recoveries_started
        assert not metadata.needs_recovery
        # What recovery sends ends where rounds begin: the first round after it fits without a probe or a resend.
        assert len(runs) > 50, "rounds, not only chunks"
        assert _follow_each_other(runs)
        load.run(1.0)
        assert story.probe(leader).recoveries_started == begun, "and from then on it stays with the rounds"
        assert metadata.expected_log_end_index == story.replica(leader).log.dirty_index
        story.converge()


def _rounds_reach_a_follower_before_it_has_answered_recovery(round_trip: float, burst: int) -> None:
    """From the step of the hand-over on a round is with the follower half a round trip after the leader wrote it."""
    with Scenario(219) as story:
        leader, follower = story.leader, story.followers[0]
        story.run_for(0.5)
        story.kill(follower)
        story.written(leader, QUORUM, 20)
        _set_round_trip(story, leader, follower, round_trip)
        runs = _start_under_load(story, follower, story.run_for)
        metadata = _follower(story, leader, follower)
        story.wait(lambda: metadata.needs_recovery and metadata.is_recovering, 2.0)
        story.wait(lambda: not metadata.needs_recovery, 2.0)
        assert not runs, "nothing of what was sent has arrived, and no answer"
        assert metadata.match_index < story.replica(leader).log.dirty_index
        for number in range(8):
            writes = [story.write(leader, QUORUM) for _ in range(burst)]
            story.wait(lambda write=writes[-1]: story.holds(leader, write))
            assert metadata.expected_log_end_index == story.replica(leader).log.dirty_index, (
                f"round {number} is left out"
            )
            story.run_for(round_trip / 20)
        story.run_for(round_trip)
        assert len(runs) >= 9, "each went as a request of its own"
        assert _follow_each_other(runs)
        story.converge()
