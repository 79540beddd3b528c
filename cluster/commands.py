"""What the entries of raft0 say, as tagged msgpack (RFC 0001 section 5). New commands get new tags."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from model.ids import RAFT0
from storage.errors import UnknownFormatError

FORMAT_VERSION = 1

_TOPIC_ID = re.compile("[0-9a-f]{32}")
_PARTITION = re.compile("[0-9a-f]{32}/(0|[1-9][0-9]{0,8})")


class BrokerRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One broker: who it is and where clients and admins find it.

    `features` are the highest levels that it can work at (RFC 0018); what it does not name it does not have.
    """

    node_id: int
    directory_id: str
    kafka_host: str
    kafka_port: int
    rpc_host: str
    rpc_port: int
    admin_host: str
    admin_port: int
    features: dict[str, int] = {}


class RegisterBroker(msgspec.Struct, frozen=True, tag="register_broker"):
    """A founding broker tells its current addresses; the last registration of a node counts."""

    broker: BrokerRecord


class ReplicaRecord(msgspec.Struct, frozen=True, array_like=True):
    """A replica in a placement: node and data directory."""

    node_id: int
    directory_id: str


class CreateTopic(msgspec.Struct, frozen=True, tag="create_topic"):
    """A topic with its id, the replicas of each partition (the first is preferred) and what was configured."""

    name: str
    topic_id: str
    partitions: list[list[ReplicaRecord]]
    configs: dict[str, str]


class DeleteTopic(msgspec.Struct, frozen=True, tag="delete_topic"):
    """The topic of that id ends; its directories are deleted by the application of this command only."""

    topic_id: str


class CreatePartitions(msgspec.Struct, frozen=True, tag="create_partitions"):
    """The topic grows: `partitions` are the replicas of the new ones, whose numbers begin at `first`."""

    topic_id: str
    first: int
    partitions: list[list[ReplicaRecord]]


class AlterTopicConfigs(msgspec.Struct, frozen=True, tag="alter_topic_configs"):
    """What is set on the topic from now on: all of it, not a difference."""

    topic_id: str
    configs: dict[str, str]


class AllocateProducerIds(msgspec.Struct, frozen=True, tag="allocate_producer_ids"):
    """The ids from `first` on are one broker's to hand out, `count` of them (RFC 0007)."""

    first: int
    count: int


class SetFeature(msgspec.Struct, frozen=True, tag="set_feature", omit_defaults=True):
    """From now on a feature is used at this level (RFC 0018).

    `brokers` are the highest levels by which raft0's leader has judged it, by node id: what the linked brokers had
    then, and what the tables said of the others. They replace what each table has, so that all judge alike.
    """

    name: str
    level: Annotated[int, msgspec.Meta(ge=0)]
    brokers: dict[int, dict[str, int]] = {}


class AlterBrokerConfigs(msgspec.Struct, frozen=True, tag="alter_broker_configs"):
    """What is set, while brokers run, on one of them or, with `node` None, on all: all of it, not a difference."""

    node: int | None
    configs: dict[str, str]


class PlacementRecord(msgspec.Struct, frozen=True, array_like=True):
    """Where a partition shall have its replicas; None: where it had them before it was moved.

    raft0 is partition 0 of the topic id "raft0": its replicas are its voters.
    """

    topic_id: str
    partition: Annotated[int, msgspec.Meta(ge=0)]
    target: list[ReplicaRecord] | None


class AlterPlacements(msgspec.Struct, frozen=True, tag="alter_placements"):
    """These partitions move; the revision of the moves is this command's index (RFC 0019 section 6).

    raft0 moves alone.
    """

    placements: list[PlacementRecord]

    @property
    def of_raft0(self) -> PlacementRecord | None:
        """The move of raft0, if it is one."""
        return self.placements[0] if self.placements[0].topic_id == RAFT0 else None


class FinishPlacement(msgspec.Struct, frozen=True, tag="finish_placement"):
    """The voters of a group are those that a revision, (generation, index), wants: the move is finished."""

    group: str
    revision: tuple[int, int]


class AdmitBroker(msgspec.Struct, frozen=True, tag="admit_broker"):
    """A broker joins with a data directory, or has new addresses; its epoch is this command's index (RFC 0020)."""

    node_id: Annotated[int, msgspec.Meta(ge=0)]
    directory_id: str
    rpc_host: str
    rpc_port: Annotated[int, msgspec.Meta(ge=0, le=65535)]


class SetBrokerState(msgspec.Struct, frozen=True, tag="set_broker_state"):
    """What a broker may be given from now on: a name of `members_table.BrokerState`."""

    node_id: int
    state: Literal["active", "draining", "decommissioning"]


class RetireDirectory(msgspec.Struct, frozen=True, tag="retire_directory"):
    """A node's data directory never counts again; the node may join with another one."""

    node_id: int
    directory_id: str


class RemoveBroker(msgspec.Struct, frozen=True, tag="remove_broker"):
    """A broker that holds nothing is in the cluster no longer; its directory is retired."""

    node_id: int


# What changes who is in the cluster.
OfBrokers = AdmitBroker | SetBrokerState | RetireDirectory | RemoveBroker

Command = (
    RegisterBroker
    | CreateTopic
    | DeleteTopic
    | CreatePartitions
    | AlterTopicConfigs
    | AllocateProducerIds
    | SetFeature
    | AlterBrokerConfigs
    | AlterPlacements
    | FinishPlacement
    | OfBrokers
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


class UnknownCommandError(UnknownFormatError):
    """A command this version cannot read: the node must not go on without it."""


def encode_command(command: Command) -> bytes:
    """Return the payload of a raft0 entry."""
    return bytes([FORMAT_VERSION]) + _encoder.encode(command)


def decode_command(payload: bytes | bytearray | memoryview) -> Command:
    """Read the payload of a raft0 entry.

    Raises:
        UnknownCommandError: Written by a newer version, or damaged.
    """
    view = memoryview(payload)
    if len(view) < 1 or view[0] != FORMAT_VERSION:
        raise UnknownCommandError(f"raft0 command of format {view[0] if len(view) else None}")
    try:
        command = _decoder.decode(view[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnknownCommandError(f"raft0 command cannot be read: {error}") from error
    if isinstance(command, CreateTopic) and not is_topic_id(command.topic_id):
        raise UnknownCommandError(f"raft0 command names a topic id that is none: {command.topic_id[:40]!r}")
    if isinstance(command, CreateTopic | CreatePartitions) and not _are_placements(command.partitions):
        raise UnknownCommandError("raft0 command places a partition nowhere, or twice on a broker")
    if isinstance(command, AlterPlacements) and not _are_moves(command.placements):
        raise UnknownCommandError("raft0 command moves nothing, or a partition twice, or to an impossible placement")
    if isinstance(command, FinishPlacement) and not _is_group(command.group):
        raise UnknownCommandError(f"raft0 command names a group that is no partition: {command.group[:60]!r}")
    return command


def is_topic_id(text: str) -> bool:
    """Whether a text is what topics are known by: 32 hex digits."""
    return _TOPIC_ID.fullmatch(text) is not None


def _is_group(text: str) -> bool:
    return text == RAFT0 or _PARTITION.fullmatch(text) is not None


def _are_placements(partitions: Sequence[Sequence[ReplicaRecord]]) -> bool:
    """Whether there is a partition, and each has replicas, on different brokers."""
    return bool(partitions) and all(are_replicas([each.node_id for each in replicas]) for replicas in partitions)


def _are_moves(moves: Sequence[PlacementRecord]) -> bool:
    """Whether there is a partition, none is named twice, and each has replicas on different brokers, or goes back.

    raft0 is named alone.
    """
    named = {(each.topic_id, each.partition) for each in moves}
    targets = [[replica.node_id for replica in each.target] for each in moves if each.target is not None]
    return (
        0 < len(moves) == len(named)
        and (named == {(RAFT0, 0)} or all(is_topic_id(each.topic_id) for each in moves))
        and all(map(are_replicas, targets))
    )


def are_replicas(nodes: Sequence[int]) -> bool:
    """Whether a partition may have its replicas on these brokers."""
    return 0 < len(nodes) == len(set(nodes))
