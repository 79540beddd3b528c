"""ACLs (29 to 31): there is no authorizer, and the answers are those of a Kafka without one."""

from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kafka_api.request_context import RequestContext

_WHY = "this broker has no authorizer: every client may do everything"


async def handle_describe_acls(_: RequestContext, __: int, ___: DescribeAclsRequest) -> DescribeAclsResponse:
    """Refuse."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_WHY, resources=[])


async def handle_create_acls(_: RequestContext, __: int, request: CreateAclsRequest) -> CreateAclsResponse:
    """Refuse each."""
    refused = CreateAclsResponse.AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=_WHY)
    return CreateAclsResponse(results=[refused for _ in request.creations])


async def handle_delete_acls(_: RequestContext, __: int, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Refuse each."""
    refused = DeleteAclsResponse.DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=_WHY, matching_acls=[]
    )
    return DeleteAclsResponse(filter_results=[refused for _ in request.filters])
