"""A broker stays ready while partitions move to it, from it and back, and is unready where a replica is damaged."""

import asyncio
from contextlib import asynccontextmanager, suppress

from model.ids import GroupId, Index, Term
from raft.rules.election import LogEnd
from raftka.broker.leader_memory import LEADERLESS_SECONDS, LeaderMemory
from raftka.broker.readiness import not_ready
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.cluster.test_moves import ask, assigned, movable, until_held

ONE = GroupId("0" * 32 + "/1")
TWO = GroupId("0" * 32 + "/2")


@asynccontextmanager
async def watched(cluster):
    """Look at the readiness of all brokers at each step of the loop; yields the reasons that were told."""
    memories = {number: LeaderMemory() for number in cluster.nodes}
    await until(lambda: all(not_ready(cluster[number], each) is None for number, each in memories.items()))
    reasons = set()

    async def look():
        while True:
            for number, memory in memories.items():
                found = not_ready(cluster[number], memory)
                if found is not None:
                    reasons.add(f"{number}: {found.reason}")
            await asyncio.sleep(0)

    task = asyncio.create_task(look())
    try:
        yield reasons
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_brokers_stay_ready_while_a_partition_moves_away_and_back_to_where_it_was(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2, 3)
            for number in range(40):
                await cluster.produce("t", b"%d" % number)
            async with watched(cluster) as reasons:
                assert await ask(cluster, (0, [2, 4])) == {}
                await until_held(cluster, 2, 4)
                # Brokers 1 and 3 have held it, and have left gravestones.
                assert await ask(cluster, (0, [1, 3])) == {}
                await until_held(cluster, 1, 3)
            assert reasons == set()

    run(test, seconds=90)


def test_a_broker_whose_voter_was_damaged_is_not_ready_until_it_has_its_entries_back(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2, 3)
            assert await ask(cluster, (0, [2, 3, 4])) == {}
            group = await until_held(cluster, 2, 3, 4)
            state = cluster[4].groups.get(group).state
            await until(lambda: not_ready(cluster[4]) is None)
            state.lost_end = LogEnd(Term(10**6), Index(10**6))
            assert not_ready(cluster[4]).reason == "t-0 gets back what damage took, up to entry 1000000@1000000"
            # It has them back once they are on its disk, also while it has not forgotten yet that they were away.
            state.lost_end = state.flushed_end
            assert not_ready(cluster[4]) is None
            state.lost_end = None
            await until(lambda: not_ready(cluster[4]) is None)

    run(test, seconds=90)


def test_a_broker_is_not_ready_while_a_damaged_replica_is_closed_and_until_it_has_opened_all_at_its_start(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2, 3)
            backend, group = cluster[1].backend, cluster[1].controller.topics.get("t").group(0)
            await until(lambda: not_ready(cluster[1]) is None)
            backend.reopening.add(group)
            assert not_ready(cluster[1]).reason == "t-0 is opened again without what is damaged"
            backend.reopening.clear()
            backend.has_opened = False
            assert not_ready(cluster[1]).reason == "replicas are being opened"

    run(test)


def test_before_a_broker_was_ready_once_each_partition_must_have_a_leader_at_that_moment() -> None:
    memory = LeaderMemory()
    assert not memory.is_missed(ONE, 1.0, has_leader=True)
    assert memory.is_missed(ONE, 1.1, has_leader=False)
    assert memory.is_missed(TWO, 1.1, has_leader=False)


def test_a_ready_broker_misses_a_leader_that_was_away_for_longer_than_an_election_takes() -> None:
    memory = LeaderMemory()
    memory.note_ready()
    assert not memory.is_missed(ONE, 10.0, has_leader=True)
    late = 10.0 + LEADERLESS_SECONDS
    assert not memory.is_missed(ONE, late - 0.1, has_leader=False)
    assert memory.is_missed(ONE, late, has_leader=False)
    assert not memory.is_missed(ONE, late + 1, has_leader=True)
    assert not memory.is_missed(ONE, late + 2, has_leader=False)


def test_a_partition_that_is_new_on_a_ready_broker_has_as_long_to_elect_its_first_leader() -> None:
    memory = LeaderMemory()
    memory.note_ready()
    assert not memory.is_missed(ONE, 10.0, has_leader=False)
    assert memory.is_missed(ONE, 10.0 + LEADERLESS_SECONDS, has_leader=False)
    memory.keep({TWO})
    assert not memory.is_missed(ONE, 30.0, has_leader=False), "it was elsewhere meanwhile"
