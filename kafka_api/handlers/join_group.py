"""JoinGroup (11): a member joins the next generation of its group, and waits until that begins."""

import asyncio

from kafka_api.groups.group_events import Join, JoinResult
from kafka_api.handlers.answered_later import answer_when_done
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import JoinGroupRequest, JoinGroupResponse
from kafka_api.request_context import RequestContext
from runtime.rng import Rng

_FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
_FIRST_VERSION_THAT_KNOWS_ITS_ID = 4
_FIRST_VERSION_WITH_NO_PROTOCOL = 7
_FIRST_VERSION_THAT_SKIPS = 9
# Group and member are written with strings of at most 32,767 bytes; names need far less.
_INSTANCE_ID_LENGTH_MAX = 249
_NAME_LENGTH_MAX = 255


async def handle_join_group(
    context: RequestContext, version: int, request: JoinGroupRequest
) -> "JoinGroupResponse | asyncio.Future[JoinGroupResponse]":
    """Hand the join to the group's coordinator; the response follows when the generation begins."""
    refusal = _refuse(request)
    if refusal is not None:
        return _response(version, JoinResult(error=refusal, member_id=request.member_id))
    joined = context.groups.join(request.group_id, _join(context, version, request))
    return answer_when_done(joined, lambda result: _response(version, result))


def _refuse(request: JoinGroupRequest) -> ErrorCode | None:
    instance_id = request.group_instance_id
    if instance_id is not None and not 1 <= len(instance_id) <= _INSTANCE_ID_LENGTH_MAX:
        return ErrorCode.INVALID_REQUEST
    names = [request.protocol_type, *(each.name for each in request.protocols)]
    if any(len(name) > _NAME_LENGTH_MAX for name in names):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None


def _join(context: RequestContext, version: int, request: JoinGroupRequest) -> Join:
    timeout = request.rebalance_timeout_ms
    if version < _FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
        timeout = request.session_timeout_ms
    client_id = context.client.client_id[:_NAME_LENGTH_MAX]
    return Join(
        member_id=request.member_id,
        new_member_id=_new_member_id(request.group_instance_id or client_id, context.node.env.rng),
        instance_id=request.group_instance_id,
        client_id=client_id,
        client_host=f"/{context.client.host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=max(0, timeout),
        protocol_type=request.protocol_type,
        # Copied: the request's memory is given back.
        protocols=tuple((each.name, bytes(each.metadata)) for each in request.protocols),
        must_know_id=version >= _FIRST_VERSION_THAT_KNOWS_ITS_ID,
        can_skip_assignment=version >= _FIRST_VERSION_THAT_SKIPS,
    )


def _new_member_id(name: str, rng: Rng) -> str:
    digits = rng.randbytes(16).hex()
    return f"{name}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _response(version: int, result: JoinResult) -> JoinGroupResponse:
    protocol = result.protocol
    if protocol is None and version < _FIRST_VERSION_WITH_NO_PROTOCOL:
        protocol = ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )
