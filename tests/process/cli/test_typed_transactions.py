"""`raftka consume --read-committed` and `raftka txn` on brokers that have transactions."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.process.acked_log import quiet_logger
from tests.process.command_line import DevFolder, dev_with_transactions

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevFolder]:
    """One broker with the topic `orders`."""
    with dev_with_transactions(tmp_path_factory.mktemp("dev") / "dev") as folder:
        folder.client("topic", "create", "orders", "-p", "1")
        yield folder


@pytest.fixture(scope="module")
def producer(dev: DevFolder) -> Producer:
    """A producer that has committed `one`, aborted `two`, and has a transaction with `three` open."""
    found = Producer({"bootstrap.servers": dev.bootstrap, "transactional.id": "sink", "logger": quiet_logger()})
    found.init_transactions(60)
    for value, end in (("one", found.commit_transaction), ("two", found.abort_transaction)):
        found.begin_transaction()
        found.produce("orders", value)
        found.flush(60)
        end(60)
    found.begin_transaction()
    found.produce("orders", "three")
    found.flush(60)
    return found


def test_records_of_committed_transactions_are_told_from_others(dev: DevFolder, producer: Producer) -> None:
    assert dev.client("consume", "orders", "-e").stdout.split() == ["one", "two", "three"]
    for group in ([], ["-g", "readers"]):
        shown = dev.client("consume", "orders", "-e", "--read-committed", *group).stdout.split()
        assert shown[0] == "one"
        assert "three" not in shown, "its transaction is open"


def test_records_of_aborted_transactions_are_left_out(dev: DevFolder, producer: Producer) -> None:
    assert dev.client("consume", "orders", "-e", "--read-committed").stdout.split() == ["one"]


def test_a_transaction_is_listed_described_and_aborted(dev: DevFolder, producer: Producer) -> None:
    (listed,) = json.loads(dev.client("txn", "list", "--state", "Ongoing", "-f", "json").stdout)
    assert (listed["transactional_id"], listed["state"], listed["coordinator"]) == ("sink", "Ongoing", 1)
    found = json.loads(dev.client("txn", "describe", "sink", "-f", "json").stdout)
    assert found["partitions"] == [{"topic": "orders", "partition": 0}]
    # Its coordinator has it, so it does not hang.
    hanging = dev.client("txn", "find-hanging", "--max-transaction-timeout", "0")
    assert hanging.stdout == "no transaction hangs\n"
    named = ("txn", "abort", "orders/0", "--producer-id", str(found["producer_id"]))
    assert "transactional id 'sink' has it open" in dev.client(*named, code=1).stderr
    assert "nothing is changed" in dev.client(*named, "--force", "--dry-run").stdout
    assert "aborted the transaction of producer" in dev.client(*named, "--force").stdout
    assert "has no open transaction" in dev.client(*named, code=1).stderr
    assert "no transactional id" in dev.client("txn", "describe", "nobody", code=1).stderr
