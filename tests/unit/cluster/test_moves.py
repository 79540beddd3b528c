"""Partitions move between whole nodes: under writes, back again, cancelled, and to another number of replicas."""

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import pytest

from cluster.errors import ControllerUnavailableError, FeatureLevelError
from cluster.health_counts import HealthCounts
from cluster.placement import Move
from cluster.placements import AlterPlacementsRequest, Placements, WantedMove
from model.features import OFFERED
from model.ids import DirectoryId, Index, NodeId, Replica
from model.topic_config import TopicConfig
from raft.errors import RaftError
from raft.gravestone import read_gravestone
from raft.group_configuration import Revision
from raft.replica_directories import ReplicaDirectories
from storage.entry import EntryKind
from storage.errors import LogPoisonedError
from tests.feature_levels import LEVEL_0
from tests.unit.cluster.cluster_nodes import Cluster, cluster_of, run, until

NODES = (1, 2, 3, 4)


class Movable(Cluster):
    """Nodes that have the feature."""

    def make(self, number, **changes):
        return super().make(number, features=OFFERED, **changes)


@asynccontextmanager
async def movable(directory):
    cluster = Movable(directory, len(NODES))
    try:
        # A new cluster begins at the levels that its founders have.
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()


async def ask(cluster, *moves, through=1, may_change_count=True):
    """Return the refusals as {partition: error}."""
    await until(cluster.has_controller)
    wanted = [WantedMove("t", partition, target) for partition, target in moves]
    reply = await cluster[through].placements.alter(AlterPlacementsRequest(wanted, may_change_count, 10.0))
    return {each.partition: each.error for each in reply.refused}


def topics(cluster):
    return [node.controller.topics.get("t") for node in cluster.nodes.values()]


def nodes_of(replicas):
    return [replica.node_id for replica in replicas]


async def until_held(cluster, *wanted, number=0, running=NODES):
    """Wait until the table and the disks say that these nodes hold the partition, and nobody else does."""
    group = topics(cluster)[0].group(number)
    name = group.replace("/", "-")

    def is_held():
        for topic in topics(cluster):
            if topic.move_of(number) is not None or nodes_of(topic.replicas[number]) != list(wanted):
                return False
        return all(
            (cluster[node].partitions.get(group) is not None) == (node in wanted)
            and (name in cluster.group_directories(node)) == (node in wanted)
            for node in running
        )

    await until(is_held, seconds=40)
    return group


async def acknowledged(cluster, group, *nodes):
    """What all of these replicas hold, by offset: the same on each."""
    await until_equal(cluster, group, *nodes)
    found = []
    for node in nodes:
        log = cluster[node].groups.get(group).log
        entries = await log.read(Index(1), 64 * 1024 * 1024)
        found.append({entry.base_offset: bytes(entry.payload) for entry in entries if entry.kind is EntryKind.DATA})
    assert all(each == found[0] for each in found)
    return found[0]


def assert_kept(written, found):
    """Each acknowledged record is where it was."""
    for offset, number in written:
        # The value of the record lies uncompressed at the end of its batch, before the number of headers.
        assert found[offset].endswith(b"%d\0" % number), offset


async def until_equal(cluster, group, *nodes):
    """Wait until the replicas on these nodes have committed as much; return how much."""

    def ends():
        states = [cluster[node].groups.get(group).state for node in nodes]
        return {state.commit_index for state in states} | {state.log_end.last_index for state in states}

    await until(lambda: len(ends()) == 1)
    return ends().pop()


async def write_until(cluster, done, written):
    number = 0
    while not done.is_set():
        number += 1
        # A leader that has just left does not acknowledge the write.
        with suppress(RaftError):
            written.append((await cluster.produce("t", b"%d" % number), number))
        # A load, not a flood: the loop of all four brokers is this one.
        await asyncio.sleep(0.005)


@asynccontextmanager
async def writes(cluster):
    """Produce all the time; yields what was acknowledged, (offset, number)."""
    done, written = asyncio.Event(), []
    writer = asyncio.create_task(write_until(cluster, done, written))
    await until(lambda: len(written) >= 3)
    try:
        yield written
    finally:
        done.set()
        await writer


async def never(*_):
    raise ControllerUnavailableError("a test does not let it through")


def reached(consensus):
    return consensus is not None and consensus.reconfiguration.has_reached


async def assigned(cluster, *nodes, partitions=1):
    await cluster.create_topic("t", partitions, len(nodes), assignment=[list(nodes)] * partitions)


def test_a_partition_moves_under_writes_and_back_and_what_it_leaves_is_a_gravestone(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2, 3)
            async with writes(cluster) as written:
                assert await ask(cluster, (0, [2, 3, 4]), through=4) == {}
                group = await until_held(cluster, 2, 3, 4)
                moved = len(written)
                await until(lambda: len(written) > moved + 3)
            offsets = [offset for offset, _ in written]
            assert offsets == sorted(set(offsets))
            assert_kept(written, await acknowledged(cluster, group, 2, 3, 4))
            for node in (2, 3, 4):
                assert sorted(nodes_of(cluster[node].groups.get(group).configuration.replicas)) == [2, 3, 4]
            assert read_gravestone(cluster[1]._kvstore, group) is not None
            assert topics(cluster)[0].created_on(0) == tuple(cluster[node].replica for node in (1, 2, 3))
            # Back to where it has been, empty, with the gravestone's vote.
            assert await ask(cluster, (0, [1, 2])) == {}
            await until_held(cluster, 1, 2)
            offset = await cluster.produce("t", b"more")
            assert offset > offsets[-1]
            found = await acknowledged(cluster, group, 1, 2)
            assert_kept(written, found)
            assert found[offset].endswith(b"more\0")

    run(test, seconds=90)


def test_nothing_moves_below_the_level(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1, features=LEVEL_0) as cluster:
            await assigned(cluster, 1)
            with pytest.raises(FeatureLevelError, match=r"moves of partitions need raftka\.membership at level 1"):
                await ask(cluster, (0, [1]))

    run(test)


def test_each_partition_that_cannot_move_is_named_and_the_others_move(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2, partitions=6)
            moves = [(0, [9]), (1, [3, 3]), (2, []), (3, None), (7, [1]), (-1, [1]), (4, [1, 2, 3]), (5, [3, 4])]
            assert await ask(cluster, *moves, may_change_count=False) == {
                0: "InvalidReplicaAssignmentError",
                1: "InvalidReplicaAssignmentError",
                2: "InvalidReplicaAssignmentError",
                3: "NoReassignmentError",
                7: "UnknownPartitionError",
                -1: "UnknownPartitionError",
                4: "InvalidReplicationFactorError",
            }
            await until_held(cluster, 3, 4, number=5)
            # It is there: nothing is written.
            end = cluster.controller.controller.applied_index
            assert await ask(cluster, (5, [3, 4])) == {}
            assert cluster.controller.controller.applied_index == end
            cluster.controller.admin.replicas_max = lambda: 2
            assert await ask(cluster, (0, [3]), (1, [3]), (2, [3])) == {
                1: "InvalidReplicaAssignmentError",
                2: "InvalidReplicaAssignmentError",
            }
            await until_held(cluster, 3)
            wanted = AlterPlacementsRequest([WantedMove("u", 0, None)], True, 5.0)
            assert [each.error for each in (await cluster[1].placements.alter(wanted)).refused] == ["UnknownTopicError"]

    run(test, seconds=90)


def test_a_partition_gets_more_replicas_and_fewer_again(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1)
            async with writes(cluster) as written:
                assert await ask(cluster, (0, [1, 2, 3])) == {}
                await until_held(cluster, 1, 2, 3)
                assert await ask(cluster, (0, [3])) == {}
                group = await until_held(cluster, 3)
            assert_kept(written, await acknowledged(cluster, group, 3))
            assert cluster.leader_of("t").topic.replicas[0] == (cluster[3].replica,)

    run(test, seconds=90)


def test_the_leader_moves_away_and_another_one_leads(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2, 3)
            async with writes(cluster) as written:
                leader = cluster.leader_of("t").leader_id
                others = [node for node in NODES if node != leader]
                assert await ask(cluster, (0, others)) == {}
                group = await until_held(cluster, *others)
            assert_kept(written, await acknowledged(cluster, group, *others))
            for node in NODES:
                await until(lambda node=node: cluster[node].leadership.leader_of(group).node_id in others)
            await until(lambda: cluster.find_leader("t") is not None)
            partition = cluster.find_leader("t")
            await until(lambda: sorted(partition.gauges.in_sync) == others)
            health = next(cluster[node].health for node in others if cluster[node].partitions.get(group) is partition)
            assert not health.replication_of(partition).is_under_replicated

    run(test, seconds=90)


def test_who_holds_a_target_that_was_replaced_leaves_at_the_end(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2)
            async with writes(cluster) as written:
                for target in ([3, 4], [1, 3], [4, 2], [3], [1, 4]):
                    assert await ask(cluster, (0, target)) == {}
                    # So that some of the moves are replaced in the middle; where does not matter.
                    await asyncio.sleep(0.1)
                group = await until_held(cluster, 1, 4)
            assert_kept(written, await acknowledged(cluster, group, 1, 4))

    run(test, seconds=90)


def test_a_restarted_broker_opens_what_voted_for_a_target_that_was_given_up(tmp_path, monkeypatch):
    """Brokers 3 and 4 have become all voters when the move is cancelled: without them nobody could lead."""

    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2)
            await cluster.produce("t", b"a")
            # Nobody is told that the target is reached.
            monkeypatch.setattr(Placements, "report", never)
            assert await ask(cluster, (0, [3, 4])) == {}
            group = topics(cluster)[0].group(0)
            await until(lambda: any(reached(cluster[node].groups.get(group)) for node in (3, 4)))
            await cluster.stop(1, 2, 3, 4)
            await cluster.start(1, 3, 4)
            await until(cluster.has_controller)
            # Broker 2 is away: the group goes on by 3 and 4, but not back.
            assert await ask(cluster, (0, None)) == {}
            await cluster.stop(1, 3, 4)
            monkeypatch.undo()
            await cluster.start()
            await until_held(cluster, 1, 2)
            assert await cluster.produce("t", b"b") == 1
            assert len(await acknowledged(cluster, group, 1, 2)) == 2

    run(test, seconds=90)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_replica_that_is_half_gone_goes_before_it_begins_anew(tmp_path, monkeypatch, restarts):
    finish = ReplicaDirectories.finish_leaving

    async def refuse(self, group):
        raise LogPoisonedError("the disk refuses")

    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2, 3)
            await cluster.produce("t", b"a")
            monkeypatch.setattr(ReplicaDirectories, "finish_leaving", refuse)
            assert await ask(cluster, (0, [2, 3, 4])) == {}
            group = topics(cluster)[0].group(0)
            await until(lambda: cluster[1].backend._unleft)
            assert await ask(cluster, (0, [1, 2])) == {}
            await until(lambda: all(topic.move_of(0) is not None for topic in topics(cluster)))
            if restarts:
                await cluster.stop(1)
                await cluster.start(1)
            monkeypatch.setattr(ReplicaDirectories, "finish_leaving", finish)
            await until_held(cluster, 1, 2)
            assert len(await acknowledged(cluster, group, 1, 2)) == 1

    run(test, seconds=90)


def test_a_move_that_cannot_go_on_is_cancelled(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2, 3)
            await cluster.stop(4)
            await until(lambda: cluster.has_controller() and cluster.has_leaders("t"))
            assert await ask(cluster, (0, [2, 3, 4])) == {}
            await until(lambda: all(topic.move_of(0) is not None for topic in topics(cluster)))
            assert await ask(cluster, (0, None)) == {}
            assert await ask(cluster, (0, None)) in ({}, {0: "NoReassignmentError"})
            await until_held(cluster, 1, 2, 3, running=(1, 2, 3))
            assert await ask(cluster, (0, None)) == {0: "NoReassignmentError"}
            await cluster.start(4)
            group = await until_held(cluster, 1, 2, 3)
            assert cluster[4].groups.get(group) is None

    run(test, seconds=90)


def test_a_broker_that_was_away_leaves_when_it_returns_and_a_deletion_takes_gravestones_along(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2, 3)
            await cluster.produce("t", b"a")
            group = topics(cluster)[0].group(0)
            await until_equal(cluster, group, 1, 2, 3)
            await cluster.stop(1)
            await until(lambda: cluster.has_controller() and cluster.has_leaders("t"))
            assert await ask(cluster, (0, [2, 3, 4]), through=2) == {}
            await until_held(cluster, 2, 3, 4, running=(2, 3, 4))
            assert os.listdir(f"{cluster.data_dir(1)}/groups/{group.replace('/', '-')}")
            await cluster.start(1)
            await until_held(cluster, 2, 3, 4)
            assert read_gravestone(cluster[1]._kvstore, group) is not None
            await cluster.delete_topic(group.partition("/")[0])
            await until(lambda: not any(cluster.group_directories(node) for node in NODES))
            await until(lambda: read_gravestone(cluster[1]._kvstore, group) is None)

    run(test, seconds=90)


def test_a_move_goes_on_after_all_brokers_have_been_restarted(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2, 3)
            await cluster.produce("t", b"a")
            await cluster.stop(4)
            await until(lambda: cluster.has_controller() and cluster.has_leaders("t"))
            assert await ask(cluster, (0, [2, 3, 4])) == {}
            await until(lambda: all(topic.move_of(0) is not None for topic in topics(cluster)))
            await cluster.stop()
            await cluster.start()
            group = await until_held(cluster, 2, 3, 4)
            assert await cluster.produce("t", b"b") == 1
            await until_equal(cluster, group, 2, 3, 4)

    run(test, seconds=90)


def test_a_partition_that_moves_is_under_replicated_only_without_a_replica_that_it_had():
    one, two, three, four = (Replica(NodeId(node), DirectoryId(f"{node:032x}")) for node in NODES)
    move = Move((one, two, three), (one, two, four), Revision(0, 7))
    topic = SimpleNamespace(replicas=[move.origin], move_of=lambda number: move)

    def is_under_replicated(*in_sync):
        gauges, config = SimpleNamespace(in_sync=in_sync), TopicConfig()
        partition = SimpleNamespace(topic=topic, partition=0, gauges=gauges, config=config)
        return HealthCounts.replication_of(partition).is_under_replicated

    assert not is_under_replicated(1, 2, 3)
    assert not is_under_replicated(1, 2, 4), "all of its target are in sync"
    assert is_under_replicated(1, 2)
    assert is_under_replicated(1, 3, 4), "as many as it had, and yet one is missing"
    move = Move((one, two, three), (four,), Revision(0, 8))
    assert not is_under_replicated(4)
