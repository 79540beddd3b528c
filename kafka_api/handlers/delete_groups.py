"""DeleteGroups (42): groups without members, with all that they have committed."""

from kafka_api.handlers.in_steps import in_steps
from kafka_api.protocol.messages import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_api.request_context import RequestContext


async def handle_delete_groups(
    context: RequestContext, version: int, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Delete each by itself."""
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(
                group_id=group_id, error_code=await context.groups.delete_group(group_id)
            )
            async for group_id in in_steps(dict.fromkeys(request.groups_names))
        ]
    )
