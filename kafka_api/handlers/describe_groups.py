"""DescribeGroups (15): state, protocol and members of groups."""

from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.groups.group import Group, GroupState
from kafka_api.groups.member import Member
from kafka_api.handlers.in_steps import in_steps
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_api.request_context import RequestContext

_FIRST_VERSION_WITH_NOT_FOUND = 6

_Described = DescribeGroupsResponse.DescribedGroup


async def handle_describe_groups(
    context: RequestContext, version: int, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Describe each group; one that nobody knows is dead, as in Kafka."""
    kept = await context.groups.confirmed(request.groups)
    pairs = in_steps(zip(request.groups, kept, strict=True))
    described = [_describe(version, group_id, active) async for group_id, active in pairs]
    return DescribeGroupsResponse(groups=described)


def _describe(version: int, group_id: str, active: CoordinatedPartition | ErrorCode) -> _Described:
    if isinstance(active, ErrorCode):
        return _without_members(group_id, active, "")
    group = active.view(group_id)
    if group is None or group.state is GroupState.DEAD:
        is_error = version >= _FIRST_VERSION_WITH_NOT_FOUND
        error = ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE
        return _without_members(group_id, error, GroupState.DEAD.value)
    # Between two generations nothing is known of what its members will have.
    is_stable = group.state is GroupState.STABLE
    return _Described(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol or "" if is_stable else "",
        members=[_member(group, member, is_stable=is_stable) for member in group.members],
    )


def _member(group: Group, member: Member, *, is_stable: bool) -> DescribeGroupsResponse.DescribedGroupMember:
    return DescribeGroupsResponse.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol) if is_stable else b"",
        member_assignment=member.assignment if is_stable else b"",
    )


def _without_members(group_id: str, error: ErrorCode, state: str) -> _Described:
    return _Described(
        group_id=group_id, error_code=error, group_state=state, protocol_type="", protocol_data="", members=[]
    )
