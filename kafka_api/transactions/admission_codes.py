"""Which code a client gets for a batch that the coordinator of its transaction has refused (RFC 0021, section 4)."""

from collections.abc import Mapping

from cluster.transactions.admission import Admission
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode

# By version: before it, clients do not know TRANSACTION_ABORTABLE.
_ABORTABLE_SINCE = {ApiKey.PRODUCE: 11, ApiKey.TXN_OFFSET_COMMIT: 4}

_ALIKE = {
    Admission.YES: ErrorCode.NONE,
    Admission.OLD_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    Admission.UNKNOWN_ID: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}
_CODES: Mapping[ApiKey, Mapping[Admission, ErrorCode]] = {
    ApiKey.PRODUCE: {
        **_ALIKE,
        Admission.AWAY: ErrorCode.NOT_ENOUGH_REPLICAS,
        Admission.BUSY: ErrorCode.NOT_ENOUGH_REPLICAS,
    },
    # Java's producer sends TxnOffsetCommit again for these, and not for NOT_ENOUGH_REPLICAS.
    ApiKey.TXN_OFFSET_COMMIT: {
        **_ALIKE,
        Admission.AWAY: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        Admission.BUSY: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    },
}


def admission_code(admission: Admission, key: ApiKey, version: int) -> ErrorCode:
    """Return the code for PRODUCE or TXN_OFFSET_COMMIT, by the version of the request; NONE for YES."""
    if admission is Admission.NOT_IN_TRANSACTION:
        is_known = version >= _ABORTABLE_SINCE[key]
        return ErrorCode.TRANSACTION_ABORTABLE if is_known else ErrorCode.INVALID_TXN_STATE
    return _CODES[key][admission]
