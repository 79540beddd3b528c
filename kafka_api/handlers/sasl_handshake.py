"""SaslHandshake (17): a client that is configured to authenticate learns here that it cannot."""

from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import SaslHandshakeRequest, SaslHandshakeResponse
from kafka_api.request_context import RequestContext


async def handle_sasl_handshake(_: RequestContext, __: int, ___: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse, as Kafka's listeners without SASL do; a closed connection would only make the client try again."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
