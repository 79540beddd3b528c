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


def told_error(error: ErrorCode, key: ApiKey, version: int) -> ErrorCode:
    """Return what a request to the coordinator is answered with."""
    if error is ErrorCode.PRODUCER_FENCED and version < _FENCED_SINCE[key]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
