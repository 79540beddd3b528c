"""DescribeQuorum tells raft0's learners as observers."""

import asyncio
from types import SimpleNamespace

from cluster.quorum_status import QuorumStatus, VoterStatus
from kafka_api.handlers.describe_quorum import handle_describe_quorum
from kafka_api.protocol.messages import DescribeQuorumRequest

_TOPIC = DescribeQuorumRequest.TopicData(
    topic_name="__cluster_metadata", partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)]
)


def test_voters_and_observers_are_told_apart():
    voters = [VoterStatus(node, f"dir{node}", 40, 1_000, 990) for node in (1, 2, 4)]
    learners = [VoterStatus(3, "dir3", 38, 980, -1)]

    async def read():
        return QuorumStatus(2, 7, 40, voters, learners)

    node = SimpleNamespace(
        quorum=SimpleNamespace(read=read), controller=SimpleNamespace(members=SimpleNamespace(all=list))
    )
    answer = asyncio.run(handle_describe_quorum(SimpleNamespace(node=node), 2, DescribeQuorumRequest(topics=[_TOPIC])))
    ((partition,),) = [topic.partitions for topic in answer.topics]
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (2, 7, 41)
    assert [each.replica_id for each in partition.current_voters] == [1, 2, 4]
    (observer,) = partition.observers
    assert (observer.replica_id, observer.replica_directory_id, observer.log_end_offset) == (3, "dir3", 39)
    assert (observer.last_fetch_timestamp, observer.last_caught_up_timestamp) == (980, -1)
