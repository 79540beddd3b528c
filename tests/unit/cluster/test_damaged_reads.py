"""A read that finds damage: with peers the replica stops and another one serves, alone it serves what is left."""

import logging
from pathlib import Path

import pytest
from cluster_nodes import Cluster, cluster_of, run, until

from cluster.partition_status import Mark, replica_status
from model.ids import NodeId, Offset
from model.topic_config import TopicConfig
from raftka.broker.readiness import not_ready_reason
from storage.errors import CorruptLogError
from storage.log import Log
from tests.engine import consensus_of

# Each batch begins a segment, and none but the newest is in memory.
_SMALL_SEGMENTS = TopicConfig(segment_bytes=1024 * 1024)
_VALUE = b"x" * 900_000


async def damaged(cluster: Cluster, batches: int = 4, value: bytes = _VALUE) -> tuple[int, str]:
    """Fill topic t, damage the second segment at its leader; return the leader's number and the segment's path."""
    topic_id = await cluster.create_topic("t", 1, len(cluster.nodes))
    for number in range(batches):
        await cluster.produce("t", b"%d" % number + value)
    leader = next(n for n, node in cluster.nodes.items() if node.partitions.get(group_of(cluster)).is_in_office)
    directory = Path(f"{cluster.data_dir(leader)}/groups/{topic_id}-0")
    path = sorted(directory.glob("*.log"))[1]
    with path.open("r+b") as file:
        file.seek(5000)
        file.write(b"rotten")
    return leader, str(path)


def group_of(cluster: Cluster):
    return next(iter(cluster.nodes.values())).controller.topics.get("t").group(0)


def test_a_leader_that_reads_damage_hands_over_and_gets_its_entries_back(tmp_path, caplog):
    async def test():
        async with cluster_of(tmp_path, 3, defaults=_SMALL_SEGMENTS) as cluster:
            leader, path = await damaged(cluster)
            partition = cluster.leader_of("t")
            with pytest.raises(CorruptLogError, match=f"{path} is damaged at byte 0"):
                await partition.fetch(Offset(1), 1)
            assert not partition.is_in_office
            assert isinstance(partition.failure, CorruptLogError)
            assert not_ready_reason(cluster[leader]) is not None

            others = [node for number, node in cluster.nodes.items() if number != leader]
            await until(lambda: any(node.partitions.get(group_of(cluster)).is_in_office for node in others))
            serving = cluster.leader_of("t")
            for offset in range(4):
                assert len(await serving.fetch(Offset(offset), 1)) == 1
            await cluster.produce("t", b"written by the majority")
            assert serving.high_watermark == 5

            def is_whole() -> bool:
                again = cluster[leader].partitions.get(group_of(cluster))
                end = consensus_of(serving).log.dirty_index
                return again not in (None, partition) and consensus_of(again).log.flushed_index == end

            await until(is_whole)
            await until(lambda: not_ready_reason(cluster[leader]) is None)
            # It is ready with all entries, and votes again once it has forgotten durably that they were away.
            again = cluster[leader].partitions.get(group_of(cluster))
            await until(lambda: consensus_of(again).state.lost_end is None)
            status = await replica_status(again, NodeId(leader))
            assert (status.role, status.refilling) == ("F", False)
            lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
            told = (
                "a read found damage",
                "stops: CorruptLogError",
                "are damaged and come from the others",
                "votes again",
            )
            assert [sum(words in line for line in lines) for words in told] == [1, 1, 1, 1]
            await until(lambda: not list(Path(path).parent.glob("*.damaged")))

    run(test)


def test_a_replica_without_peers_serves_what_is_not_damaged_and_says_so(tmp_path, caplog):
    async def test():
        async with cluster_of(tmp_path, 1, defaults=_SMALL_SEGMENTS) as cluster:
            _, path = await damaged(cluster)
            partition = cluster.leader_of("t")
            assert not_ready_reason(cluster[1]) is None
            for _ in range(3):
                with pytest.raises(CorruptLogError, match="is damaged at byte 0"):
                    await partition.fetch(Offset(1), 1)
            for offset in (0, 2, 3):
                assert len(await partition.fetch(Offset(offset), 1)) == 1
            await cluster.produce("t", b"and it goes on")
            assert partition.high_watermark == 5
            assert f"t-0 is damaged: {path} is damaged at byte 0" in not_ready_reason(cluster[1])
            lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
            assert [path in line for line in lines] == [True]

    run(test)


def test_an_onlooker_sees_a_replica_whose_offsets_cannot_be_read(tmp_path, monkeypatch):
    async def test():
        async with cluster_of(tmp_path, 3, defaults=_SMALL_SEGMENTS) as cluster:
            leader, _ = await damaged(cluster, batches=1, value=2 * _VALUE)
            partition = cluster.leader_of("t")
            end = consensus_of(partition).log.dirty_index
            with monkeypatch.context() as patch:
                patch.setattr(Log, "end_offset", lambda _, index: None)  # As if too old to be held in memory.
                status = await replica_status(partition, NodeId(leader))
            assert (status.dirty, status.commit) == (Mark(end, -1), Mark(end, -1))
            assert partition.failure is not None

    run(test)
