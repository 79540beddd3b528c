"""SyncGroup (14): a member gets its assignment, once the leader's is stored."""

import asyncio

from kafka_api.groups.group_events import Sync, SyncResult
from kafka_api.handlers.answered_later import answer_when_done
from kafka_api.protocol.messages import SyncGroupRequest, SyncGroupResponse
from kafka_api.request_context import RequestContext


async def handle_sync_group(
    context: RequestContext, version: int, request: SyncGroupRequest
) -> "SyncGroupResponse | asyncio.Future[SyncGroupResponse]":
    """Hand what the leader assigns, or the wish to know it, to the group's coordinator."""
    asked = Sync(
        request.member_id,
        request.generation_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        {each.member_id: bytes(each.assignment) for each in request.assignments},
    )
    return answer_when_done(await context.groups.sync(request.group_id, asked), _response)


def _response(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )
