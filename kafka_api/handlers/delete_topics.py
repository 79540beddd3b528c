"""DeleteTopics (20)."""

from cluster.admin_messages import DeleteTopicRequest
from cluster.errors import ClusterError, UnknownTopicError
from kafka_api.error_mapping import error_code
from kafka_api.handlers.topic_admin import request_deadline, seconds_left
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse
from kafka_api.request_context import RequestContext

_Result = DeleteTopicsResponse.DeletableTopicResult

_NO_ID = "0" * 32


async def handle_delete_topics(
    context: RequestContext, version: int, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Delete each topic at raft0's leader, by name or (from version 6) by id."""
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
        results.append(await _delete(context, name, topic_id, deadline))
    return DeleteTopicsResponse(responses=results)


async def _delete(context: RequestContext, name: str | None, topic_id: str | None, deadline: float) -> _Result:
    request = DeleteTopicRequest(name or "", topic_id or "", seconds_left(deadline))
    result = _Result(name=name)
    if name is None and topic_id is not None:
        result.topic_id = topic_id
    try:
        reply = await context.node.admin.delete_topic(request)
    except UnknownTopicError as error:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        result.error_message = str(error)
    except ClusterError as error:
        result.error_code, result.error_message = error_code(error), str(error)
    else:
        result.name, result.topic_id = reply.name, reply.topic_id
    return result
