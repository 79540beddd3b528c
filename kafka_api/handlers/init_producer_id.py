"""InitProducerId (22): a producer id that nobody else has, or that of a transactional id, with an epoch.

An idempotent producer gets a new id with epoch 0. A producer with a transactional id becomes the only one of that id:
what its predecessor has open is aborted (RFC 0021, section 7).
"""

from cluster.errors import ClusterError
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from kafka_api.request_context import RequestContext
from kafka_api.transactions.transaction_events import Identity

_NONE = -1

# Below the request timeout of every client; the error after it makes them ask again.
_TIMEOUT = 5.0


async def handle_init_producer_id(
    context: RequestContext, version: int, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Give the producer an id. An idempotent one that names its former id and epoch (KIP-360) gets a new id as well, as
    in Kafka.
    """
    if request.transactional_id == "" or (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return await _of_transactional_id(context, version, request.transactional_id, request)
    try:
        producer_id = await context.node.producer_ids.allocate(_TIMEOUT)
    except ClusterError:
        # raft0 has no leader yet: the one code here that every client takes for "ask this broker again".
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _of_transactional_id(
    context: RequestContext, version: int, transactional_id: str, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    transactions = context.transactions
    level = await transactions.certain_level()
    if not level:
        is_certain = level is not None
        return _refused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if is_certain else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )
    known = None if request.producer_id == _NONE else Identity(request.producer_id, request.producer_epoch)
    timeout_ms = request.transaction_timeout_ms
    answer = await transactions.init_producer_id(transactional_id, version, timeout_ms, known)
    if answer.error is not ErrorCode.NONE:
        return _refused(answer.error)
    return InitProducerIdResponse(producer_id=answer.identity.producer_id, producer_epoch=answer.identity.epoch)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)
