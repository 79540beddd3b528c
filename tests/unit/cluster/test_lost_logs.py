"""Kvstore and logs that do not belong together: nobody starts as if nothing had ever been acknowledged."""

import os
import shutil

import pytest
from cluster_nodes import Cluster, cluster_of, run, until

from cluster import controller_backend
from cluster.errors import StartupError
from model.ids import RAFT0
from raft.replica_directories import marker_key
from raft.vote_store import vote_key
from storage.errors import MismatchedLogError


async def refused(cluster: Cluster, number: int) -> str:
    """Start a node that must not start; return why."""
    with pytest.raises((MismatchedLogError, StartupError)) as caught:
        await cluster.make(number).start()
    await cluster.stop(number)
    return str(caught.value)


def groups_of(cluster: Cluster, number: int) -> str:
    return f"{cluster.data_dir(number)}/groups"


def test_a_majority_of_wiped_logs_starts_nothing_and_forgets_nothing(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            await cluster.produce("t", b"acknowledged")
            await cluster.stop()
            for number in (2, 3):
                os.rename(groups_of(cluster, number), f"{tmp_path}/moved-{number}")
            for number in (2, 3):
                before = dict(cluster.durable[number])
                reason = await refused(cluster, number)
                assert f"{groups_of(cluster, number)}/raft0/replica.id is missing" in reason
                assert "bring the whole data directory back" in reason
                assert not os.path.exists(groups_of(cluster, number)), "nothing was made in its place"
                assert cluster.durable[number] == before
            for number in (2, 3):
                os.rename(f"{tmp_path}/moved-{number}", groups_of(cluster, number))
            await cluster.start()
            await until(lambda: cluster.has_leaders("t"))
            assert cluster.leader_of("t").high_watermark == 1

    run(test)


def test_a_wiped_partition_is_named_and_starts_once_it_is_back(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            topic_id = await cluster.create_topic("lost", 1, 3)
            await cluster.create_topic("kept", 1, 3)
            await cluster.produce("lost", b"x")
            await cluster.stop(3)
            directory = f"{groups_of(cluster, 3)}/{topic_id}-0"
            os.rename(directory, f"{tmp_path}/moved")
            await cluster.start(3)
            await until(lambda: cluster[3].backend.failed)
            [(group, reason)] = cluster[3].backend.failed.items()
            assert f"{directory}/replica.id is missing" in reason
            assert cluster[3].groups.get(group) is None
            assert not os.path.exists(directory)
            await until(lambda: cluster.has_leaders("lost") and cluster.has_leaders("kept"))
            await cluster.produce("lost", b"by the others")
            os.rename(f"{tmp_path}/moved", directory)
            await cluster.create_topic("a-reason-to-try-again")
            await until(lambda: group in [consensus.group for consensus in cluster[3].groups])
            await until(lambda: cluster[3].partitions.get(group).high_watermark == 2)

    run(test)


def test_segments_that_are_lost_beside_their_identity_are_refused_once_something_was_committed(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            topic_id = await cluster.create_topic("t", 1, 3)
            await cluster.produce("t", b"acknowledged")
            keys = [key for key in cluster.durable[3] if key.endswith("/replica")]
            assert len(keys) == 2
            await until(lambda: all(cluster.durable[3][key] == b"filled" for key in keys))
            await cluster.stop(3)
            for name in ("raft0", f"{topic_id}-0"):
                emptied = f"{groups_of(cluster, 3)}/{name}"
                shutil.copytree(emptied, f"{tmp_path}/kept/{name}")
                for file in os.listdir(emptied):
                    if file != "replica.id":
                        os.unlink(f"{emptied}/{file}")
            reason = await refused(cluster, 3)
            assert f"{groups_of(cluster, 3)}/raft0 holds no segment" in reason
            assert "bring the whole data directory back" in reason
            shutil.copytree(f"{tmp_path}/kept/raft0", f"{groups_of(cluster, 3)}/raft0", dirs_exist_ok=True)
            await cluster.start(3)
            await until(lambda: cluster[3].backend.failed)
            assert f"{topic_id}-0 holds no segment" in next(iter(cluster[3].backend.failed.values()))
            await cluster.produce("t", b"by the others")

    run(test)


def test_what_a_crash_kept_from_being_noted_is_noted_in_the_next_life(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            await until(lambda: cluster.durable[1][marker_key(RAFT0)] == b"filled")
            await cluster.stop(1)
            cluster.durable[1][marker_key(RAFT0)] = b"created"
            await cluster.start(1)
            await until(lambda: cluster.durable[1][marker_key(RAFT0)] == b"filled")

    run(test)


def test_a_replica_that_cannot_start_is_not_kept_and_starts_once_it_can(tmp_path, monkeypatch):
    monkeypatch.setattr(controller_backend, "_RETRY_PAUSE", 0.05)

    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            await cluster.create_topic("t")
            group = cluster[1].controller.topics.get("t").group(0)
            await cluster.stop(1)
            vote = cluster.durable[1][vote_key(group)]
            cluster.durable[1][vote_key(group)] = b"no vote"
            await cluster.start(1)
            await until(lambda: cluster[1].backend.failed)
            assert "the stored vote is damaged" in cluster[1].backend.failed[group]
            assert cluster[1].groups.get(group) is None
            cluster[1]._kvstore.put(vote_key(group), vote)
            await until(lambda: cluster.has_leaders("t"))
            assert not cluster[1].backend.failed

    run(test)


def test_a_wiped_partition_of_a_deleted_topic_is_forgotten(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            topic_id = await cluster.create_topic("gone")
            await cluster.stop(1)
            shutil.rmtree(f"{groups_of(cluster, 1)}/{topic_id}-0")
            await cluster.start(1)
            await until(lambda: cluster[1].backend.failed)
            await cluster.delete_topic(topic_id)
            await until(lambda: not cluster[1].backend.failed)
            await until(lambda: not cluster[1]._kvstore.items(f"raft/{topic_id}"))
            await cluster.stop(1)
            await cluster.start(1)
            assert not cluster[1].backend.failed

    run(test)


@pytest.mark.parametrize("prefix", ["raft/", "raft/raft0/replica"])
def test_a_kvstore_that_does_not_know_its_logs_is_refused(tmp_path, prefix):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            await cluster.create_topic("t")
            await cluster.stop(1)
            kept = dict(cluster.durable[1])
            for key in kept:
                if key.startswith(prefix):
                    del cluster.durable[1][key]
            before = dict(cluster.durable[1])
            assert "bring the whole data directory back" in await refused(cluster, 1)
            assert cluster.durable[1] == before
            cluster.durable[1].update(kept)
            await cluster.start(1)
            await until(lambda: cluster.has_leaders("t"))

    run(test)


def test_a_wiped_kvstore_is_refused(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            await cluster.create_topic("t")
            await cluster.stop(1)
            cluster.durable[1].clear()
            assert "its kvstore is missing" in await refused(cluster, 1)
            os.unlink(f"{cluster.data_dir(1)}/directory.id")
            assert "its kvstore are missing, but it holds logs" in await refused(cluster, 1)
            assert cluster.durable[1] == {}

    run(test)


def test_a_replica_whose_removal_has_begun_does_not_take_part_before_the_delete_is_applied_again(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            topic_id = await cluster.create_topic("deleted")
            group = cluster[1].controller.topics.get("deleted").group(0)
            await cluster.stop(1)
            cluster.durable[1][marker_key(group)] = b"removing"
            await cluster.start(1)
            await cluster.create_topic("other")
            assert cluster[1].groups.get(group) is None
            assert not cluster[1].backend.failed
            await cluster.delete_topic(topic_id)
            await until(lambda: f"{topic_id}-0" not in cluster.group_directories(1))
            await until(lambda: not cluster[1]._kvstore.items(f"raft/{topic_id}"))

    run(test)


def test_a_deleted_topic_leaves_no_key_and_no_directory(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            topic_id = await cluster.create_topic("gone", 3)
            assert len(cluster[1]._kvstore.items(f"raft/{topic_id}")) == 6
            await cluster.delete_topic(topic_id)
            await until(lambda: not cluster[1]._kvstore.items(f"raft/{topic_id}"))
            assert cluster.group_directories(1) == []
            await cluster.stop(1)
            assert not [key for key in cluster.durable[1] if topic_id in key]

    run(test)
