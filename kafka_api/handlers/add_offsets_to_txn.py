"""AddOffsetsToTxn (25): the partition that keeps a group's offsets belongs to a producer's transaction from now on."""

from kafka_api.protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafka_api.request_context import RequestContext
from kafka_api.transactions.transaction_events import Identity


async def handle_add_offsets_to_txn(
    context: RequestContext, version: int, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Add the partition of `__consumer_offsets`; the group need not exist.

    Asking for the first one creates that topic: clients look for the group's coordinator only once this is answered.
    """
    context.groups.find_node(request.group_id)
    producer = Identity(request.producer_id, request.producer_epoch)
    answer = await context.transactions.add_offsets(request.transactional_id, version, producer, request.group_id)
    return AddOffsetsToTxnResponse(error_code=answer.error)
