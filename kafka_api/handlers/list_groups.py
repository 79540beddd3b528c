"""ListGroups (16): the groups that this broker keeps; clients ask all brokers."""

from kafka_api.groups.group import GroupState
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ListGroupsRequest, ListGroupsResponse
from kafka_api.request_context import RequestContext

_TYPE = "classic"


async def handle_list_groups(context: RequestContext, version: int, request: ListGroupsRequest) -> ListGroupsResponse:
    """List them, in the states and of the types that are asked for; none means all."""
    states = {state.lower() for state in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    kept = context.groups.all_here()
    if isinstance(kept, ErrorCode):
        return ListGroupsResponse(error_code=kept, groups=[])
    groups = []
    for active in kept:
        error = await active.confirm()
        if error is not ErrorCode.NONE:
            return ListGroupsResponse(error_code=error, groups=[])
        for group_id in active.group_ids():
            group = active.view(group_id)
            if group is None or group.state is GroupState.DEAD:
                continue
            if (not states or group.state.value.lower() in states) and (not types or _TYPE in types):
                groups.append(
                    ListGroupsResponse.ListedGroup(
                        group_id=group_id,
                        protocol_type=group.protocol_type,
                        group_state=group.state.value,
                        group_type=_TYPE,
                    )
                )
    return ListGroupsResponse(groups=groups)
