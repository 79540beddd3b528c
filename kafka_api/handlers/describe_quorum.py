"""DescribeQuorum (55): raft0 in the words of KRaft, as partition 0 of __cluster_metadata. Observers are its learners.

Its offsets are raft0's log indexes: the log end is the index of the next entry.
"""

from cluster.errors import ControllerUnavailableError
from cluster.quorum_status import QuorumStatus, VoterStatus
from kafka_api.error_mapping import error_code
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DescribeQuorumRequest, DescribeQuorumResponse
from kafka_api.request_context import RequestContext

_TOPIC = "__cluster_metadata"
# What links between brokers are called where Kafka names its controllers' listener.
_LISTENER = "RPC"

_Topic = DescribeQuorumResponse.TopicData
_Partition = DescribeQuorumResponse.PartitionData


async def handle_describe_quorum(
    context: RequestContext, _: int, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Describe raft0 as its leader sees it; nothing else has a quorum that can be described so."""
    if [(each.topic_name, [part.partition_index for part in each.partitions]) for each in request.topics] != [
        (_TOPIC, [0])
    ]:
        return DescribeQuorumResponse(error_message=None, topics=_all_unknown(request), nodes=[])
    try:
        status = await context.node.quorum.read()
    except ControllerUnavailableError as error:
        return DescribeQuorumResponse(error_code=error_code(error), error_message=str(error), topics=[], nodes=[])
    partition = _described(status)
    return DescribeQuorumResponse(
        error_message=None, topics=[_Topic(topic_name=_TOPIC, partitions=[partition])], nodes=_nodes(context)
    )


def _all_unknown(request: DescribeQuorumRequest) -> list[_Topic]:
    return [
        _Topic(
            topic_name=topic.topic_name,
            partitions=[
                _Partition(
                    partition_index=each.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message=f"only partition 0 of {_TOPIC} has a quorum that is described",
                    current_voters=[],
                    observers=[],
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]


def _described(status: QuorumStatus) -> _Partition:
    return _Partition(
        partition_index=0,
        error_message=None,
        leader_id=status.leader,
        leader_epoch=status.term,
        high_watermark=status.commit_index + 1,
        current_voters=[_state(voter) for voter in status.voters],
        observers=[_state(learner) for learner in status.learners],
    )


def _state(status: VoterStatus) -> DescribeQuorumResponse.ReplicaState:
    return DescribeQuorumResponse.ReplicaState(
        replica_id=status.node_id,
        replica_directory_id=status.directory_id,
        log_end_offset=status.last_index + 1,
        last_fetch_timestamp=status.answered_ms,
        last_caught_up_timestamp=status.caught_up_ms,
    )


def _nodes(context: RequestContext) -> list[DescribeQuorumResponse.Node]:
    return [
        DescribeQuorumResponse.Node(
            node_id=broker.node_id,
            listeners=[DescribeQuorumResponse.Listener(name=_LISTENER, host=broker.rpc_host, port=broker.rpc_port)],
        )
        for broker in context.node.controller.members.all()
    ]
