"""P6, P7, P8, P11: batcher and replicate_entries_stm serve every level, and how a round goes."""

from collections.abc import Callable
from pathlib import Path

import raft
from raft import replicate_entries_stm
from runtime.workers import Pool
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario

_WRITES = 1000
_WINDOW = 16


def _spread(story: Scenario, node_id: int, count: int) -> None:
    """Write with every level, a few per round."""
    for number in range(count):
        story.write(node_id, LEADER if number % 3 else QUORUM, size=100)
        if number % 5 == 4:
            story.run_for(0.002)
    story.wait(lambda: all(write.is_answered for write in story.writes), 5.0)


def prove_one_path() -> None:
    source = Path(raft.__file__).parent
    for name in ("replicate_batcher", "replicate_entries_stm", "recovery_stm"):
        assert "Policy" not in (source / f"{name}.py").read_text(), f"{name} knows the policy"
    with Scenario(106) as story:
        leader = story.leader
        story.run_for(0.5)
        before, sent = story.probe(leader).recovery_bytes, story.probe(leader).append_requests_sent
        for number in range(_WRITES):
            story.write(leader, LEADER)
            if number % 10 == 9:
                story.run_for(0.002)
        story.wait(lambda: all(write.is_answered for write in story.writes), 5.0)
        story.wait(lambda: _all_hold_everything(story), 1.0)
        assert story.probe(leader).recovery_bytes == before, "every append came from a round"
        assert story.probe(leader).append_requests_sent > sent
        story.converge()


def _all_hold_everything(story: Scenario) -> bool:
    last = story.replica(story.leader).log.dirty_index
    return all(story.replica(node_id).log.dirty_index == last for node_id in story.followers)


def prove_dispatch_follows_the_write_and_not_the_flush() -> None:
    with Scenario(107) as story:
        leader, followers = story.leader, story.followers
        story.run_for(0.5)
        story.machine(leader).workers.stall(Pool.FSYNC, 1.0)
        write = story.write(leader, QUORUM)
        story.wait(lambda: all(story.holds(node_id, write) for node_id in followers), 0.1)
        assert story.replica(leader).log.flushed_index < story.replica(leader).log.dirty_index
        story.run_for(1.5)
        story.machine(leader).workers.stall(Pool.APPEND, 0.3)
        write = story.write(leader, QUORUM)
        story.run_for(0.25)
        assert not any(story.holds(node_id, write) for node_id in followers), "the leader has not written it"
        story.wait(lambda: write.is_answered, 1.0)
        story.converge()


def prove_the_window_bounds_requests_in_flight() -> None:
    with Scenario(108) as story:
        leader, followers = story.leader, story.followers
        story.run_for(0.5)
        slow = story.replica(leader).state.followers[followers[0]]
        story.world.network.link(followers[0], leader).base = 1.0
        most = 0
        story.run_for(0.01)
        for _ in range(100):
            story.write(leader, LEADER)
            story.run_for(0.005)
            most = max(most, slow.in_flight)
        assert most == _WINDOW, "full, and never fuller"
        assert all(write.is_answered for write in story.writes), "the others go on without it"
        story.world.network.link(followers[0], leader).base = 0.0003
        story.converge()


class _Counter:
    """Counts the calls of a function that is put in its place."""

    def __init__(self, wrapped: Callable) -> None:
        self.calls = 0
        self._wrapped = wrapped

    def __call__(self, *arguments):
        self.calls += 1
        return self._wrapped(*arguments)


def prove_a_request_is_built_once_and_never_read_back() -> None:
    with Scenario(111) as story:
        leader = story.leader
        story.run_for(0.5)
        reads = _count_reads(story, leader)
        built = replicate_entries_stm.wire_buffers
        counter = replicate_entries_stm.wire_buffers = _Counter(built)
        try:
            rounds = story.probe(leader).rounds
            _spread(story, leader, 300)
            story.run_for(0.5)
            assert not reads, "the leader reads nothing of what it writes"
            # raft0 is led by one of them and may write a round or none: the probe counts all groups of the node.
            assert counter.calls <= story.probe(leader).rounds - rounds + 1, "one request for all followers"
        finally:
            replicate_entries_stm.wire_buffers = built
        story.converge()


def _count_reads(story: Scenario, node_id: int) -> list[Pool]:
    """Return a list that grows with every blocking read of a node."""
    workers = story.machine(node_id).workers
    reads: list[Pool] = []
    run = workers.run

    async def counted(pool, job):
        if pool is Pool.READ:
            reads.append(pool)
        return await run(pool, job)

    workers.run = counted
    return reads
