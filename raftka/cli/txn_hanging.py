"""`raftka txn find-hanging|abort`: transactions that no coordinator will end, and their end (KIP-664)."""

import re
import time
from typing import TYPE_CHECKING, Any

import click

from raftka.cli.completion import complete_topics
from raftka.cli.exit_codes import CommandError
from raftka.cli.lazy_group import Command
from raftka.cli.options import Format, brokers_option, chosen_partitions, dry_run_option, format_option
from raftka.cli.output import print_json, print_table
from raftka.cli.param_types import BoundedInt
from raftka.kafka import client as kafka_client
from raftka.kafka.client import ClusterInfo
from raftka.kafka.errors import KafkaClientError

if TYPE_CHECKING:
    from raftka.kafka.transactions import OpenTransaction
    from raftka.kafka.wire.transaction_requests import Partition

# Topics have no slash in their names.
_PARTITION = re.compile(r"([^/]{1,249})/(0|[1-9][0-9]{0,8})")
# The longest that a producer may ask for: the coordinator has ended everything older. And Kafka's default of it.
_LONGEST_KEY = "transaction.max.timeout.ms"
_LONGEST_MS = 900_000
# Kafka's clients write transactions to their partitions by way of their coordinators only.
_COORDINATORS_TOPIC = "__transaction_state"
_SHOWN_MAX = 3


@click.command("find-hanging", cls=Command)
@click.option(
    *("--topic", "-t"),
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Only partitions of this topic. [default: all topics]",
)
@click.option(
    "--broker", type=BoundedInt(0), metavar="N", help="Only partitions that this broker leads. [default: all brokers]"
)
@click.option(
    *("--max-transaction-timeout", "minutes"),
    type=BoundedInt(0, 2**31 - 1),
    metavar="MINUTES",
    help="Pass over transactions whose last record is younger than that; 0: over none, also if its time is ahead."
    f" [default: {_LONGEST_KEY} of the cluster]",
)
@brokers_option
@format_option
def find_hanging(topic: str | None, broker: int | None, minutes: int | None, brokers: str, output: Format) -> None:
    """Find transactions that are open in a partition and that no coordinator will end.

    Readers at read_committed wait at such a transaction for ever. `raftka txn abort` ends it. The transaction of a
    producer that only takes long does not hang: its coordinator aborts it after the producer's timeout. Exit with 1 if
    a partition could not be asked.
    """
    # Imported here, for the sake of `--help`.
    from raftka.kafka import transactions

    cluster = kafka_client.read_cluster(brokers)
    told = transactions.open_transactions(cluster, _partitions(cluster, topic, broker))
    longest_ms = _longest_ms(brokers, cluster) if minutes is None else minutes * 60_000
    oldest_ms = time.time_ns() // 1_000_000 - longest_ms
    suspects = [each for each in told.found if longest_ms == 0 or each.producer.last_timestamp <= oldest_ms]
    found = transactions.hanging_among(cluster, suspects)
    if output is Format.JSON:
        print_json([_row(each) for each in found])
    elif found:
        print_table(
            ["PARTITION", "PRODUCER-ID", "EPOCH", "START-OFFSET", "IDLE", "TRANSACTIONAL-ID"],
            [
                (
                    *(_name(each.partition), each.producer.producer_id, each.producer.epoch),
                    *(each.producer.start_offset, _idle(each.producer.last_timestamp), each.transactional_id or "-"),
                )
                for each in found
            ],
        )
    elif not told.untold:
        print("no transaction hangs")
    if told.untold:
        shown = [f"{_name(where)}: {why}" for where, why in sorted(told.untold.items())]
        more = f"; and {len(shown) - _SHOWN_MAX} more" if len(shown) > _SHOWN_MAX else ""
        raise CommandError(f"not every partition tells its transactions: {'; '.join(shown[:_SHOWN_MAX])}{more}")


def _longest_ms(brokers: str, cluster: ClusterInfo) -> int:
    """Return how long a transaction may be open, as a broker of the cluster says; Kafka's default if it does not."""
    try:
        configured = kafka_client.read_broker_config(brokers, min(cluster.brokers)).get(_LONGEST_KEY, "")
    except KafkaClientError:
        configured = ""
    return int(configured) if configured.isdecimal() else _LONGEST_MS


def _given_partition(_: click.Context, __: click.Parameter, text: str) -> "Partition":
    parts = _PARTITION.fullmatch(text)
    if parts is None:
        raise click.BadParameter(f"{text!r} is not TOPIC/PARTITION, as in orders/0")
    return parts[1], int(parts[2])


@click.command(cls=Command)
@click.argument(
    "partition", metavar="TOPIC/PARTITION", callback=_given_partition, help="Partition in which the transaction hangs."
)
@click.option("--producer-id", type=BoundedInt(0, 2**63 - 1), metavar="P", help="Producer of the transaction.")
@click.option(
    "--start-offset",
    type=BoundedInt(0, 2**63 - 1),
    metavar="O",
    help="Offset at which the transaction begins in the partition.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Abort it also if its coordinator has it. If its producer commits later, readers see a part of it only.",
)
@dry_run_option
@brokers_option
@format_option
def abort(
    partition: "Partition",
    producer_id: int | None,
    start_offset: int | None,
    force: bool,
    dry_run: bool,
    brokers: str,
    output: Format,
) -> None:
    """Abort a transaction that hangs in a partition: its records there are never shown at read_committed.

    `raftka txn find-hanging` finds such transactions. Name the transaction by its producer, its start offset, or both.
    """
    if producer_id is None and start_offset is None:
        raise click.BadParameter("name the transaction by --producer-id or --start-offset")
    # Imported here, for the sake of `--help`.
    from raftka.kafka import transactions

    cluster = kafka_client.read_cluster(brokers)
    chosen_partitions(partition[0], cluster.topic(partition[0]), [partition[1]])
    told = transactions.open_transactions(cluster, [partition])
    for why in told.untold.values():
        raise CommandError(f"{_name(partition)} does not tell its transactions: {why}")
    found = [
        each
        for each in told.found
        if producer_id in (None, each.producer.producer_id) and start_offset in (None, each.producer.start_offset)
    ]
    if not found:
        raise CommandError(f"{_name(partition)} has no open transaction{_of(producer_id, start_offset)}")
    (transaction,) = found
    holder = "" if force else transactions.holder_of(cluster, transaction)
    if holder:
        raise CommandError(
            f"{_name(partition)}: the transaction does not hang: transactional id {holder!r} has it open, and its"
            f" coordinator ends it after the timeout at the latest (`raftka txn describe` shows it; --force aborts it"
            " all the same)"
        )
    if not dry_run:
        transactions.abort(cluster, transaction)
    if output is Format.JSON:
        print_json(_row(transaction) | {"changed": not dry_run})
        return
    producer = transaction.producer
    what = f"of producer {producer.producer_id}, epoch {producer.epoch}, from offset {producer.start_offset}"
    print(f"{_name(partition)}: {'would abort' if dry_run else 'aborted'} the transaction {what}")
    if dry_run:
        print("nothing is changed (--dry-run)")


def _partitions(cluster: ClusterInfo, topic: str | None, broker: int | None) -> "list[Partition]":
    if broker is not None and broker not in cluster.brokers:
        raise CommandError(f"broker {broker} is not in the cluster; brokers: {', '.join(map(str, cluster.brokers))}")
    topics = cluster.topics if topic is None else {topic: cluster.topic(topic)}
    return [
        (name, each.partition)
        for name, found in topics.items()
        for each in found
        if name != _COORDINATORS_TOPIC and broker in (None, each.leader)
    ]


def _row(transaction: "OpenTransaction") -> dict[str, Any]:
    producer = transaction.producer
    return {
        "topic": transaction.partition[0],
        "partition": transaction.partition[1],
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "start_offset": producer.start_offset,
        "last_timestamp_ms": producer.last_timestamp if producer.last_timestamp >= 0 else None,
        "coordinator_epoch": producer.coordinator_epoch if producer.coordinator_epoch >= 0 else None,
        "transactional_id": transaction.transactional_id or None,
    }


def _name(partition: "Partition") -> str:
    return f"{partition[0]}/{partition[1]}"


def _idle(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "-"
    return f"{max(0, round(time.time() - timestamp_ms / 1000))} s"


def _of(producer_id: int | None, start_offset: int | None) -> str:
    producer = "" if producer_id is None else f" of producer {producer_id}"
    return producer + ("" if start_offset is None else f" that begins at offset {start_offset}")
