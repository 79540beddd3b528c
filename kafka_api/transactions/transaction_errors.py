"""Which errors clients are answered with, by the version of their requests.

PRODUCER_FENCED and TRANSACTION_ABORTABLE are younger than the requests. A client that does not know them gets the code
that the same situation had before.

Source: the version notes of Apache Kafka's request schemas; KIP-588, KIP-890.
"""

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode

_FENCED_SINCE = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
_ABORTABLE_SINCE = {ApiKey.PRODUCE: 11, ApiKey.TXN_OFFSET_COMMIT: 4}


def told_error(error: ErrorCode, key: ApiKey, version: int) -> ErrorCode:
    """Return what a request to the coordinator is answered with."""
    if error is ErrorCode.PRODUCER_FENCED and version < _FENCED_SINCE[key]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def admission_error(error: ErrorCode, key: ApiKey, version: int) -> ErrorCode:
    """Return what Produce or TxnOffsetCommit is answered with where the coordinator has said no: RFC 0021, section 4.

    Args:
        error: Of `Transaction.add_partitions` or `verify`, or of the way to the coordinator.
        key: PRODUCE or TXN_OFFSET_COMMIT.
        version: Of that request.
    """
    is_produce = key is ApiKey.PRODUCE
    match error:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE:
            return error if version >= _ABORTABLE_SINCE[key] else ErrorCode.INVALID_TXN_STATE
        case ErrorCode.CONCURRENT_TRANSACTIONS | ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NOT_ENOUGH_REPLICAS if is_produce else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case ErrorCode.COORDINATOR_NOT_AVAILABLE | ErrorCode.NOT_COORDINATOR:
            return ErrorCode.NOT_ENOUGH_REPLICAS if is_produce else ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
