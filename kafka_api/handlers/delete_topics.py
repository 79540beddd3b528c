"""DeleteTopics (20)."""

from cluster.admin_requests import DeleteTopicRequest
from cluster.errors import ClusterError
from kafka_api.error_mapping import error_code
from kafka_api.handlers.topic_admin import request_deadline, seconds_left
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse
from kafka_api.request_context import RequestContext
from model.ids import TopicId

_Result = DeleteTopicsResponse.DeletableTopicResult

_NO_ID = "0" * 32


async def handle_delete_topics(
    context: RequestContext, version: int, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Delete each topic at raft0's leader, by name or (from version 6) by id."""
    table = context.node.controller.topics
    deadline = request_deadline(request.timeout_ms)
    results = []
    asked = (
        [(name, None) for name in request.topic_names]
        if version < 6
        else [(each.name, each.topic_id) for each in request.topics]
    )
    for name, topic_id in asked:
        if name is not None and topic_id not in (None, _NO_ID):
            # The two may mean different topics: a recreated one has its predecessor's name.
            both = "name a topic either by name or by id"
            results.append(
                _Result(name=name, topic_id=topic_id, error_code=ErrorCode.INVALID_REQUEST, error_message=both)
            )
            continue
        if name is not None:
            topic = table.get(name)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            topic = table.get_by_id(TopicId(topic_id or ""))
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is None:
            result = _Result(name=name, error_code=unknown, error_message="no such topic")
            if topic_id is not None and name is None:
                result.topic_id = topic_id
        else:
            result = await _delete(context, topic.name, topic.topic_id, deadline)
        results.append(result)
    return DeleteTopicsResponse(responses=results)


async def _delete(context: RequestContext, name: str, topic_id: TopicId, deadline: float) -> _Result:
    try:
        await context.node.admin.delete_topic(DeleteTopicRequest(topic_id, seconds_left(deadline)))
    except ClusterError as error:
        return _Result(name=name, topic_id=topic_id, error_code=error_code(error), error_message=str(error))
    return _Result(name=name, topic_id=topic_id)
