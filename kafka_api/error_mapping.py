"""Our errors -> Kafka's codes: the only place. A test walks the error families and fails on a gap."""

from cluster import errors as cluster_errors
from cluster import producer_errors, state_bounds
from kafka_api.protocol.error_codes import ErrorCode
from raft import errors as raft_errors
from storage import errors as storage_errors

# The outcome of an ambiguous error is unknown; every code here is one that clients retry. NOT_LEADER_OR_FOLLOWER
# makes them look for the new leader first.
_CODES: dict[type[Exception], ErrorCode] = {
    raft_errors.NotLeaderError: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    raft_errors.UnknownGroupError: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    raft_errors.StorageFullError: ErrorCode.KAFKA_STORAGE_ERROR,
    raft_errors.NotEnoughReplicasError: ErrorCode.NOT_ENOUGH_REPLICAS,
    raft_errors.NotEnoughReplicasAfterAppendError: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    raft_errors.ReadTimedOutError: ErrorCode.OFFSET_NOT_AVAILABLE,
    raft_errors.LeadershipLostError: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    raft_errors.ReplicateTimedOutError: ErrorCode.REQUEST_TIMED_OUT,
    raft_errors.ShuttingDownError: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    raft_errors.ReplicaFailedError: ErrorCode.KAFKA_STORAGE_ERROR,
    raft_errors.InvariantViolatedError: ErrorCode.KAFKA_STORAGE_ERROR,
    producer_errors.OutOfOrderSequenceError: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    producer_errors.DuplicateSequenceError: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    producer_errors.InvalidProducerEpochError: ErrorCode.INVALID_PRODUCER_EPOCH,
    producer_errors.TransactionStateError: ErrorCode.INVALID_TXN_STATE,
    # Every client sends such a batch again, and the coordinator is asked then.
    producer_errors.NotAdmittedError: ErrorCode.NOT_ENOUGH_REPLICAS,
    # Only group tables refuse what clients write; raft0's speak as TablesFullError.
    state_bounds.StateFullError: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    storage_errors.StorageError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage_errors.LogTruncatedError: ErrorCode.OFFSET_OUT_OF_RANGE,
    cluster_errors.TopicExistsError: ErrorCode.TOPIC_ALREADY_EXISTS,
    cluster_errors.UnknownTopicError: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    cluster_errors.InvalidTopicNameError: ErrorCode.INVALID_TOPIC_EXCEPTION,
    cluster_errors.InvalidPartitionsError: ErrorCode.INVALID_PARTITIONS,
    cluster_errors.InvalidReplicationFactorError: ErrorCode.INVALID_REPLICATION_FACTOR,
    cluster_errors.InvalidReplicaAssignmentError: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    cluster_errors.InvalidTopicConfigError: ErrorCode.INVALID_CONFIG,
    cluster_errors.RequestTooLargeError: ErrorCode.INVALID_REQUEST,
    cluster_errors.TablesFullError: ErrorCode.POLICY_VIOLATION,
    cluster_errors.FeatureUpdateError: ErrorCode.FEATURE_UPDATE_FAILED,
    cluster_errors.FeatureLevelError: ErrorCode.UNSUPPORTED_VERSION,
    cluster_errors.UnknownBrokerError: ErrorCode.INVALID_REQUEST,
    cluster_errors.BrokerAdmittedError: ErrorCode.DUPLICATE_BROKER_REGISTRATION,
    cluster_errors.BrokerNotAdmittedError: ErrorCode.BROKER_ID_NOT_REGISTERED,
    cluster_errors.BrokerInUseError: ErrorCode.INVALID_REQUEST,
    cluster_errors.InvalidBrokerConfigError: ErrorCode.INVALID_CONFIG,
    cluster_errors.UnknownPartitionError: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    cluster_errors.NoReassignmentError: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    cluster_errors.OffsetOutOfRangeError: ErrorCode.OFFSET_OUT_OF_RANGE,
    cluster_errors.ControllerUnavailableError: ErrorCode.REQUEST_TIMED_OUT,
    cluster_errors.LeadershipNotMovedError: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    cluster_errors.NotControllerError: ErrorCode.NOT_CONTROLLER,
}


def error_code(error: BaseException) -> ErrorCode:
    """Return the code of one of our errors, or of its nearest named base."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return ErrorCode.UNKNOWN_SERVER_ERROR
