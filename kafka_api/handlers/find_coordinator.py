"""FindCoordinator (10): which broker keeps a group."""

from cluster.commands import BrokerRecord
from kafka_api.handlers.in_steps import in_steps
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_api.request_context import RequestContext

_GROUP, _TRANSACTION = 0, 1
_FIRST_VERSION_WITH_MANY_KEYS = 4

_Coordinator = FindCoordinatorResponse.Coordinator


async def handle_find_coordinator(
    context: RequestContext, version: int, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Name the leader of the partition that keeps a group. Asking for the first one creates `__consumer_offsets`."""
    if version >= _FIRST_VERSION_WITH_MANY_KEYS:
        if request.coordinator_keys and request.key_type == _GROUP:
            await context.groups.wait_for_first_leader(request.coordinator_keys[0])
        found = [_find(context, request.key_type, key) async for key in in_steps(request.coordinator_keys)]
        return FindCoordinatorResponse(coordinators=found)
    if request.key_type == _GROUP:
        await context.groups.wait_for_first_leader(request.key)
    one = _find(context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


def _find(context: RequestContext, key_type: int, key: str) -> _Coordinator:
    if key_type == _TRANSACTION:
        # The one refusal that no client tries again (RFC 0007).
        return _refused(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not supported yet")
    if key_type != _GROUP:
        return _refused(key, ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
    broker: BrokerRecord | None = context.groups.find_coordinator(key)
    if broker is None:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody keeps the group at the moment")
    return _Coordinator(key=key, node_id=broker.node_id, host=broker.kafka_host, port=broker.kafka_port)


def _refused(key: str, error: ErrorCode, message: str) -> _Coordinator:
    return _Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
