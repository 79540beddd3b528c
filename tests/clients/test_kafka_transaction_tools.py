"""kafka-transactions where the cluster has transactions: they are listed, described, aborted and terminated."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from tests.clients.client import DEADLINE_SECONDS
from tests.clients.kafka_tools import MARKS, refused, run
from tests.clients.referee import Referee
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import eventually

pytestmark = MARKS


def _opened(transaction_tools: Referee, name: str) -> Producer:
    """Return a producer that has committed a record to a topic of its name, and has one more in an open transaction."""
    transaction_tools.create_topic(name)
    # The tools start a JVM each: on a busy machine a minute is over before the last one has looked.
    lasting = {"transactional.id": name, "transaction.timeout.ms": 600_000}
    config = {"bootstrap.servers": transaction_tools.cluster.bootstrap, "logger": quiet_logger(), **lasting}
    with transaction_tools.unseen():
        producer = Producer(config)
        producer.init_transactions(DEADLINE_SECONDS)
        for value, commits in (("one", True), ("two", False)):
            producer.begin_transaction()
            producer.produce(name, value, partition=0)
            assert producer.flush(DEADLINE_SECONDS) == 0
            if commits:
                producer.commit_transaction(DEADLINE_SECONDS)
    return producer


def _rows(transaction_tools: Referee, *arguments: str) -> Iterator[dict[str, str]]:
    """Yield what a table of the tool says, row by row, by the words of its head."""
    head, *lines = [line.split() for line in run(transaction_tools, "transactions", *arguments).splitlines()]
    for line in lines:
        yield dict(zip(head, line, strict=False))


def _state(transaction_tools: Referee, name: str) -> str:
    return next(row["TransactionState"] for row in _rows(transaction_tools, "list") if row["TransactionalId"] == name)


def test_a_transaction_is_listed_described_and_aborted_where_it_begins(transaction_tools: Referee) -> None:
    name = "tools.open"
    producer = _opened(transaction_tools, name)
    (listed,) = [row for row in _rows(transaction_tools, "list") if row["TransactionalId"] == name]
    assert listed["TransactionState"] == "Ongoing"
    assert int(listed["Coordinator"]) == transaction_tools.transaction_coordinator_of(name)
    (described,) = _rows(transaction_tools, "describe", "--transactional-id", name)
    told = (described["ProducerId"], described["TransactionState"], described["TopicPartitions"])
    assert told == (listed["ProducerId"], "Ongoing", f"{name}-0")

    place = ("--topic", name, "--partition", "0")
    (open_one,) = _rows(transaction_tools, "describe-producers", *place)
    # Offset 1 has the marker of the first transaction.
    assert (open_one["ProducerId"], open_one["CurrentTransactionStartOffset"]) == (listed["ProducerId"], "2")
    # Its coordinator has it, so it does not hang.
    assert list(_rows(transaction_tools, "find-hanging", *place, "--max-transaction-timeout", "0")) == []

    assert "offset 1" in refused(transaction_tools, "transactions", "abort", *place, "--start-offset", "1")
    run(transaction_tools, "transactions", "abort", *place, "--start-offset", "2")
    (closed,) = _rows(transaction_tools, "describe-producers", *place)
    assert closed["CurrentTransactionStartOffset"] == "None"
    assert transaction_tools.read_committed(name) == ["one"]
    with transaction_tools.unseen():
        producer.abort_transaction(DEADLINE_SECONDS)


def test_a_transaction_is_terminated_by_its_transactional_id(transaction_tools: Referee) -> None:
    name = "tools.terminated"
    producer = _opened(transaction_tools, name)
    run(transaction_tools, "transactions", "forceTerminateTransaction", "--transactionalId", name)
    # The tool asks for an epoch of its own, which it gets once the abort is complete.
    eventually("the abort is complete", lambda: _state(transaction_tools, name) == "Empty")
    with pytest.raises(KafkaException), transaction_tools.unseen():
        producer.commit_transaction(DEADLINE_SECONDS)
    assert transaction_tools.read_committed(name) == ["one"]


def test_a_transactional_id_that_nobody_has_used_is_unknown(transaction_tools: Referee) -> None:
    said = refused(transaction_tools, "transactions", "describe", "--transactional-id", "nobody")
    assert "the ID could not be found" in said
