"""A replica leaves its node and returns, on real files: `GroupManager.leave` and `create`."""

from pathlib import Path

import pytest

from model.ids import ConsistencyLevel, GroupId, Index
from raft.group_configuration import GroupConfiguration, RaftPolicy, Revision
from raft.replica_directories import marker_key
from raft.replicate_item import NewEntry
from raft.vote_floor import read_floor
from storage.entry import EntryKind
from storage.errors import MismatchedLogError
from storage.options import LogOptions
from tests.unit.cluster.cluster_nodes import Cluster, run, until

GROUP = GroupId("0" * 32 + "/0")
LATER = Revision(0, 9)


async def opened(node, revision=None):
    voters = (node.replica,)
    configuration = GroupConfiguration((voters,), (), revision or Revision(0, 0))
    return await node.groups.create(GROUP, configuration, RaftPolicy(), LogOptions())


async def started(tmp_path):
    cluster = Cluster(tmp_path, 1)
    node = cluster.make(1)
    await node.start()
    return cluster, node


async def written(consensus, count=3):
    await until(lambda: consensus.is_in_office)
    for _ in range(count):
        stages = consensus.replicate([NewEntry(EntryKind.COMMAND, b"x", 0)], ConsistencyLevel.QUORUM_ACK)
        await stages.replicated


def test_a_replica_that_left_is_gone_but_for_its_vote_and_its_log_end(tmp_path: Path) -> None:
    async def test():
        cluster, node = await started(tmp_path)
        consensus = await opened(node)
        await written(consensus)
        end, term = consensus.state.log_end, consensus.term
        assert end.last_index == 4
        assert await node.groups.leave(GROUP, LATER)
        directory = Path(cluster.data_dir(1), "groups", GROUP.replace("/", "-"))
        assert not directory.exists()
        assert node.groups.get(GROUP) is None
        # Again: nothing is left to do.
        assert await node.groups.leave(GROUP, LATER)
        returned = await opened(node)
        assert (returned.log.dirty_index, returned.term) == (0, term)
        assert returned.state.voted_for == 1
        assert returned.state.lost_end == end
        assert returned.state.is_refilling
        await cluster.stop()

    run(test)


def test_a_replica_with_a_configuration_of_a_later_revision_stays(tmp_path: Path) -> None:
    async def test():
        cluster, node = await started(tmp_path)
        consensus = await opened(node, LATER)
        await written(consensus)
        assert not await node.groups.leave(GROUP, Revision(0, 8))
        assert node.groups.get(GROUP) is None
        returned = await opened(node, LATER)
        assert returned.log.dirty_index == 4
        await cluster.stop()

    run(test)


def test_a_group_that_is_deleted_takes_the_gravestone_along(tmp_path: Path) -> None:
    async def test():
        cluster, node = await started(tmp_path)
        await written(await opened(node))
        await node.groups.leave(GROUP, LATER)
        assert GROUP in await node.groups.partitions_on_disk()
        assert await node.groups.remove(GROUP)
        assert GROUP not in await node.groups.partitions_on_disk()
        returned = await opened(node)
        assert returned.state.lost_end is None
        await cluster.stop()

    run(test)


def test_a_replica_that_is_not_open_does_not_leave(tmp_path: Path) -> None:
    async def test():
        cluster, node = await started(tmp_path)
        await written(await opened(node))
        await node.groups.close(GROUP)
        with pytest.raises(MismatchedLogError, match="its replica is not open here"):
            await node.groups.leave(GROUP, LATER)
        store = node._kvstore
        assert store.get(marker_key(GROUP)) == b"filled"
        assert read_floor(store, GROUP) is None
        returned = await opened(node)
        assert returned.log.dirty_index == Index(4)
        await cluster.stop()

    run(test)
