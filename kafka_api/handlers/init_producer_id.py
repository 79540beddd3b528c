"""InitProducerId (22), for idempotent producers only: an id that nobody else has, with epoch 0."""

from cluster.errors import ClusterError
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from kafka_api.request_context import RequestContext

_NONE = -1

# Below the request timeout of every client; the error after it makes them ask again.
_TIMEOUT = 5.0


async def handle_init_producer_id(
    context: RequestContext, version: int, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Give the producer an id. One that names its former id and epoch (KIP-360) gets a new id as well, as in Kafka."""
    if request.transactional_id == "" or (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    try:
        producer_id = await context.node.producer_ids.allocate(_TIMEOUT)
    except ClusterError:
        # raft0 has no leader yet: the one code here that every client takes for "ask this broker again".
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)
