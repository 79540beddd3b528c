"""CreateTopics (19)."""

import asyncio
from collections import Counter

from cluster.admin_requests import CreateTopicRequest
from cluster.errors import ClusterError, InvalidPartitionsError, InvalidReplicaAssignmentError
from kafka_api.error_mapping import error_code
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from kafka_api.request_context import RequestContext
from model.ids import TopicId
from model.topic_config import parse_topic_config

_Result = CreateTopicsResponse.CreatableTopicResult
_Topic = CreateTopicsRequest.CreatableTopic

_READ_ONLY = False
_SOURCE_TOPIC, _SOURCE_DEFAULT = 1, 5
_TIMEOUT_MAX = 60.0
_LEADER_POLL = 0.01
# Kafka's "use the broker's default" for partitions and replication factor.
_DEFAULT = -1


async def handle_create_topics(
    context: RequestContext, version: int, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Create each topic at raft0's leader; one that fails does not keep the others from being created."""
    names = Counter(topic.name for topic in request.topics)
    deadline = asyncio.get_running_loop().time() + min(max(request.timeout_ms / 1000, 0.0), _TIMEOUT_MAX)
    results = []
    for topic in request.topics:
        if names[topic.name] > 1:
            error = _Result(
                name=topic.name, error_code=ErrorCode.INVALID_REQUEST, error_message="named twice in one request"
            )
            results.append(error)
        else:
            results.append(await _create(context, version, topic, request.validate_only, deadline))
    return CreateTopicsResponse(topics=results)


async def _create(
    context: RequestContext, version: int, topic: _Topic, validate_only: bool, deadline: float
) -> _Result:
    configs = {config.name: config.value for config in topic.configs}
    try:
        asked = _asked(context, topic, validate_only, deadline)
        reply = await context.node.admin.create_topic(asked)
        if not validate_only:
            await _until_led(context, TopicId(reply.topic_id), deadline)
    except ClusterError as error:
        return _Result(name=topic.name, error_code=error_code(error), error_message=str(error))
    result = _Result(
        name=topic.name,
        topic_id=reply.topic_id,
        num_partitions=reply.partitions,
        replication_factor=reply.replication_factor,
    )
    if version >= 5:
        effective = parse_topic_config(
            asked.configs, reply.replication_factor, context.node.controller.topics.defaults
        ).as_strings()
        result.configs = [
            CreateTopicsResponse.CreatableTopicConfigs(
                name=name,
                value=value,
                read_only=_READ_ONLY,
                config_source=_SOURCE_TOPIC if name in configs else _SOURCE_DEFAULT,
                is_sensitive=False,
            )
            for name, value in sorted(effective.items())
        ]
    return result


async def _until_led(context: RequestContext, topic_id: TopicId, deadline: float) -> None:
    """Wait until this broker can name a leader of every partition, or the client's time is up.

    The topic exists all the same. librdkafka keeps the first metadata it gets of a topic and answers watermark
    queries from it: without a leader they fail until its next periodic refresh.
    """
    loop, node = asyncio.get_running_loop(), context.node
    while loop.time() < deadline:
        topic = node.controller.topics.get_by_id(topic_id)
        if topic is not None and all(
            node.leadership.leader_of(topic.group(number)) is not None for number in range(len(topic.replicas))
        ):
            return
        await asyncio.sleep(_LEADER_POLL)


def _asked(context: RequestContext, topic: _Topic, validate_only: bool, deadline: float) -> CreateTopicRequest:
    assignment: list[list[int]] = []
    if topic.assignments:
        if topic.num_partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
            raise InvalidReplicaAssignmentError("give either an assignment or partitions and replication factor")
        by_index = {each.partition_index: list(each.broker_ids) for each in topic.assignments}
        if sorted(by_index) != list(range(len(topic.assignments))):
            raise InvalidReplicaAssignmentError("the assignment must name partitions 0, 1, 2, ... once each")
        assignment = [by_index[index] for index in range(len(by_index))]
    brokers = len(context.node.controller.members.all())
    partitions = context.options.num_partitions if topic.num_partitions == _DEFAULT else topic.num_partitions
    replication_factor = topic.replication_factor
    if replication_factor == _DEFAULT:
        replication_factor = context.options.default_replication_factor or max(1, min(3, brokers))
    if not assignment and partitions < 1:
        raise InvalidPartitionsError(f"{partitions} partitions: must be at least 1")
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    timeout = max(0.0, deadline - asyncio.get_running_loop().time())
    return CreateTopicRequest(topic.name, partitions, replication_factor, assignment, configs, validate_only, timeout)
