"""kafka-transactions where the cluster has transactions: they are listed, described, aborted and terminated."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from tests.clients.client import DEADLINE_SECONDS
from tests.clients.kafka_tools import MARKS, refused, run
from tests.clients.referee import Referee
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import BrokerCluster, eventually
from tests.process.committed_records import END, read_committed

pytestmark = MARKS


@pytest.fixture
def tools(transactional: BrokerCluster) -> Referee:
    """Return the referee for the tools; what they send there is not recorded."""
    return Referee(transactional)


def _opened(tools: Referee, name: str) -> Producer:
    """Return a producer that has committed a record to a topic of its name, and has one more in an open transaction."""
    tools.create_topic(name)
    config = {"bootstrap.servers": tools.cluster.bootstrap, "transactional.id": name, "logger": quiet_logger()}
    producer = Producer(config)
    producer.init_transactions(DEADLINE_SECONDS)
    for value, commits in (("one", True), ("two", False)):
        producer.begin_transaction()
        producer.produce(name, value, partition=0)
        assert producer.flush(DEADLINE_SECONDS) == 0
        if commits:
            producer.commit_transaction(DEADLINE_SECONDS)
    return producer


def _rows(tools: Referee, *arguments: str) -> Iterator[dict[str, str]]:
    """Yield what a table of the tool says, row by row, by the words of its head."""
    head, *lines = [line.split() for line in run(tools, "transactions", *arguments).splitlines()]
    for line in lines:
        yield dict(zip(head, line, strict=False))


def _state(tools: Referee, name: str) -> str:
    return next(row["TransactionState"] for row in _rows(tools, "list") if row["TransactionalId"] == name)


def test_a_transaction_is_listed_described_and_aborted_where_it_begins(tools: Referee) -> None:
    name = "tools.open"
    producer = _opened(tools, name)
    (listed,) = [row for row in _rows(tools, "list") if row["TransactionalId"] == name]
    assert listed["TransactionState"] == "Ongoing"
    assert int(listed["Coordinator"]) == tools.transaction_coordinator_of(name)
    (described,) = _rows(tools, "describe", "--transactional-id", name)
    told = (described["ProducerId"], described["TransactionState"], described["TopicPartitions"])
    assert told == (listed["ProducerId"], "Ongoing", f"{name}-0")

    place = ("--topic", name, "--partition", "0")
    (open_one,) = _rows(tools, "describe-producers", *place)
    # Offset 1 has the marker of the first transaction.
    assert (open_one["ProducerId"], open_one["CurrentTransactionStartOffset"]) == (listed["ProducerId"], "2")
    # Its coordinator has it, so it does not hang.
    assert list(_rows(tools, "find-hanging", *place, "--max-transaction-timeout", "0")) == []

    assert "offset 1" in refused(tools, "transactions", "abort", *place, "--start-offset", "1")
    run(tools, "transactions", "abort", *place, "--start-offset", "2")
    (closed,) = _rows(tools, "describe-producers", *place)
    assert closed["CurrentTransactionStartOffset"] == "None"
    tools.fill(name, [END], 1)
    assert read_committed(tools.cluster.bootstrap, name, 0) == ["one", END]
    producer.abort_transaction(DEADLINE_SECONDS)


def test_a_transaction_is_terminated_by_its_transactional_id(tools: Referee) -> None:
    name = "tools.terminated"
    producer = _opened(tools, name)
    run(tools, "transactions", "forceTerminateTransaction", "--transactionalId", name)
    eventually("the abort is complete", lambda: _state(tools, name) == "CompleteAbort")
    with pytest.raises(KafkaException):
        producer.commit_transaction(DEADLINE_SECONDS)
    tools.fill(name, [END], 1)
    assert read_committed(tools.cluster.bootstrap, name, 0) == ["one", END]


def test_a_transactional_id_that_nobody_has_used_is_unknown(tools: Referee) -> None:
    said = refused(tools, "transactions", "describe", "--transactional-id", "nobody")
    assert "TransactionalIdNotFoundException" in said
