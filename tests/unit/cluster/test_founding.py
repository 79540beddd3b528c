"""How seeds become a cluster: once, all of them, and nobody else."""

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest
from cluster_nodes import SECRET, Cluster, cluster_of, run, until

from cluster.errors import RefusedDirectoryError, StartupError
from cluster.founding_words import ClusterRecord, FoundRequest, Seed, found
from model.features import OFFERED
from model.ids import DirectoryId, NodeId, Replica
from rpc.errors import RefusalCode
from tests.feature_levels import LEVEL_0


def refusers(caplog, word):
    """The nodes that said in their logs that they refuse a handshake, or were refused, for that reason."""
    said = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    return {number for number in (1, 2, 3) for text in said if word in text and f"node {number}" in text}


def test_the_cluster_id_depends_on_the_members_and_not_on_their_order():
    one = found({1: "a" * 32, 2: "b" * 32, 3: "c" * 32})
    assert one == found({3: "c" * 32, 1: "a" * 32, 2: "b" * 32})
    assert len(one.cluster_id) == 32
    assert one.cluster_id != found({1: "a" * 32, 2: "b" * 32, 3: "d" * 32}).cluster_id
    assert one.cluster_id != found({1: "a" * 32, 2: "b" * 32}).cluster_id
    assert one.cluster_id != found({1: "b" * 32, 2: "a" * 32, 3: "c" * 32}).cluster_id


def test_a_cluster_begins_with_the_levels_that_all_founders_have():
    members = {1: "a" * 32, 2: "b" * 32}
    assert found(members, [{"x": 2, "y": 1}, {"x": 1}]).features == {"x": 1}
    assert found(members, [{}, {"x": 1}]).features == {}


def test_a_record_without_levels_is_as_older_versions_wrote_it():
    written = msgspec.json.encode(found({1: "a" * 32}))
    assert set(msgspec.json.decode(written)) == {"format_version", "cluster_id", "members"}
    assert msgspec.json.decode(written, type=ClusterRecord).features == {}


def test_older_founders_are_understood_and_understand():
    old = msgspec.msgpack.encode([2, "b" * 32, [Seed(1, "h", 1)]])
    assert msgspec.msgpack.decode(old, type=FoundRequest).features == {}

    class OldRequest(msgspec.Struct, frozen=True, array_like=True):
        node_id: int
        directory_id: str
        seeds: list[Seed]

    new = msgspec.msgpack.encode(FoundRequest(2, "b" * 32, [], {"x": 1}))
    assert msgspec.msgpack.decode(new, type=OldRequest).node_id == 2


def test_the_members_are_the_voters_in_order():
    record = ClusterRecord(1, "x", [(1, "a"), (2, "b")])
    assert record.replicas == (Replica(NodeId(1), DirectoryId("a")), Replica(NodeId(2), DirectoryId("b")))


def test_three_seeds_found_one_cluster_and_recall_it(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            ids = {node.cluster.cluster_id for node in cluster.nodes.values()}
            members = cluster[1].cluster.members
            assert len(ids) == 1
            assert [number for number, _ in members] == [1, 2, 3]
            await cluster.stop()
            await cluster.start()
            assert {node.cluster.cluster_id for node in cluster.nodes.values()} == ids
            assert cluster[3].cluster.members == members

    run(test)


def test_seeds_that_found_a_cluster_refuse_nobody(tmp_path, caplog):
    async def test():
        async with cluster_of(tmp_path, 3, features=OFFERED) as cluster:
            assert all(node.stamp.is_stamped for node in cluster.nodes.values())

    run(test)
    assert not [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]


def test_a_founding_that_one_seed_did_not_write_down_is_repeated_with_the_same_result(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            cluster_id = cluster[1].cluster.cluster_id
            await cluster.stop()
            # Power was lost on node 3 before its note of the cluster was durable.
            del cluster.durable[3]["node/cluster"]
            await cluster.start()
            assert cluster[3].cluster.cluster_id == cluster_id

    run(test)


def test_nobody_founds_anything_before_all_seeds_have_answered(tmp_path):
    async def test():
        cluster = Cluster(tmp_path, 3)
        one, two = cluster.make(1), cluster.make(2)
        starting = [asyncio.create_task(one.start()), asyncio.create_task(two.start())]
        try:
            await until(lambda: hasattr(one, "links") and one.links.is_up(NodeId(2)))
            assert not any(task.done() for task in starting)
            assert "node/cluster" not in cluster.durable[1]
            three = cluster.make(3)
            await three.start()
            await asyncio.gather(*starting)
            assert one.cluster == two.cluster == three.cluster
        finally:
            await cluster.stop()

    run(test)


def test_below_the_level_a_seed_that_has_not_founded_the_cluster_would_have_to_join_it(tmp_path):
    async def test():
        cluster = Cluster(tmp_path, 3, features=LEVEL_0)
        # Node 3 was configured with a third seed that the others do not have.
        one, two, three = (
            cluster.make(1, seeds=cluster.seeds[:2]),
            cluster.make(2, seeds=cluster.seeds[:2]),
            cluster.make(3),
        )
        try:
            await asyncio.gather(one.start(), two.start())
            with pytest.raises(StartupError, match=r"brokers that join need raftka\.membership at level 1"):
                await three.start()
            assert [number for number, _ in one.cluster.members] == [1, 2]
        finally:
            await cluster.stop()

    run(test)


def test_other_addresses_for_the_same_nodes_are_another_list(tmp_path):
    async def test():
        cluster = Cluster(tmp_path, 2)
        wrong = [cluster.seeds[0], Seed(2, cluster.seeds[1].host, 9)]
        one, two = cluster.make(1, seeds=wrong), cluster.make(2)
        starting = asyncio.create_task(one.start())
        try:
            with pytest.raises(StartupError, match="other seeds"):
                await two.start()
            assert not starting.done()
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await cluster.stop()

    run(test)


@pytest.mark.parametrize("secret", [b"w" * 32, None], ids=["another", "none"])
def test_a_broker_with_the_wrong_secret_is_not_let_in(tmp_path, caplog, secret):
    async def test():
        cluster = Cluster(tmp_path, 2)
        one, two = cluster.make(1, secret=SECRET), cluster.make(2, secret=secret)
        starting = [asyncio.create_task(node.start()) for node in (one, two)]
        try:
            # Each dials the other, and each attempt ends in words.
            await until(lambda: {1, 2} <= refusers(caplog, "secret"))
            assert not any(task.done() for task in starting)
            assert not one.links.is_up(NodeId(2))
            assert not two.links.is_up(NodeId(1))
            assert cluster.durable[1].keys() == cluster.durable[2].keys() == {"node/directory"}
        finally:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            await cluster.stop()

    run(test)


@pytest.mark.parametrize("seeds", [[1, 2], [1, 2, 3, 4], []], ids=["one less", "one more", "none"])
def test_below_the_level_a_founded_broker_refuses_to_start_with_other_seeds(tmp_path, seeds):
    async def test():
        async with cluster_of(tmp_path, 3, features=LEVEL_0) as cluster:
            await cluster.stop()
            configured = [cluster.seeds[number - 1] if number <= 3 else Seed(4, "127.0.0.1", 9) for number in seeds]
            node = cluster.make(1, seeds=configured)
            with pytest.raises(StartupError, match=r"cluster of nodes \[1, 2, 3\]"):
                await node.start()

    run(test)


@pytest.mark.parametrize("configured", [[2], [2, 3]], ids=["one other", "two others"])
def test_a_broker_that_is_not_among_its_seeds_founds_nothing(tmp_path, configured):
    async def test():
        cluster = Cluster(tmp_path, 3)
        node = cluster.make(1, seeds=[cluster.seeds[number - 1] for number in configured])
        try:
            starting = asyncio.create_task(node.start())
            await until(lambda: node.joining is not None)
            # It waits for a cluster to join.
            assert not starting.done()
            assert "node/cluster" not in cluster.durable[1]
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await cluster.stop()

    run(test)


def test_below_the_level_a_wiped_directory_does_not_come_back_as_its_node(tmp_path, caplog):
    async def test():
        async with cluster_of(tmp_path, 3, features=LEVEL_0) as cluster:
            await cluster.create_topic("t", 1, 3)
            old = cluster[3].replica
            await cluster.stop(3)
            shutil.rmtree(cluster.data_dir(3))
            cluster.durable[3].clear()
            wiped = cluster.make(3)
            # It ends by itself; nothing of its directory is removed.
            with pytest.raises(RefusedDirectoryError, match="refuses this data directory: it knows node 3 by another"):
                await wiped.start()
            assert (Path(cluster.data_dir(3)) / "directory.id").exists()
            assert refusers(caplog, "directory")
            assert wiped.replica.directory_id != old.directory_id
            assert not cluster[1].links.is_up(NodeId(3))
            assert "node/cluster" not in cluster.durable[3]
            await cluster.produce("t", b"the others go on")
            await cluster.stop(3)
            refused = [each.links.refusals.get(NodeId(3)) for each in cluster.nodes.values()]
            assert any(each is not None and each.refusal is RefusalCode.WRONG_DIRECTORY for each in refused)

    run(test)
