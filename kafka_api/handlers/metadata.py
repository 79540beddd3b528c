"""Metadata (3): brokers, topics, and who leads what."""

from collections.abc import Collection

from cluster.errors import InvalidTopicNameError
from cluster.topic_changes import check_topic_name
from cluster.topic_table import Topic
from kafka_api.end_connection import EndConnectionError
from kafka_api.handlers.cluster_view import alive_brokers, controller_id, partition_view
from kafka_api.handlers.in_steps import in_steps
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.errors import MalformedRequestError
from kafka_api.protocol.messages import MetadataRequest, MetadataResponse
from kafka_api.request_context import RequestContext
from model.ids import TopicId

_NO_ID = "0" * 32
# A broker that has known no controller for this long is probably the one that is cut off. Its answers would name no
# leaders, and a client that holds a working connection asks nobody else (librdkafka was seen to do so for 20 s).
_ISOLATED_SECONDS = 0.5
# Versions 10 and 11 have room for ids in the request, but their responses must have names.
_FIRST_VERSION_WITH_IDS = 12


async def handle_metadata(context: RequestContext, version: int, request: MetadataRequest) -> MetadataResponse:
    """Answer from raft0's tables and the pushed leaderships; a leader is named only while it is in office.

    Raises:
        EndConnectionError: This broker knows no controller: the connection is closed, the client asks another broker.
    """
    leaderless = context.node.controller.leaderless_seconds
    if leaderless > _ISOLATED_SECONDS:
        raise EndConnectionError(f"no controller has been known here for {leaderless:.1f} s: another broker may know")
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=broker.node_id, host=broker.kafka_host, port=broker.kafka_port
            )
            for broker in alive_brokers(context)
        ],
        cluster_id=context.node.cluster.cluster_id,
        controller_id=controller_id(context),
        topics=await _topics(context, version, request),
    )


async def _topics(
    context: RequestContext, version: int, request: MetadataRequest
) -> list[MetadataResponse.MetadataResponseTopic]:
    table = context.node.controller.topics
    asked = request.topics
    created = _create_unknown(context, request)
    # Version 0 has no null: there an empty list means all topics.
    if asked is None or (version == 0 and not asked):
        return [_topic(context, topic) async for topic in in_steps(table.all())]
    found = []
    # As in Kafka, who names a topic twice is answered once.
    async for each in in_steps({(each.name, each.topic_id): each for each in asked}.values()):
        if each.name is None:
            if version < _FIRST_VERSION_WITH_IDS:
                raise MalformedRequestError(f"version {version} of Metadata asks for topics by name only")
            topic = table.get_by_id(TopicId(each.topic_id))
            found.append(
                _unknown(None, each.topic_id, ErrorCode.UNKNOWN_TOPIC_ID) if topic is None else _topic(context, topic)
            )
        else:
            topic = table.get(each.name)
            found.append(
                _unknown(each.name, _NO_ID, _why_unknown(each.name, created))
                if topic is None
                else _topic(context, topic)
            )
    return found


def _create_unknown(context: RequestContext, request: MetadataRequest) -> set[str]:
    """Return the unknown names that are created because this client asks for them; it asks again for the leaders."""
    if not request.allow_auto_topic_creation:
        return set()
    table = context.node.controller.topics
    names = [each.name for each in request.topics or [] if each.name is not None]
    return context.auto_topics.request(name for name in names if table.get(name) is None and _is_valid(name))


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopicNameError:
        return False
    return True


def _why_unknown(name: str, created: Collection[str]) -> ErrorCode:
    if name in created:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if _is_valid(name) else ErrorCode.INVALID_TOPIC_EXCEPTION


def _unknown(name: str | None, topic_id: str, error: ErrorCode) -> MetadataResponse.MetadataResponseTopic:
    return MetadataResponse.MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=[])


def _topic(context: RequestContext, topic: Topic) -> MetadataResponse.MetadataResponseTopic:
    partitions = []
    for number in range(len(topic.replicas)):
        view = partition_view(context, topic, number)
        partitions.append(
            MetadataResponse.MetadataResponsePartition(
                error_code=view.error,
                partition_index=number,
                leader_id=view.leader_id,
                leader_epoch=view.leader_epoch,
                replica_nodes=view.replicas,
                isr_nodes=view.in_sync,
                offline_replicas=view.offline,
            )
        )
    return MetadataResponse.MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_told_internal, partitions=partitions
    )
