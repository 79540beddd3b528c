"""Every error of the layers below has its Kafka code on purpose, or a reason why no handler ever sees it."""

import inspect
from types import ModuleType

import pytest

import cluster.commands
import cluster.errors
import cluster.producer_errors
import cluster.state_bounds
import model.config_definition
import model.record_batch
import model.record_codec
import raft.errors
import storage.errors
from kafka_api.error_mapping import error_code
from kafka_api.protocol.error_codes import ErrorCode

MODULES = [
    cluster.errors,
    cluster.commands,
    cluster.producer_errors,
    cluster.state_bounds,
    raft.errors,
    storage.errors,
    model.record_batch,
    model.record_codec,
    model.config_definition,
]

MAPPED = {
    raft.errors.NotLeaderError: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    raft.errors.UnknownGroupError: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    raft.errors.ReadTimedOutError: ErrorCode.OFFSET_NOT_AVAILABLE,
    raft.errors.LeadershipLostError: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    raft.errors.ShuttingDownError: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    raft.errors.ReplicateTimedOutError: ErrorCode.REQUEST_TIMED_OUT,
    raft.errors.NotEnoughReplicasError: ErrorCode.NOT_ENOUGH_REPLICAS,
    raft.errors.NotEnoughReplicasAfterAppendError: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    raft.errors.StorageFullError: ErrorCode.KAFKA_STORAGE_ERROR,
    raft.errors.ReplicaFailedError: ErrorCode.KAFKA_STORAGE_ERROR,
    raft.errors.InvariantViolatedError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.errors.StorageError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.errors.CorruptEntryError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.errors.CorruptLogError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.errors.LogPoisonedError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.errors.DiskFullError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.errors.HungReadError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.errors.OpenFilesError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.errors.LogTruncatedError: ErrorCode.OFFSET_OUT_OF_RANGE,
    cluster.errors.TopicExistsError: ErrorCode.TOPIC_ALREADY_EXISTS,
    cluster.errors.UnknownTopicError: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    cluster.errors.InvalidTopicNameError: ErrorCode.INVALID_TOPIC_EXCEPTION,
    cluster.errors.InvalidPartitionsError: ErrorCode.INVALID_PARTITIONS,
    cluster.errors.InvalidReplicationFactorError: ErrorCode.INVALID_REPLICATION_FACTOR,
    cluster.errors.InvalidReplicaAssignmentError: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    cluster.errors.InvalidTopicConfigError: ErrorCode.INVALID_CONFIG,
    cluster.errors.RequestTooLargeError: ErrorCode.INVALID_REQUEST,
    cluster.errors.TablesFullError: ErrorCode.POLICY_VIOLATION,
    cluster.state_bounds.StateFullError: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    cluster.errors.FeatureUpdateError: ErrorCode.FEATURE_UPDATE_FAILED,
    cluster.errors.FeatureLevelError: ErrorCode.UNSUPPORTED_VERSION,
    cluster.errors.UnknownBrokerError: ErrorCode.INVALID_REQUEST,
    cluster.errors.BrokerAdmittedError: ErrorCode.DUPLICATE_BROKER_REGISTRATION,
    cluster.errors.BrokerNotAdmittedError: ErrorCode.BROKER_ID_NOT_REGISTERED,
    cluster.errors.BrokerInUseError: ErrorCode.INVALID_REQUEST,
    cluster.errors.InvalidBrokerConfigError: ErrorCode.INVALID_CONFIG,
    cluster.errors.UnknownPartitionError: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    cluster.errors.NoReassignmentError: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    cluster.errors.OffsetOutOfRangeError: ErrorCode.OFFSET_OUT_OF_RANGE,
    cluster.errors.ControllerUnavailableError: ErrorCode.REQUEST_TIMED_OUT,
    cluster.errors.LeadershipNotMovedError: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    cluster.errors.NotControllerError: ErrorCode.NOT_CONTROLLER,
    cluster.producer_errors.OutOfOrderSequenceError: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    cluster.producer_errors.DuplicateSequenceError: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    cluster.producer_errors.InvalidProducerEpochError: ErrorCode.INVALID_PRODUCER_EPOCH,
    cluster.producer_errors.TransactionStateError: ErrorCode.INVALID_TXN_STATE,
    cluster.producer_errors.NotAdmittedError: ErrorCode.NOT_ENOUGH_REPLICAS,
}

UNREACHABLE = {
    cluster.producer_errors.MarkerRefusedError: "the marker is made anew (cluster.transactions.marker_writer)",
    raft.errors.RaftError: "a base: only its subclasses are raised",
    raft.errors.RetryableError: "a base: only its subclasses are raised",
    raft.errors.AmbiguousError: "a base: only its subclasses are raised",
    raft.errors.FatalError: "a base: only its subclasses are raised",
    raft.errors.TransferError: "a base: only its subclasses are raised",
    raft.errors.TransferTargetError: "only to who asks for a transfer: the admin port",
    raft.errors.TransferRefusedError: "only to who asks for a transfer: the admin port",
    raft.errors.TransferTimedOutError: "only to who asks for a transfer: the admin port",
    storage.errors.RefusedError: "a base: only its subclasses are raised",
    storage.errors.LostDirectoryError: "where a replica is opened or removed; the broker ends by it",
    storage.errors.ForeignDirectoryError: "at the start of a replica; the controller backend logs it and tries again",
    storage.errors.ForeignSegmentError: "at the start of a replica, like ForeignDirectoryError",
    storage.errors.UnknownFormatError: "at the start of a replica, like ForeignDirectoryError; from a peer on its link",
    storage.errors.DamagedLogError: "at the start of a replica, which is then opened without the damage",
    storage.errors.MismatchedLogError: "at the start of a replica, like ForeignDirectoryError; raft0's ends the process",
    storage.errors.ReplicaRemovedError: "at the start of a replica of a deleted topic; the controller backend waits",
    storage.errors.SnapshotTooLargeError: "in the background: the former snapshot stays, and the log works on",
    storage.errors.KvStoreError: "votes and starts only; the replica fails, and callers are told ReplicaFailedError",
    cluster.errors.ClusterError: "a base; only an answer of a newer broker's unknown error becomes one",
    cluster.errors.ProducerIdsTakenError: "raft0's leader asks for the next block itself",
    cluster.producer_errors.ProducerRefusedError: "a base: only its subclasses are raised",
    cluster.errors.StartupError: "before the listener is open",
    cluster.errors.PermanentStartupError: "before the listener is open",
    cluster.errors.RefusedDirectoryError: "before the listener is open",
    cluster.commands.UnknownCommandError: "in the application of raft0, which ends the process",
    model.record_batch.MalformedBatchError: "check_produced turns it into a refusal with INVALID_RECORD",
    model.record_batch.BatchChecksumError: "check_produced turns it into a refusal with CORRUPT_MESSAGE",
    model.record_codec.CorruptRecordsError: "ListOffsets answers CORRUPT_MESSAGE itself",
    model.config_definition.InvalidConfigError: "the admin request turns it into InvalidTopicConfigError",
}


def errors_of(module: ModuleType) -> list[type[Exception]]:
    return [
        each
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, Exception) and each.__module__ == module.__name__
    ]


EVERY_ERROR = [error for module in MODULES for error in errors_of(module)]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: error.__name__)
def test_every_error_is_mapped_or_cannot_reach_a_handler(error):
    assert (error in MAPPED) != (error in UNREACHABLE), "say which it is, and why"


@pytest.mark.parametrize(("error", "code"), MAPPED.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_what_reaches_a_handler_has_the_intended_code(error, code):
    assert error_code(error("why")) is code


def test_the_lists_name_nothing_that_does_not_exist():
    assert set(MAPPED) | set(UNREACHABLE) == set(EVERY_ERROR)


@pytest.mark.parametrize(
    "family", [raft.errors.RetryableError, raft.errors.AmbiguousError], ids=lambda family: family.__name__
)
def test_what_a_producer_may_retry_has_a_code_that_clients_retry(family):
    retriable = {
        *(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR),
        *(ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    }
    for error in errors_of(raft.errors):
        if issubclass(error, family) and error is not family:
            assert error_code(error("why")) in retriable


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("x"), RuntimeError(), OSError(), cluster.errors.ClusterError("x")]
)
def test_what_nobody_thought_of_is_an_unknown_server_error(error):
    assert error_code(error) is ErrorCode.UNKNOWN_SERVER_ERROR
