"""Transactions of any Kafka, for the command line: ids at their coordinators, and what hangs in partitions (KIP-664).

By the wire client: librdkafka has no such requests.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from raftka.kafka import client as kafka_client
from raftka.kafka.client import REQUEST_SECONDS, ClusterInfo, error_text
from raftka.kafka.errors import KafkaClientError
from raftka.kafka.features import read_features
from raftka.kafka.one_broker import ask
from raftka.kafka.wire.transaction_requests import (
    ActiveProducer,
    Coordinator,
    DescribedTransaction,
    ListedTransaction,
    Partition,
    PartitionProducers,
    describe_producers,
    describe_transactions,
    find_coordinator,
    list_transactions,
    write_abort_marker,
)

T = TypeVar("T")

NOT_FOUND = 105
_NOT_AUTHORIZED = 53
_INVALID_REQUEST = 42
_INVALID_TXN_STATE, _INVALID_PRODUCER_EPOCH, _NOT_LEADER = 48, 47, 6
# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: soon there is one that answers.
_COORDINATOR_MOVES = frozenset({14, 15, 16})
_PAUSE_SECONDS = 0.2
# Of one question to a leader: the answer names every producer of each.
_PARTITIONS_AT_ONCE = 200
_FEATURE = "transaction.version"
_OURS = "raftka."


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """What a producer has open in a partition; `transactional_id` is empty if no coordinator knows the producer."""

    partition: Partition
    leader: int
    producer: ActiveProducer
    transactional_id: str = ""


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """Open transactions of partitions, and why a partition did not tell, by partition."""

    found: Sequence[OpenTransaction]
    untold: Mapping[Partition, str]


def list_all(
    cluster: ClusterInfo, states: Sequence[str] = (), producer_ids: Sequence[int] = ()
) -> list[tuple[int, ListedTransaction]]:
    """Return (coordinator, transactional id) in the order of ids; filters that are empty let all through.

    Raises:
        KafkaClientError: A broker did not tell: a list with holes would look like ids that are gone.
    """
    found: list[tuple[int, ListedTransaction]] = []
    for node, address in cluster.brokers.items():
        request = list_transactions(states, producer_ids)
        answer = _until_coordinated(lambda: ask(node, address, request), lambda each: each.error)  # noqa: B023
        if answer.error == _INVALID_REQUEST:
            raise KafkaClientError(f"broker {node} has more transactional ids than it lists at once: ask for fewer")
        if answer.error:
            raise KafkaClientError(f"broker {node} does not list its transactional ids: {words_of(answer.error)}")
        if answer.unknown_states:
            raise KafkaClientError(f"broker {node} knows no state {', '.join(answer.unknown_states)}")
        found += [(node, each) for each in answer.transactions]
    return sorted(found, key=lambda each: each[1].transactional_id)


def describe(cluster: ClusterInfo, transactional_id: str) -> tuple[int, DescribedTransaction]:
    """Return the coordinator of a transactional id, and what it tells; the error is 0 or NOT_FOUND.

    Raises:
        KafkaClientError: Refused, or no answer.
    """

    def call() -> tuple[Coordinator, DescribedTransaction | None]:
        node, address = next(iter(cluster.brokers.items()))
        coordinator = ask(node, address, find_coordinator(transactional_id))
        if coordinator.error:
            return coordinator, None
        (found,) = ask(coordinator.node_id, coordinator.address, describe_transactions([transactional_id]))
        return coordinator, found

    coordinator, found = _until_coordinated(call, lambda each: each[0].error or (each[1].error if each[1] else 0))
    if coordinator.error == _NOT_AUTHORIZED:
        raise KafkaClientError(no_transactions(cluster) or words_of(coordinator.error))
    if found is None or found.error not in (0, NOT_FOUND):
        code = coordinator.error if found is None else found.error
        raise KafkaClientError(f"transactional id {transactional_id!r}: {words_of(code)}")
    return coordinator.node_id, found


def no_transactions(cluster: ClusterInfo) -> str:
    """Return why a Raftka cluster refuses every transactional id, with the cure; empty: that is not the cause.

    A Kafka that refuses an id has an access-control list that does so.
    """
    features = [read_features(node, address) for node, address in cluster.brokers.items()]
    if not all(any(name.startswith(_OURS) for name in each.offered) for each in features):
        return ""
    if any(each.levels.get(_FEATURE, 0) for each in features):
        return ""
    highest = min(each.offered.get(_FEATURE, (0, 0))[1] for each in features)
    if highest:
        return (
            f"this cluster does not use transactions yet ({_FEATURE} is at level 0): `raftka cluster features upgrade"
            f" {_FEATURE}={highest}` turns them on"
        )
    return f"this cluster has no transactions: its brokers do not offer the feature {_FEATURE}"


def open_transactions(cluster: ClusterInfo, partitions: Sequence[Partition]) -> OpenTransactions:
    """Return what producers have open in partitions, as their leaders tell.

    Raises:
        KafkaClientError: A leader does not answer.
    """
    leaders = {(topic, each.partition): each.leader for topic, found in cluster.topics.items() for each in found}
    by_leader: dict[int, list[Partition]] = {}
    untold: dict[Partition, str] = {}
    for where in partitions:
        if leaders[where] in cluster.brokers:
            by_leader.setdefault(leaders[where], []).append(where)
        else:
            untold[where] = "nobody leads it"
    found = []
    for leader, led in sorted(by_leader.items()):
        for some in _in_parts(led):
            answer = ask(leader, cluster.brokers[leader], describe_producers(some), REQUEST_SECONDS)
            untold |= {where: _told(each) for where, each in answer.items() if each.error}
            found += [
                OpenTransaction(where, leader, producer)
                for where, each in sorted(answer.items())
                for producer in each.producers
                if producer.start_offset >= 0
            ]
    return OpenTransactions(sorted(found, key=lambda each: (each.partition, each.producer.start_offset)), untold)


def hanging_among(cluster: ClusterInfo, suspects: Sequence[OpenTransaction]) -> list[OpenTransaction]:
    """Return those that no coordinator will end, with the transactional ids of their producers.

    A transaction may end while coordinators are asked. So the partitions are asked again afterwards: a transaction
    hangs only if its coordinator did not have it, and it is open still.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    if not suspects:
        return []
    orphans = [each for each, is_coordinated in _with_coordinators(cluster, suspects) if not is_coordinated]
    again = open_transactions(cluster, list(dict.fromkeys(each.partition for each in orphans)))
    still = {(each.partition, each.producer.producer_id, each.producer.start_offset) for each in again.found}
    return [
        each for each in orphans if (each.partition, each.producer.producer_id, each.producer.start_offset) in still
    ]


def holder_of(cluster: ClusterInfo, transaction: OpenTransaction) -> str:
    """Return the transactional id whose coordinator still has this transaction, and will end it; empty: none.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    ((found, is_coordinated),) = _with_coordinators(cluster, [transaction])
    return found.transactional_id if is_coordinated else ""


def abort(cluster: ClusterInfo, transaction: OpenTransaction) -> None:
    """Have the leader write an ABORT marker, which ends exactly this transaction in its partition.

    Raises:
        UnansweredError: It may be written.
        KafkaClientError: Refused, or no answer.
    """
    producer, where = transaction.producer, transaction.partition
    request = write_abort_marker(where, producer.producer_id, producer.epoch, max(0, producer.coordinator_epoch))
    answer = ask(transaction.leader, cluster.brokers[transaction.leader], request, REQUEST_SECONDS)
    code = answer.get(where, -1)
    name = f"{where[0]}/{where[1]}"
    if code in (_INVALID_TXN_STATE, _INVALID_PRODUCER_EPOCH):
        raise KafkaClientError(f"{name}: the transaction of producer {producer.producer_id} has just ended")
    if code == _NOT_LEADER:
        raise KafkaClientError(f"{name}: broker {transaction.leader} does not lead it any more; try again")
    if code:
        raise KafkaClientError(f"{name}: {words_of(code)}")


def words_of(code: int) -> str:
    """Return the words of an error code."""
    from confluent_kafka import KafkaError

    return error_text(KafkaError(code))


def _with_coordinators(
    cluster: ClusterInfo, transactions: Sequence[OpenTransaction]
) -> Iterator[tuple[OpenTransaction, bool]]:
    """Yield each with its transactional id, and whether the coordinator of the id has the partition in it."""
    producer_ids = sorted({each.producer.producer_id for each in transactions})
    listed = {each.producer_id: each.transactional_id for _, each in list_all(cluster, producer_ids=producer_ids)}
    known = {name: describe(cluster, name)[1] for name in sorted(set(listed.values()))}
    for each in transactions:
        name = listed.get(each.producer.producer_id, "")
        told = known.get(name)
        is_same = told is not None and not told.error and told.producer_id == each.producer.producer_id
        found = OpenTransaction(each.partition, each.leader, each.producer, name)
        yield found, bool(is_same and told is not None and each.partition in told.partitions)


def _told(answer: PartitionProducers) -> str:
    return answer.message or words_of(answer.error)


def _in_parts(partitions: Sequence[Partition]) -> Iterator[Sequence[Partition]]:
    for first in range(0, len(partitions), _PARTITIONS_AT_ONCE):
        yield partitions[first : first + _PARTITIONS_AT_ONCE]


def _until_coordinated(call: Callable[[], T], code_of: Callable[[T], int]) -> T:
    """Return the first answer that is not of a coordinator that moves or starts, or the last one in time."""
    deadline = time.monotonic() + kafka_client.REQUEST_SECONDS
    while True:
        answer = call()
        if code_of(answer) not in _COORDINATOR_MOVES or time.monotonic() >= deadline:
            return answer
        time.sleep(_PAUSE_SECONDS)
