"""Errors of the engine as clients of a coordinator get them: each makes them ask again, or find the next one."""

from cluster.producer_errors import NotAdmittedError
from kafka_api.error_mapping import error_code
from kafka_api.protocol.error_codes import ErrorCode

# As in Kafka: what a partition's leader would say means something else to whoever asks a coordinator.
_CODES = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.OFFSET_NOT_AVAILABLE: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def coordinator_error(error: BaseException) -> ErrorCode:
    """Return the code for a write or read that has failed."""
    if isinstance(error, NotAdmittedError):
        # Nothing was written. Java's producer sends TxnOffsetCommit again for this one, not for NOT_ENOUGH_REPLICAS.
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    code = error_code(error)
    return _CODES.get(code, code)
