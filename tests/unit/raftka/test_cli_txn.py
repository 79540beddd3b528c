"""`raftka txn`, with doubles of the brokers: what is asked, what is shown, and what is refused."""

import json
import time

import pytest

from kafka_api.protocol.api_keys import ApiKey
from raftka.cli.exit_codes import USAGE
from raftka.cli.root import run
from raftka.kafka import client as kafka_client
from raftka.kafka import features, transactions
from tests.unit.raftka.transaction_brokers import CLUSTER, Held, Open, TransactionBrokers

ORDERS_0, ORDERS_1 = ("orders", 0), ("orders", 1)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> TransactionBrokers:
    """Two brokers, of which the second one coordinates all ids; nobody leads `payments`."""
    found = TransactionBrokers()
    monkeypatch.setattr(kafka_client, "read_cluster", lambda *_: CLUSTER)
    monkeypatch.setattr(transactions, "ask", found.ask)
    monkeypatch.setattr(features, "ask", found.ask)
    monkeypatch.setattr(transactions, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(kafka_client, "read_broker_config", lambda *_: found.config)
    found.held = {
        "sink-2": Held("Ongoing", 12, [ORDERS_0, ORDERS_1], started_ms=time.time_ns() // 1_000_000),
        # Brokers keep the start of a transaction that has ended.
        "sink-1": Held("CompleteCommit", 11, started_ms=1_000),
    }
    return found


def said(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    out, err = capsys.readouterr()
    return out.splitlines(), err


def test_ids_are_listed_in_their_order_with_their_coordinators(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["txn", "list"]) == 0
    assert said(capsys)[0] == [
        "TRANSACTIONAL-ID  COORDINATOR  PRODUCER-ID  STATE",
        "sink-1                      2           11  CompleteCommit",
        "sink-2                      2           12  Ongoing",
    ]
    assert run(["txn", "list", "-f", "json", "--state", "Ongoing", "--producer-id", "12"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"transactional_id": "sink-2", "coordinator": 2, "producer_id": 12, "state": "Ongoing"}
    ]
    assert run(["txn", "list", "-f", "json", "--producer-id", "13"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_coordinator_that_loads_is_asked_again(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    brokers.errors = {ApiKey.LIST_TRANSACTIONS: [14, 16], ApiKey.FIND_COORDINATOR: [15]}
    assert run(["txn", "list"]) == 0
    assert run(["txn", "describe", "sink-1"]) == 0
    assert brokers.errors == {ApiKey.LIST_TRANSACTIONS: [], ApiKey.FIND_COORDINATOR: []}
    assert said(capsys)[1] == ""


@pytest.mark.parametrize(
    ("errors", "arguments", "words"),
    [
        ([42], [], "broker 1 has more transactional ids than it lists at once: ask for fewer"),
        ([29], [], "broker 1 does not list its transactional ids: Topic authorization failed"),
        ([], ["--state", "PrepareEpochFence"], "broker 1 knows no state PrepareEpochFence"),
    ],
)
def test_a_list_with_holes_is_none(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str], errors: list[int], arguments: list[str], words: str
) -> None:
    brokers.errors = {ApiKey.LIST_TRANSACTIONS: errors}
    assert run(["txn", "list", *arguments]) == 1
    assert said(capsys) == ([], f"raftka: {words}\n")


def test_an_id_is_described_with_what_its_transaction_has_written_to(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["txn", "describe", "sink-2"]) == 0
    lines, _ = said(capsys)
    assert [line for line in lines if not line.startswith("begun:")] == [
        "transactional id: sink-2",
        "coordinator:      2",
        "state:            Ongoing",
        "producer:         12, epoch 5",
        "timeout:          60 s",
        "partitions:       2 partitions",
        "",
        "TOPIC   PARTITION",
        "orders          0",
        "orders          1",
    ]
    assert any(line.startswith("begun:            0.") and line.endswith(" s ago") for line in lines)
    assert run(["txn", "describe", "sink-1", "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "transactional_id": "sink-1",
        "coordinator": 2,
        "state": "CompleteCommit",
        "producer_id": 11,
        "producer_epoch": 5,
        "timeout_ms": 60_000,
        "started_ms": None,
        "partitions": [],
    }


def test_an_id_that_no_coordinator_has_is_refused(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["txn", "describe", "nobody"]) == 1
    words = "raftka: no transactional id 'nobody' (`raftka txn list` shows which there are)\n"
    assert said(capsys) == ([], words)


@pytest.mark.parametrize(
    ("offered", "levels", "words"),
    [
        (
            *({"raftka.membership": (0, 1), "transaction.version": (0, 2)}, {"raftka.membership": 1}),
            "this cluster does not use transactions yet (transaction.version is at level 0): `raftka cluster features ",
        ),
        (
            *({"raftka.membership": (0, 1)}, {}),
            "this cluster has no transactions: its brokers do not offer the feature transaction.version",
        ),
        # The id is refused, and no level changes that.
        ({"raftka.membership": (0, 1), "transaction.version": (0, 2)}, {"transaction.version": 2}, "Transactional Id"),
        ({"transaction.version": (0, 2)}, {}, "Transactional Id authorization failed"),
    ],
)
def test_a_cluster_that_refuses_every_id_is_told_from_one_that_refuses_this_one(
    brokers: TransactionBrokers,
    capsys: pytest.CaptureFixture[str],
    offered: dict[str, tuple[int, int]],
    levels: dict[str, int],
    words: str,
) -> None:
    brokers.errors = {ApiKey.FIND_COORDINATOR: [53]}
    brokers.offered, brokers.levels = offered, levels
    assert run(["txn", "describe", "sink-1"]) == 1
    assert said(capsys)[1].startswith(f"raftka: {words}")


def hang(brokers: TransactionBrokers) -> None:
    """Let four transactions be open: two that hang, one whose coordinator has it, one that has just begun."""
    now = time.time_ns() // 1_000_000
    brokers.producers = {
        # The coordinator of this producer's id has another transaction, without the partition.
        ORDERS_0: [Open(11, 700, coordinator_epoch=3), Open(12, 800)],
        ORDERS_1: [Open(13, 40), Open(14, 60, last_timestamp=now)],
    }


def test_a_transaction_hangs_if_its_coordinator_does_not_have_it(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    hang(brokers)
    assert run(["txn", "find-hanging", "--topic", "orders"]) == 0
    lines, _ = said(capsys)
    assert [" ".join(line.split()[:4] + line.split()[-1:]) for line in lines] == [
        "PARTITION PRODUCER-ID EPOCH START-OFFSET TRANSACTIONAL-ID",
        "orders/0 11 5 700 sink-1",
        "orders/1 13 5 40 -",
    ]
    assert run(["txn", "find-hanging", "--broker", "2", "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "topic": "orders",
            "partition": 1,
            "producer_id": 13,
            "producer_epoch": 5,
            "start_offset": 40,
            "last_timestamp_ms": 1_000,
            "coordinator_epoch": None,
            "transactional_id": None,
        }
    ]
    assert run(["txn", "find-hanging", "--topic", "orders", "--max-transaction-timeout", "0", "-f", "json"]) == 0
    assert [each["producer_id"] for each in json.loads(capsys.readouterr().out)] == [11, 13, 14]


def test_by_default_a_transaction_is_passed_over_while_its_producer_may_still_end_it(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    now = time.time_ns() // 1_000_000
    brokers.producers = {ORDERS_0: [Open(11, 700, last_timestamp=now - 40_000)]}

    def hanging(*options: str) -> list[int]:
        assert run(["txn", "find-hanging", "--topic", "orders", "-f", "json", *options]) == 0
        return [each["producer_id"] for each in json.loads(capsys.readouterr().out)]

    assert hanging() == []
    brokers.config = {"transaction.max.timeout.ms": "30000"}
    assert hanging() == [11]
    # Timestamps are the producers': one may be ahead of every clock.
    brokers.producers = {ORDERS_0: [Open(11, 700, last_timestamp=now + 3_000_000)]}
    assert hanging() == []
    assert hanging("--max-transaction-timeout", "0") == [11]


def test_a_transaction_that_ends_while_coordinators_are_asked_does_not_hang(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    hang(brokers)
    brokers.ends_meanwhile = {11, 13}
    assert run(["txn", "find-hanging", "--topic", "orders"]) == 0
    assert said(capsys) == (["no transaction hangs"], "")


def test_a_partition_that_does_not_tell_is_named(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    hang(brokers)
    brokers.errors = {ApiKey.DESCRIBE_PRODUCERS: [6]}
    assert run(["txn", "find-hanging"]) == 1
    lines, words = said(capsys)
    assert [line.split()[0] for line in lines] == ["PARTITION", "orders/1"]
    assert words.startswith("raftka: not every partition tells its transactions: orders/0: ")
    assert words.endswith("; payments/0: nobody leads it\n")
    assert run(["txn", "find-hanging", "--broker", "7"]) == 1
    assert said(capsys)[1] == "raftka: broker 7 is not in the cluster; brokers: 1, 2\n"


def test_a_hanging_transaction_is_aborted_with_the_epochs_that_its_partition_tells(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    hang(brokers)
    assert run(["txn", "abort", "orders/0", "--producer-id", "11", "--dry-run"]) == 0
    assert said(capsys)[0] == [
        "orders/0: would abort the transaction of producer 11, epoch 5, from offset 700",
        "nothing is changed (--dry-run)",
    ]
    assert brokers.markers == []
    assert run(["txn", "abort", "orders/0", "--producer-id", "11"]) == 0
    assert said(capsys)[0] == ["orders/0: aborted the transaction of producer 11, epoch 5, from offset 700"]
    assert run(["txn", "abort", "orders/1", "--start-offset", "40", "-f", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["producer_id"], found["changed"]) == (13, True)
    assert brokers.markers == [(ORDERS_0, 11, 5, 3), (ORDERS_1, 13, 5, 0)]


def test_a_transaction_that_does_not_hang_is_aborted_by_force_only(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    hang(brokers)
    assert run(["txn", "abort", "orders/0", "--producer-id", "12"]) == 1
    words = said(capsys)[1]
    assert words.startswith("raftka: orders/0: the transaction does not hang: transactional id 'sink-2' has it open")
    assert brokers.markers == []
    assert run(["txn", "abort", "orders/0", "--producer-id", "12", "--force"]) == 0
    assert brokers.markers == [(ORDERS_0, 12, 5, 0)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["orders/0", "--producer-id", "13"], "orders/0 has no open transaction of producer 13"),
        (["orders/0", "--start-offset", "40"], "orders/0 has no open transaction that begins at offset 40"),
        (
            ["orders/0", "--producer-id", "11", "--start-offset", "800"],
            "orders/0 has no open transaction of producer 11 that begins at offset 800",
        ),
        (["orders/2", "--producer-id", "13"], "topic orders has partitions 0 to 1, not 2"),
        (["payments/0", "--producer-id", "13"], "payments/0 does not tell its transactions: nobody leads it"),
    ],
)
def test_an_abort_that_names_nothing_open_is_refused(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    hang(brokers)
    assert run(["txn", "abort", *arguments]) == 1
    assert said(capsys) == ([], f"raftka: {words}\n")
    assert brokers.markers == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (48, "orders/1: the transaction of producer 13 has just ended"),
        (47, "orders/1: the transaction of producer 13 has just ended"),
        (6, "orders/1: broker 2 does not lead it any more; try again"),
        (7, "orders/1: Request timed out"),
    ],
)
def test_a_marker_that_is_refused_is_told_in_words(
    brokers: TransactionBrokers, capsys: pytest.CaptureFixture[str], code: int, words: str
) -> None:
    hang(brokers)
    brokers.errors = {ApiKey.WRITE_TXN_MARKERS: [code]}
    assert run(["txn", "abort", "orders/1", "--producer-id", "13"]) == 1
    assert said(capsys) == ([], f"raftka: {words}\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "--state", "Open"], "'Open' is not one of"),
        (["list", "--producer-id", "-1"], "must be at least 0"),
        (["describe", ""], "a transactional id must not be empty"),
        (["describe", "x" * 32_768], "a transactional id has at most 32767 bytes"),
        (["abort", "orders/0"], "name the transaction by --producer-id or --start-offset"),
        (["abort", "orders", "--producer-id", "1"], "'orders' is not TOPIC/PARTITION, as in orders/0"),
        (["abort", "--producer-id", "1"], "Missing argument"),
        (["find-hanging", "--max-transaction-timeout", "-1"], "must be at least 0"),
    ],
)
def test_what_is_typed_wrongly_is_refused_before_any_broker_is_asked(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["txn", *arguments]) == USAGE
    assert words in capsys.readouterr().err


def test_many_partitions_of_a_leader_are_asked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "_PARTITIONS_AT_ONCE", 1)
    found = TransactionBrokers()
    monkeypatch.setattr(transactions, "ask", found.ask)
    other = ("__transaction_state", 0)
    found.producers = {other: [Open(12, 800)], ORDERS_1: [Open(13, 40)]}
    told = transactions.open_transactions(CLUSTER, [ORDERS_1, other])
    assert [(each.partition, each.leader) for each in told.found] == [(other, 2), (ORDERS_1, 2)]
