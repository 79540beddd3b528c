"""EndTxn (26): a producer's transaction is committed or aborted; version 5 raises the producer's epoch (KIP-890)."""

from kafka_api.protocol.messages import EndTxnRequest, EndTxnResponse
from kafka_api.request_context import RequestContext
from kafka_api.transactions.transaction_events import Identity


async def handle_end_txn(context: RequestContext, version: int, request: EndTxnRequest) -> EndTxnResponse:
    """Answer once the decision is committed; the markers of its partitions follow."""
    producer = Identity(request.producer_id, request.producer_epoch)
    answer = await context.transactions.end_transaction(request.transactional_id, version, producer, request.committed)
    return EndTxnResponse(
        error_code=answer.error, producer_id=answer.identity.producer_id, producer_epoch=answer.identity.epoch
    )
