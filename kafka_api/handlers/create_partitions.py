"""CreatePartitions (37): topics grow, and never shrink."""

from collections import Counter

from cluster.admin_messages import CreatePartitionsRequest as AdminRequest
from cluster.errors import ClusterError
from kafka_api.error_mapping import error_code
from kafka_api.handlers.topic_admin import request_deadline, seconds_left, until_led
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse
from kafka_api.request_context import RequestContext
from model.ids import TopicId

_Result = CreatePartitionsResponse.CreatePartitionsTopicResult
_Topic = CreatePartitionsRequest.CreatePartitionsTopic


async def handle_create_partitions(
    context: RequestContext, _: int, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Grow each topic at raft0's leader; one that fails does not keep the others from growing."""
    names = Counter(topic.name for topic in request.topics)
    deadline = request_deadline(request.timeout_ms)
    results = []
    for topic in request.topics:
        if names[topic.name] > 1:
            twice = "named twice in one request"
            results.append(_Result(name=topic.name, error_code=ErrorCode.INVALID_REQUEST, error_message=twice))
        else:
            results.append(await _grow(context, topic, request.validate_only, deadline))
    return CreatePartitionsResponse(results=results)


async def _grow(context: RequestContext, topic: _Topic, validate_only: bool, deadline: float) -> _Result:
    assignment = [list(each.broker_ids) for each in topic.assignments or []]
    asked = AdminRequest(topic.name, topic.count, assignment, validate_only, seconds_left(deadline))
    try:
        reply = await context.node.admin.create_partitions(asked)
    except ClusterError as error:
        return _Result(name=topic.name, error_code=error_code(error), error_message=str(error))
    if not validate_only:
        await until_led(context, TopicId(reply.topic_id), reply.partitions, deadline)
    return _Result(name=topic.name)
