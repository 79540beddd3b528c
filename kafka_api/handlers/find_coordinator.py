"""FindCoordinator (10): which broker keeps a group, or a transactional id."""

from typing import Any, NamedTuple

from kafka_api.coordinators.office import CoordinatorOffice
from kafka_api.handlers.in_steps import in_steps
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_api.request_context import RequestContext
from kafka_api.transactions.certain_level import NO_TRANSACTIONS, NOT_KNOWN

_GROUP, _TRANSACTION = 0, 1
_FIRST_VERSION_WITH_MANY_KEYS = 4

_Coordinator = FindCoordinatorResponse.Coordinator


async def handle_find_coordinator(
    context: RequestContext, version: int, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Name the leader of the partition that keeps it. Asking for the first one creates the coordinator's topic."""
    office = await _office(context, request.key_type)
    if version >= _FIRST_VERSION_WITH_MANY_KEYS:
        if not isinstance(office, _Refusal) and request.coordinator_keys:
            await office.wait_for_first_leader(request.coordinator_keys[0])
        found = [_find(office, request.key_type, key) async for key in in_steps(request.coordinator_keys)]
        return FindCoordinatorResponse(coordinators=found)
    if not isinstance(office, _Refusal):
        await office.wait_for_first_leader(request.key)
    one = _find(office, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


class _Refusal(NamedTuple):
    """Why nobody here knows coordinators of a type."""

    error: ErrorCode
    message: str


async def _office(context: RequestContext, key_type: int) -> "CoordinatorOffice[Any] | _Refusal":
    """Return who knows coordinators of a type."""
    if key_type == _GROUP:
        return context.groups
    if key_type != _TRANSACTION:
        return _Refusal(ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
    level = await context.transactions.certain_level()
    if level is None:
        return _Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, NOT_KNOWN)
    # The one refusal that no client tries again (RFC 0007).
    refusal = _Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS)
    return context.transactions if level else refusal


def _find(office: "CoordinatorOffice[Any] | _Refusal", key_type: int, key: str) -> _Coordinator:
    if isinstance(office, _Refusal):
        return _refused(key, office.error, office.message)
    broker = office.find_coordinator(key)
    if broker is None:
        kept = "group" if key_type == _GROUP else "transactional id"
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody keeps the {kept} at the moment")
    return _Coordinator(key=key, node_id=broker.node_id, host=broker.kafka_host, port=broker.kafka_port)


def _refused(key: str, error: ErrorCode, message: str) -> _Coordinator:
    return _Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
