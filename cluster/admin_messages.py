"""What brokers ask raft0's leader about topics, brokers, features and options, and its answer (`admin_requests`)."""

import msgspec

from cluster.commands import BrokerRecord
from cluster.topic_changes import ConfigChange
from rpc.methods import Method


class CreateTopicRequest(msgspec.Struct, frozen=True, array_like=True):
    """A topic to create. `assignment[p]` are the nodes of partition p; empty: the allocator chooses."""

    name: str
    partitions: int
    replication_factor: int
    assignment: list[list[int]]
    configs: dict[str, str]
    validate_only: bool
    timeout: float


class DeleteTopicRequest(msgspec.Struct, frozen=True, array_like=True):
    """A topic to delete, by name or, where that is empty, by id. The leader looks it up: others' tables may be old."""

    name: str
    topic_id: str
    timeout: float


class CreatePartitionsRequest(msgspec.Struct, frozen=True, array_like=True):
    """A topic is to have `partitions` in all. `assignment` names the nodes of each new one, or is empty."""

    name: str
    partitions: int
    assignment: list[list[int]]
    validate_only: bool
    timeout: float


class AlterTopicConfigsRequest(msgspec.Struct, frozen=True, array_like=True):
    """Changes of what is set on a topic; `replaces_all`: everything that is not named is deleted (AlterConfigs)."""

    name: str
    changes: list[ConfigChange]
    replaces_all: bool
    validate_only: bool
    timeout: float


class RegisterBrokerRequest(msgspec.Struct, frozen=True, array_like=True):
    """A broker's current addresses."""

    broker: BrokerRecord
    timeout: float


class AllocateProducerIdsRequest(msgspec.Struct, frozen=True, array_like=True):
    """A broker needs a block of producer ids."""

    timeout: float


class UpdateFeatureRequest(msgspec.Struct, frozen=True, array_like=True):
    """A feature is to be used at a level (RFC 0018).

    Versions that lower no level ignore `is_lowering`, and refuse.
    """

    name: str
    level: int
    validate_only: bool
    timeout: float
    is_lowering: bool = False


class AlterBrokerConfigsRequest(msgspec.Struct, frozen=True, array_like=True):
    """Changes of what is set on a broker while it runs, or on all (`node` None); `replaces_all` as for topics."""

    node: int | None
    changes: list[ConfigChange]
    replaces_all: bool
    validate_only: bool
    timeout: float


class AdminReply(msgspec.Struct, frozen=True, array_like=True):
    """`error` is the name of a ClusterError, empty for success; then the topic's name, id, partitions and replicas.

    `applied_index` is raft0's commit index as the leader has confirmed it for this request, or the index of the command
    that the request became. A broker that has applied as much knows all that any broker knew when the request arrived.
    `first_producer_id` begins the block that was asked for.
    """

    error: str
    message: str
    topic_id: str = ""
    partitions: int = 0
    replication_factor: int = 0
    applied_index: int = 0
    first_producer_id: int = -1
    name: str = ""


CREATE_TOPIC = Method(10, "create_topic", CreateTopicRequest, AdminReply)
DELETE_TOPIC = Method(11, "delete_topic", DeleteTopicRequest, AdminReply)
REGISTER_BROKER = Method(12, "register_broker", RegisterBrokerRequest, AdminReply)
CREATE_PARTITIONS = Method(13, "create_partitions", CreatePartitionsRequest, AdminReply)
ALTER_TOPIC_CONFIGS = Method(14, "alter_topic_configs", AlterTopicConfigsRequest, AdminReply)
ALLOCATE_PRODUCER_IDS = Method(15, "allocate_producer_ids", AllocateProducerIdsRequest, AdminReply)
UPDATE_FEATURE = Method(16, "update_feature", UpdateFeatureRequest, AdminReply)
ALTER_BROKER_CONFIGS = Method(17, "alter_broker_configs", AlterBrokerConfigsRequest, AdminReply)
