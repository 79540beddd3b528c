"""What can be wrong with an administrative request; each travels between brokers by its name."""


class ClusterError(Exception):
    """Base of every error the cluster package raises on purpose."""


class TopicExistsError(ClusterError):
    """A topic of that name exists."""


class UnknownTopicError(ClusterError):
    """No topic of that name or id."""


class InvalidTopicNameError(ClusterError):
    """The name breaks Kafka's rules."""


class InvalidPartitionsError(ClusterError):
    """The number of partitions is out of range."""


class InvalidReplicationFactorError(ClusterError):
    """More replicas than brokers, or less than one."""


class InvalidReplicaAssignmentError(ClusterError):
    """The replicas asked for name unknown or repeated brokers, or leave partitions out."""


class InvalidTopicConfigError(ClusterError):
    """An unknown configuration key, or a value out of range."""


class RequestTooLargeError(ClusterError):
    """No other broker would take a request of this size: ask for fewer things at a time."""


class TablesFullError(ClusterError):
    """raft0's tables have no room for the change: delete topics, or take fewer partitions."""


class ProducerIdsTakenError(ClusterError):
    """The block of producer ids was given away by an earlier command; the next one begins behind it."""


class FeatureUpdateError(ClusterError):
    """A feature cannot be at that level: unknown, lowered, or a broker cannot go so far."""


class FeatureLevelError(ClusterError):
    """The cluster does not use a feature at the level that the request needs: raise it first."""


class UnknownBrokerError(ClusterError):
    """No broker of that node id is in the cluster."""


class BrokerAdmittedError(ClusterError):
    """The node id is in the cluster with another data directory: `raftka broker replace` if that one is lost."""


class BrokerNotAdmittedError(ClusterError):
    """The node was not admitted with that data directory, or the directory is retired."""


class BrokerInUseError(ClusterError):
    """The broker still holds replicas or has links, so it cannot be removed or retired; the message names them."""


class InvalidBrokerConfigError(ClusterError):
    """An option that brokers do not have or read only at their start, or a value out of range."""


class UnknownPartitionError(ClusterError):
    """The topic has no partition of that number."""


class NoReassignmentError(ClusterError):
    """The partition is not being moved, or not by that revision."""


class OffsetOutOfRangeError(ClusterError):
    """No such offset: it lies above the high watermark."""


class ControllerUnavailableError(ClusterError):
    """raft0 has no leader in office within the deadline: nothing is known of the outcome. Retry."""


class NotControllerError(ClusterError):
    """This node does not lead raft0; the asker looks again."""


class LeadershipNotMovedError(ClusterError):
    """A replica that was to lead does not."""


class StartupError(ClusterError):
    """The node must not start: foreign directory, other cluster, seeds that disagree. The message says the cure."""


class PermanentStartupError(StartupError):
    """The same start would be refused again: somebody must change the configuration or the data directory first."""


class RefusedDirectoryError(PermanentStartupError):
    """This data directory is new, and a founded node knows this node id by another one."""


BY_NAME: dict[str, type[ClusterError]] = {
    error.__name__: error
    for error in (
        TopicExistsError,
        UnknownTopicError,
        InvalidTopicNameError,
        InvalidPartitionsError,
        InvalidReplicationFactorError,
        InvalidReplicaAssignmentError,
        InvalidTopicConfigError,
        TablesFullError,
        ProducerIdsTakenError,
        FeatureUpdateError,
        FeatureLevelError,
        UnknownBrokerError,
        BrokerAdmittedError,
        BrokerNotAdmittedError,
        BrokerInUseError,
        InvalidBrokerConfigError,
        UnknownPartitionError,
        NoReassignmentError,
        ControllerUnavailableError,
        NotControllerError,
    )
}
