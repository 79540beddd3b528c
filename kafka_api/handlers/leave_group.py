"""LeaveGroup (13): members go; from version 3 on an administrator may name several."""

from kafka_api.groups.group_events import Identity
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import LeaveGroupRequest, LeaveGroupResponse
from kafka_api.request_context import RequestContext

_FIRST_VERSION_WITH_MANY_MEMBERS = 3


async def handle_leave_group(context: RequestContext, version: int, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Let them go; the others are told to join again."""
    names_many = version >= _FIRST_VERSION_WITH_MANY_MEMBERS
    identities = [Identity(request.member_id, None)]
    if names_many:
        identities = [Identity(each.member_id, each.group_instance_id) for each in request.members]
    errors = await context.groups.leave(request.group_id, identities)
    if isinstance(errors, ErrorCode):
        return LeaveGroupResponse(error_code=errors, members=[])
    if not names_many:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.instance_id, error_code=error
            )
            for identity, error in zip(identities, errors, strict=True)
        ]
    )
