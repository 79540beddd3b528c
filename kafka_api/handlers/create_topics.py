"""CreateTopics (19)."""

import asyncio
from collections import Counter

from cluster.admin_messages import CreateTopicRequest
from cluster.errors import ClusterError, InvalidPartitionsError, InvalidReplicaAssignmentError, InvalidTopicConfigError
from kafka_api.auto_topics import default_replication_factor
from kafka_api.described_configs import topic_configs
from kafka_api.error_mapping import error_code
from kafka_api.handlers.topic_admin import request_deadline, seconds_left, until_led
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from kafka_api.request_context import RequestContext
from model.config_definition import shorten
from model.ids import TopicId

_Result = CreateTopicsResponse.CreatableTopicResult
_Topic = CreateTopicsRequest.CreatableTopic

# Kafka's "use the broker's default" for partitions and replication factor.
_DEFAULT = -1
_AT_ONCE = 32


async def handle_create_topics(
    context: RequestContext, version: int, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Create each topic at raft0's leader; one that fails does not keep the others from being created."""
    names = Counter(topic.name for topic in request.topics)
    deadline = request_deadline(request.timeout_ms)

    async def create(topic: _Topic) -> _Result:
        if names[topic.name] > 1:
            words = "named twice in one request"
            return _Result(name=topic.name, error_code=ErrorCode.INVALID_REQUEST, error_message=words)
        return await _create(context, version, topic, request.validate_only, deadline)

    results: list[_Result] = []
    # Most of the time goes into waiting for new leaders. A few at once: a request may name many, each costs a task.
    for first in range(0, len(request.topics), _AT_ONCE):
        results += await asyncio.gather(*map(create, request.topics[first : first + _AT_ONCE]))
    return CreateTopicsResponse(topics=results)


async def _create(
    context: RequestContext, version: int, topic: _Topic, validate_only: bool, deadline: float
) -> _Result:
    try:
        asked = _asked(context, topic, validate_only, deadline)
        reply = await context.node.admin.create_topic(asked)
        if not validate_only:
            await until_led(context, TopicId(reply.topic_id), reply.partitions, deadline)
    except ClusterError as error:
        return _Result(name=topic.name, error_code=error_code(error), error_message=str(error))
    result = _Result(
        name=topic.name,
        topic_id=reply.topic_id,
        num_partitions=reply.partitions,
        replication_factor=reply.replication_factor,
    )
    if version >= 5:
        result.configs = [
            CreateTopicsResponse.CreatableTopicConfigs(
                name=each.key,
                value=each.value,
                read_only=each.is_read_only,
                config_source=each.source,
                is_sensitive=False,
            )
            for each in topic_configs(
                asked.configs, context.node.controller.topics.defaults, context.options.broker_configs
            )
        ]
    return result


def _asked(context: RequestContext, topic: _Topic, validate_only: bool, deadline: float) -> CreateTopicRequest:
    assignment: list[list[int]] = []
    if topic.assignments:
        if topic.num_partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
            raise InvalidReplicaAssignmentError("give either an assignment or partitions and replication factor")
        by_index = {each.partition_index: list(each.broker_ids) for each in topic.assignments}
        if sorted(by_index) != list(range(len(topic.assignments))):
            raise InvalidReplicaAssignmentError("the assignment must name partitions 0, 1, 2, ... once each")
        assignment = [by_index[index] for index in range(len(by_index))]
    partitions = context.options.num_partitions if topic.num_partitions == _DEFAULT else topic.num_partitions
    replication_factor = topic.replication_factor
    if replication_factor == _DEFAULT:
        replication_factor = default_replication_factor(context.node, context.options)
    if not assignment and partitions < 1:
        raise InvalidPartitionsError(f"{partitions} partitions: must be at least 1")
    configs: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            raise InvalidTopicConfigError(f"{shorten(config.name)} has no value")
        configs[config.name] = config.value
    return CreateTopicRequest(
        topic.name, partitions, replication_factor, assignment, configs, validate_only, seconds_left(deadline)
    )
