"""P20: a leadership transfer waits for one thing, that the target holds the whole log, and hardly holds writes up."""

from model.ids import NodeId
from raft.errors import NotLeaderError, RaftError
from tests.simulation.scenarios.scenario import LEADER, Scenario
from tests.simulation.scenarios.steady_load import SteadyLoad

_PAUSE = 0.004
# A target that is near has 300 ms; the rest is the simulator's steps.
_HELD_UP_MAX = 0.320
_MEBIBYTE = 1 << 20


def _transfer(story: Scenario, leader: int, target: int) -> list[int | RaftError]:
    """Ask for a transfer; the list gets who leads, or why nobody else does."""
    outcome: list[int | RaftError] = []

    async def run() -> None:
        try:
            outcome.append(await story.replica(leader).transfer.run(NodeId(target)))
        except RaftError as error:
            outcome.append(error)

    story.machine(leader).spawn(run())
    return outcome


def _seconds_without_writes(story: Scenario, leader: int, outcome: list[int | RaftError]) -> float:
    """Write until a transfer has failed and a write is taken again; return for how long none was."""
    refused_since = None
    for _ in range(1000):
        write = story.write(leader, LEADER, size=100)
        story.run_for(_PAUSE)
        assert write.is_answered
        if isinstance(write.error, NotLeaderError):
            refused_since = refused_since or story.world.time
        elif outcome:
            break
    return 0.0 if refused_since is None else story.world.time - refused_since


def _slow_answers(story: Scenario, leader: int, target: int) -> None:
    for one, other in ((leader, target), (target, leader)):
        story.world.network.link(one, other).base = 0.5


def prove_a_transfer_waits_for_one_thing() -> None:
    _near_targets_take_over_under_load()
    _far_targets_are_refused_at_once()
    _targets_that_do_not_get_there_hold_nobody_up()


def _near_targets_take_over_under_load() -> None:
    with Scenario(120) as story:
        for number in range(10):
            leader = story.leader
            target = story.followers[number % 2]
            SteadyLoad(story, leader).run(0.2)
            outcome = _transfer(story, leader, target)
            story.wait(lambda outcome=outcome: bool(outcome), 0.1)
            assert outcome == [target]
            story.wait(lambda target=target: story.replica(target).is_in_office, 0.1)
            # The former leader is in sync with the new one once it has answered it.
            story.run_for(0.3)
        story.converge()


def _far_targets_are_refused_at_once() -> None:
    with Scenario(220) as story:
        leader, target = story.leader, story.followers[0]
        story.run_for(0.5)
        _slow_answers(story, leader, target)
        written = [story.write(leader, LEADER, size=_MEBIBYTE // 3) for _ in range(4)]
        story.wait(lambda: all(write.is_answered for write in written), 1.0)
        outcome = _transfer(story, leader, target)
        assert _seconds_without_writes(story, leader, outcome) == 0.0
        assert "lacks" in str(outcome[0]), "the refusal names the lag"
        assert f"more than {_MEBIBYTE} bytes" in str(outcome[0])
        for one, other in ((leader, target), (target, leader)):
            story.world.network.link(one, other).base = 0.0003
        story.kill(target)
        SteadyLoad(story, leader).run(0.2)
        story.restart(target)
        consensus = story.replica(leader)
        story.wait(lambda: consensus.transfer._is_reachable(consensus.state.followers[NodeId(target)]))
        outcome = _transfer(story, leader, target)
        assert _seconds_without_writes(story, leader, outcome) == 0.0
        assert "is being recovered" in str(outcome[0])
        story.converge()


def _targets_that_do_not_get_there_hold_nobody_up() -> None:
    with Scenario(320) as story:
        leader, target = story.leader, story.followers[0]
        story.run_for(0.5)
        _slow_answers(story, leader, target)
        story.write(leader, LEADER)
        story.run_for(0.01)
        outcome = _transfer(story, leader, target)
        held_up = _seconds_without_writes(story, leader, outcome)
        assert 0.2 < held_up <= _HELD_UP_MAX, f"writes were held up for {held_up:.3f} s"
        assert "holds the log up to" in str(outcome[0])
        story.converge()
