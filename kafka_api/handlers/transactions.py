"""DescribeTransactions (65) and ListTransactions (66): there are no transactions."""

from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka_api.request_context import RequestContext

# Source: the states of a transaction, KIP-664 and KIP-447.
_STATES = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)


async def handle_describe_transactions(
    _: RequestContext, __: int, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Say of each transactional id that it is unknown; of an empty one that there can be none."""
    return DescribeTransactionsResponse(
        transaction_states=[
            DescribeTransactionsResponse.TransactionState(
                error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if name else ErrorCode.INVALID_REQUEST,
                transactional_id=name,
                topics=[],
            )
            for name in request.transactional_ids
        ]
    )


async def handle_list_transactions(
    _: RequestContext, __: int, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """List those that match: none, so that of the filters only the names of states are looked at."""
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in _STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=[])
