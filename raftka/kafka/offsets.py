"""Offsets of partitions of any Kafka, for the command line: where they begin and end, what lies at a time."""

from collections.abc import Iterable, Mapping
from typing import Any

from raftka.kafka import client as kafka_client
from raftka.kafka.client import CAUSED_BY_BROKERS, REQUEST_SECONDS, error_text
from raftka.kafka.errors import KafkaClientError
from raftka.kafka.groups import Partition


def first_offsets(brokers: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Return the first offset that each partition still has.

    Raises:
        KafkaClientError: One of them does not tell.
    """
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    return _look_up(brokers, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def end_offsets(brokers: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Return the offset behind the last record of each partition.

    Raises:
        KafkaClientError: One of them does not tell.
    """
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    return _look_up(brokers, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def known_ends(brokers: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Return what `end_offsets` returns, without the partitions that do not tell."""
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    try:
        return _look_up(brokers, partitions, OffsetSpec.latest(), is_partial=True)  # type: ignore[no-untyped-call]
    except KafkaClientError:
        return {}


def offsets_at(brokers: str, partitions: Iterable[Partition], timestamp: int) -> dict[Partition, int]:
    """Return the first offset whose record has this timestamp (ms) or a later one; the end where there is none.

    Raises:
        KafkaClientError: One of them does not tell.
    """
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    found = _look_up(brokers, partitions, OffsetSpec.for_timestamp(timestamp))
    later = [partition for partition, offset in found.items() if offset < 0]
    return found | end_offsets(brokers, later)


def delete_records(brokers: str, before: Mapping[Partition, int]) -> dict[Partition, int]:
    """Delete the records below an offset of each partition; return where the partitions begin afterwards.

    Raises:
        KafkaClientError: Refused, or no answer; other partitions may have been trimmed.
    """
    from confluent_kafka import KafkaException, TopicPartition

    wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in before.items()]
    done = {}
    with kafka_client.one_line_errors(brokers):
        admin = kafka_client.new_admin(brokers)
        futures = admin.delete_records(wanted, request_timeout=REQUEST_SECONDS, operation_timeout=REQUEST_SECONDS)
        for where, future in futures.items():
            try:
                done[where.topic, where.partition] = kafka_client.result_of(
                    future, brokers, 2 * REQUEST_SECONDS
                ).low_watermark
            except KafkaException as error:
                raise _partition_error(brokers, (where.topic, where.partition), error) from None
    return dict(sorted(done.items()))


def _look_up(
    brokers: str, partitions: Iterable[Partition], spec: Any, *, is_partial: bool = False
) -> dict[Partition, int]:
    from confluent_kafka import KafkaException, TopicPartition

    wanted = {TopicPartition(*partition): spec for partition in partitions}
    if not wanted:
        return {}
    found = {}
    with kafka_client.one_line_errors(brokers):
        admin = kafka_client.new_admin(brokers)
        for where, future in admin.list_offsets(wanted, request_timeout=REQUEST_SECONDS).items():
            try:
                found[where.topic, where.partition] = kafka_client.result_of(
                    future, brokers, 2 * REQUEST_SECONDS
                ).offset
            except KafkaException as error:
                if not is_partial:
                    raise _partition_error(brokers, (where.topic, where.partition), error) from None
    return dict(sorted(found.items()))


def _partition_error(brokers: str, partition: Partition, error: Any) -> KafkaClientError:
    """Return what to say; raises NoQuorumError if that is the cause."""
    cause, hint = error.args[0], ""
    if cause.name() in CAUSED_BY_BROKERS:
        kafka_client.check_quorum(brokers)
        hint = " (`raftka cluster health` tells more)"
    return KafkaClientError(f"partition {partition[0]}-{partition[1]}: {error_text(cause)}{hint}")
