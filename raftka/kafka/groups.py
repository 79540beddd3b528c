"""Consumer groups of any Kafka, for the command line: who is in them, what they have committed, changes to it."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raftka.counted import counted
from raftka.kafka import client as kafka_client
from raftka.kafka.assignments import parse_assignment
from raftka.kafka.client import REQUEST_SECONDS, error_text
from raftka.kafka.errors import KafkaClientError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

# (topic, number of the partition)
Partition = tuple[str, int]

# What brokers say, by the words that librdkafka has for it.
_STATES = {
    "UNKNOWN": "Unknown",
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}
_STOP_FIRST = "stop its consumers first; one that was killed counts until its session times out"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as the list has it; `is_simple`: nobody ever joined it, it has commits only."""

    name: str
    state: str
    is_simple: bool


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One consumer in a group; `instance_id` is empty unless it is a static member.

    `partitions` is None where what was assigned to it cannot be read.
    """

    member_id: str
    instance_id: str
    client_id: str
    host: str
    partitions: list[Partition] | None


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group; `coordinator` is a node id, `assignor` is empty while nobody is in the group."""

    name: str
    state: str
    coordinator: int
    assignor: str
    members: list[GroupMember]

    @property
    def exists(self) -> bool:
        """Whether a broker keeps anything of it: Kafka describes groups that it never heard of as dead ones."""
        return self.state != "Dead"

    def check_empty(self) -> None:
        """Raise KafkaClientError unless nobody is in the group: consumers would overwrite what is changed."""
        if self.members or self.state not in {"Empty", "Dead"}:
            count = len(self.members)
            raise KafkaClientError(
                f"group {self.name} is in use ({self.state}, {counted(count, 'member')}): {_STOP_FIRST}"
            )


def list_groups(brokers: str) -> list[GroupListing]:
    """Return every consumer group in the order of names.

    Raises:
        KafkaClientError: A broker did not tell: a list with holes would look like groups that are gone.
    """
    with kafka_client.one_line_errors(brokers):
        admin = kafka_client.new_admin(brokers)
        result = kafka_client.result_of(
            admin.list_consumer_groups(request_timeout=REQUEST_SECONDS), brokers, 2 * REQUEST_SECONDS
        )
        if result.errors:
            raise _partial_list(result.errors[0])
    found = [GroupListing(each.group_id, _state(each.state), each.is_simple_consumer_group) for each in result.valid]
    return sorted(found, key=lambda listing: listing.name)


def read_group(brokers: str, name: str) -> GroupInfo:
    """Return one group; one that does not exist is Dead.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    from confluent_kafka import KafkaException

    with kafka_client.one_line_errors(brokers):
        admin = kafka_client.new_admin(brokers)
        future = admin.describe_consumer_groups([name], request_timeout=REQUEST_SECONDS)[name]
        try:
            found = kafka_client.result_of(future, brokers, 2 * REQUEST_SECONDS)
        except KafkaException as error:
            # Newer brokers have a code for it, older ones describe a dead group.
            if error.args[0].name() == "GROUP_ID_NOT_FOUND":
                return GroupInfo(name, "Dead", -1, "", [])
            # librdkafka's word for bytes that it cannot read.
            if error.args[0].name() == "_DESTROY":
                return _read_raw_group(admin, name)
            raise
    members = [
        GroupMember(
            each.member_id,
            each.group_instance_id or "",
            each.client_id,
            each.host,
            sorted((owned.topic, owned.partition) for owned in _owned(each)),
        )
        for each in found.members
    ]
    members.sort(key=lambda member: (member.client_id, member.member_id))
    coordinator = -1 if found.coordinator is None else found.coordinator.id
    return GroupInfo(name, _state(found.state), coordinator, found.partition_assignor or "", members)


def _read_raw_group(admin: "AdminClient", name: str) -> GroupInfo:
    """Return a group as `read_group` does, where an assignment cannot be read: a member of any client's may have it."""
    with warnings.catch_warnings():
        # The newer call that it names is the one that fails.
        warnings.simplefilter("ignore", DeprecationWarning)
        answers: Any = admin.list_groups(name, timeout=REQUEST_SECONDS)
    if not answers or answers[0].error is not None:
        raise KafkaClientError(f"group {name} cannot be described: an assignment of a member cannot be read")
    found = answers[0]
    members = [
        GroupMember(each.id, "", each.client_id, each.client_host, parse_assignment(each.assignment or b""))
        for each in found.members
    ]
    members.sort(key=lambda member: (member.client_id, member.member_id))
    return GroupInfo(name, found.state, found.broker.id, found.protocol, members)


def read_commits(brokers: str, group: str) -> dict[Partition, int]:
    """Return the committed offsets of a group, in order; a group that does not exist has none.

    Kafka takes any number for an offset; one below 0 is nowhere to go on, and librdkafka's marks for such are -1 here.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions

    with kafka_client.one_line_errors(brokers):
        admin = kafka_client.new_admin(brokers)
        request = [ConsumerGroupTopicPartitions(group)]
        futures = admin.list_consumer_group_offsets(request, request_timeout=REQUEST_SECONDS)
        found = kafka_client.result_of(futures[group], brokers, 2 * REQUEST_SECONDS).topic_partitions or []
    for each in found:
        if each.error is not None:
            raise KafkaClientError(f"offset of {each.topic}-{each.partition}: {error_text(each.error)}")
    return dict(sorted(((each.topic, each.partition), max(-1, each.offset)) for each in found))


def write_commits(brokers: str, group: str, offsets: Mapping[Partition, int]) -> None:
    """Commit offsets for a group in which nobody is.

    Raises:
        KafkaClientError: Refused, in whole or for a partition, or no answer.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    with kafka_client.one_line_errors(brokers):
        admin = kafka_client.new_admin(brokers)
        request = [ConsumerGroupTopicPartitions(group, wanted)]
        futures = admin.alter_consumer_group_offsets(request, request_timeout=REQUEST_SECONDS)
        done = kafka_client.result_of(futures[group], brokers, 2 * REQUEST_SECONDS).topic_partitions or []
    for each in done:
        if each.error is not None:
            why = f"group {group}: {_refusal_text(each.error)}"
            raise KafkaClientError(f"the offset of {each.topic}-{each.partition} stays: {why}")


def delete_groups(brokers: str, names: Sequence[str]) -> dict[str, str]:
    """Delete groups and their commits; return why not, by the name of each one that stays.

    Raises:
        KafkaClientError: No answer.
    """
    from confluent_kafka import KafkaException

    refused = {}
    with kafka_client.one_line_errors(brokers):
        admin = kafka_client.new_admin(brokers)
        futures = admin.delete_consumer_groups(list(names), request_timeout=REQUEST_SECONDS)
        for name in names:
            try:
                kafka_client.result_of(futures[name], brokers, 2 * REQUEST_SECONDS)
            except KafkaException as error:
                if error.args[0].name() in kafka_client.UNREACHABLE:
                    raise
                refused[name] = _refusal_text(error.args[0])
    return refused


def _refusal_text(error: "KafkaError") -> str:
    # UNKNOWN_MEMBER_ID is Kafka's answer to a commit from outside while consumers are in the group.
    if error.name() in {"NON_EMPTY_GROUP", "UNKNOWN_MEMBER_ID"}:
        return f"it is in use: {_STOP_FIRST}"
    if error.name() == "GROUP_ID_NOT_FOUND":
        return "it does not exist (`raftka group list` shows the groups)"
    return error_text(error)


def _partial_list(failure: Any) -> Exception:
    """Return what to raise where a list of groups has this error beside it."""
    from confluent_kafka import KafkaError, KafkaException

    # Bare KafkaErrors, where confluent-kafka's documents have exceptions.
    error = failure if isinstance(failure, KafkaError) else next(iter(failure.args), None)
    if not isinstance(error, KafkaError):
        return KafkaClientError(f"not every broker lists its groups: {' '.join(str(failure).split())}")
    if error.name() in kafka_client.UNREACHABLE:
        # What that means is found out by whoever makes a line of it.
        return KafkaException(error)
    return KafkaClientError(f"not every broker lists its groups: {error_text(error)}")


def _owned(member: Any) -> list[Any]:
    return [] if member.assignment is None else member.assignment.topic_partitions or []


def _state(state: Any) -> str:
    return _STATES.get(state.name, "Unknown")
