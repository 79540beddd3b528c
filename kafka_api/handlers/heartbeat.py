"""Heartbeat (12): a member of a group is alive, and learns whether it has to join again."""

from kafka_api.groups.group_events import Identity
from kafka_api.protocol.messages import HeartbeatRequest, HeartbeatResponse
from kafka_api.request_context import RequestContext


async def handle_heartbeat(context: RequestContext, version: int, request: HeartbeatRequest) -> HeartbeatResponse:
    """Note it; success says that this broker still is the coordinator."""
    identity = Identity(request.member_id, request.group_instance_id, request.generation_id)
    return HeartbeatResponse(error_code=await context.groups.heartbeat(request.group_id, identity))
