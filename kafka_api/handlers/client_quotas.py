"""DescribeClientQuotas (48) and AlterClientQuotas (49): there are none, and none can be set."""

from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kafka_api.request_context import RequestContext

_Refused = AlterClientQuotasResponse.EntryData
_Entity = AlterClientQuotasResponse.EntityData


async def handle_describe_client_quotas(
    _: RequestContext, __: int, ___: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Describe the quotas that match, whatever is asked for: none. kafka-configs asks for them beside a user's."""
    return DescribeClientQuotasResponse(error_message=None, entries=[])


async def handle_alter_client_quotas(
    _: RequestContext, __: int, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Refuse each: a quota that is accepted and does nothing would be a lie."""
    return AlterClientQuotasResponse(
        entries=[
            _Refused(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                error_message="this broker has no client quotas",
                entity=[_Entity(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity],
            )
            for entry in request.entries
        ]
    )
