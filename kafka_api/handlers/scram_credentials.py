"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51): nobody has any, and nobody can be given one,
because there is no SASL."""

from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kafka_api.request_context import RequestContext

_Described = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
_Altered = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


async def handle_describe_user_scram_credentials(
    _: RequestContext, __: int, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Describe everybody's: nothing; of each user that is named: that there is none."""
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[
            _Described(
                user=user,
                error_code=ErrorCode.RESOURCE_NOT_FOUND,
                error_message="the user has no SCRAM credentials",
                credential_infos=[],
            )
            for user in dict.fromkeys(each.name for each in request.users or [])
        ],
    )


async def handle_alter_user_scram_credentials(
    _: RequestContext, __: int, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Refuse, once for each user: there is nothing to delete, and no mechanism that a credential could be of."""
    gone = _Altered(error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message="the user has no SCRAM credentials")
    no_sasl = _Altered(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, error_message="this broker has no SASL")
    refusals = {each.name: gone for each in request.deletions} | {each.name: no_sasl for each in request.upsertions}
    return AlterUserScramCredentialsResponse(
        results=[
            _Altered(user=user, error_code=refusal.error_code, error_message=refusal.error_message)
            for user, refusal in refusals.items()
        ]
    )
