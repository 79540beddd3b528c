"""`raftka partition list` and `elect-preferred`, without any broker."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from raftka.admin_client import AdminError
from raftka.cli import partition_leaders, partition_rows
from raftka.cli.admin_verbs import VerbRefusedError
from raftka.cli.partition_rows import merged
from raftka.cli.root import run
from raftka.kafka import client as kafka_client
from raftka.kafka import elections
from raftka.kafka import offsets as kafka_offsets
from raftka.kafka.client import ClusterInfo, PartitionInfo
from raftka.kafka.elections import Election
from raftka.kafka.errors import UnansweredError
from raftka.kafka.wire.election_requests import ElectionResult, elect_preferred_leaders
from raftka.kafka.wire.fields import Reader, array, i8, i16, i32, string
from raftka.partition_health import PartitionHealth, partition_health

CLUSTER = ClusterInfo(
    "c",
    1,
    {1: "127.0.0.1:1", 2: "127.0.0.1:2"},
    {
        "orders": [PartitionInfo(0, 1, [1, 2, 3], [1, 2]), PartitionInfo(1, -1, [3], [])],
        "payments": [PartitionInfo(0, 2, [2, 1, 3], [1, 2, 3])],
    },
)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what says what brokers answer: configurations by node, pages of admin ports by address, ends."""
    monkeypatch.setattr(kafka_client, "read_cluster", lambda *_: CLUSTER)

    def say(configs: dict[int, dict[str, str]], pages: dict[str, Any], ends: dict[tuple[str, int], int]) -> None:
        def config(_: str, node: int, __: float) -> dict[str, str]:
            if node not in configs:
                raise UnansweredError("no answer")
            return configs[node]

        def page(address: str, path: str, _: float) -> tuple[int, Any]:
            if address not in pages:
                raise AdminError("no answer")
            return (200, {"partitions": pages[address]}) if path == "/v1/partitions" else (404, {"error": "no page"})

        monkeypatch.setattr(kafka_client, "read_broker_config", config)
        monkeypatch.setattr(kafka_client, "read_topic_config", lambda *_: {"min.insync.replicas": "3"})
        monkeypatch.setattr(partition_rows, "get_json", page)
        monkeypatch.setattr(
            kafka_offsets, "known_ends", lambda _, wanted: {each: ends[each] for each in wanted if each in ends}
        )

    return say


def row(topic: str, partition: int, leader: int, term: int, **rest: Any) -> dict[str, Any]:
    found = {"topic": topic, "partition": partition, "leader": leader, "term": term, "replicas": [1, 2, 3]}
    return found | {"in_sync": [1, 2, 3], "min_isr": 2, "status": "ok", "leo": None, "hw": None} | rest


@pytest.mark.parametrize(
    ("leader", "replicas", "in_sync", "needed", "status"),
    [
        (1, [1, 2, 3], [1, 2, 3], 2, PartitionHealth.OK),
        (1, [1, 2, 3], [1, 2], 2, PartitionHealth.UNDER_REPLICATED),
        (1, [1, 2, 3], [1], 2, PartitionHealth.UNDER_MIN_ISR),
        (1, [1, 2, 3], [1], None, PartitionHealth.UNDER_REPLICATED),
        (1, [1], [1], 2, PartitionHealth.OK),
        (1, [1, 2], [1], 3, PartitionHealth.UNDER_MIN_ISR),
        (-1, [1, 2, 3], [], 2, PartitionHealth.OFFLINE),
        (-1, [1, 2, 3], [1, 2, 3], 2, PartitionHealth.OFFLINE),
    ],
)
def test_the_worst_that_is_true_of_a_partition_is_its_status(
    leader: int, replicas: list[int], in_sync: list[int], needed: int | None, status: PartitionHealth
) -> None:
    assert partition_health(leader, replicas, in_sync, needed) is status


def test_of_what_brokers_tell_the_newest_term_counts_and_in_it_the_leader() -> None:
    deposed = row("t", 0, 1, 4, leo=90, hw=80)
    told = [deposed, row("t", 0, 2, 5), row("t", 0, 2, 5, leo=70, hw=60), row("t", 0, 2, 5, in_sync=[1])]
    (found,) = merged(told)
    assert (found.leader, found.term, found.log_end, found.high_watermark) == (2, 5, 70, 60)


def test_admin_ports_tell_everything_of_which_each_knows_a_part(
    known: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    configs = {node: {"admin.advertised.listener": f"http://admin:{node}"} for node in (1, 2)}
    offline = row("orders", 1, -1, 3, replicas=[3], in_sync=[], status="offline")
    lagging = row("orders", 0, 1, 2, in_sync=[1, 2], status="under-replicated")
    pages = {
        "admin:1": [lagging | {"leo": 12, "hw": 10}, offline, row("payments", 0, 2, 7)],
        "admin:2": [lagging, offline, row("payments", 0, 2, 7, leo=0, hw=0, replicas=[2, 1, 3])],
    }
    known(configs, pages, {})
    assert run(["partition", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "TOPIC     PARTITION  LEADER  REPLICAS  IN-SYNC  STATUS            LEO  HW",
        "orders            0       1  1,2,3     1,2      under-replicated   12  10",
        "orders            1       -  3         -        offline             -   -",
        "payments          0       2  2,1,3     1,2,3    ok                  0   0",
    ]


def test_the_end_of_a_partition_whose_leader_has_no_admin_port_is_asked_for(known: Callable[..., None]) -> None:
    known(
        {1: {"admin.advertised.listener": "http://admin:1"}},
        {"admin:1": [row("payments", 0, 2, 7)]},
        {("payments", 0): 5},
    )
    (found,) = partition_rows.read_rows("b", None)
    assert (found.log_end, found.high_watermark) == (None, 5)


@pytest.mark.parametrize("configs", [{}, {1: {}, 2: {}}, {1: {"admin.advertised.listener": "http://admin:9"}}])
def test_any_kafka_tells_all_but_the_end_of_the_log(
    known: Callable[..., None], configs: dict[int, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    known(configs, {}, {("orders", 0): 10})
    assert run(["partition", "list", "-f", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["status"], each["leo"], each["hw"]) for each in found] == [
        ("under-min-isr", None, 10),
        ("offline", None, None),
        ("ok", None, None),
    ]
    assert run(["partition", "list", "order"]) == 1
    assert capsys.readouterr().err == "raftka: no topic 'order': did you mean orders?\n"


@pytest.mark.parametrize("arguments", [[], ["orders", "0", "--all"]])
def test_an_election_needs_a_topic_or_all(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["partition", "elect-preferred", *arguments]) == 64
    assert "use either TOPIC [PARTITION]... or --all" in capsys.readouterr().err


def test_each_election_has_its_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Any] = []
    done = {
        ("orders", 0): Election(False, ""),
        ("orders", 1): Election(True, "the preferred replica, on node 3, is not in sync"),
        ("payments", 0): Election(True, ""),
    }

    def elect(_: str, __: ClusterInfo, partitions: list[tuple[str, int]] | None) -> dict[tuple[str, int], Election]:
        asked.append(partitions)
        return {where: each for where, each in done.items() if partitions is None or where in partitions}

    monkeypatch.setattr(kafka_client, "read_cluster", lambda *_: CLUSTER)
    monkeypatch.setattr(partition_leaders, "try_change", lambda *_: None)
    monkeypatch.setattr(elections, "elect_preferred", elect)
    assert run(["partition", "elect-preferred", "orders"]) == 1
    shown = capsys.readouterr()
    assert shown.out == "orders-0: node 1, the preferred replica, leads already\n"
    assert shown.err == "raftka: orders-1: node 3 does not lead: the preferred replica, on node 3, is not in sync\n"
    del done["orders", 0], done["orders", 1]
    assert run(["partition", "elect-preferred", "--all"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "payments-0: leader is node 2, was node 2",
        "the other 2 partitions are led by their preferred replicas already",
    ]
    assert run(["partition", "elect-preferred", "payments", "0", "-f", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["preferred"], found["elected"], found["error"]) == (2, True, None)
    assert asked == [[("orders", 0), ("orders", 1)], None, [("payments", 0)]]
    assert run(["partition", "elect-preferred", "orders", "7"]) == 1
    assert "topic orders has partitions 0 to 1, not 7" in capsys.readouterr().err


def test_a_dry_run_of_elections_tells_what_metadata_says_where_no_broker_takes_the_verb(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = {**CLUSTER.topics, "audit": [PartitionInfo(0, 3, [1, 3], [1, 3])]}
    monkeypatch.setattr(kafka_client, "read_cluster", lambda *_: replace(CLUSTER, topics=topics))
    monkeypatch.setattr(partition_leaders, "try_change", lambda *_: None)
    monkeypatch.setattr(elections, "elect_preferred", lambda *_: pytest.fail("nothing may be elected"))
    assert run(["partition", "elect-preferred", "--all", "--dry-run"]) == 1
    shown = capsys.readouterr()
    assert shown.err == "raftka: orders-1: node 3 would not lead: nobody leads, who could hand over\n"
    assert shown.out.splitlines() == [
        "audit-0: leader would be node 1, is node 3",
        "the other 2 partitions are led by their preferred replicas already",
        "nothing is changed (--dry-run)",
    ]
    assert run(["partition", "elect-preferred", "orders", "0", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "orders-0: node 1, the preferred replica, leads already",
        "nothing is changed (--dry-run)",
    ]


def test_elections_are_asked_for_by_the_verb_where_a_broker_takes_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []
    done = {"topic": "payments", "partition": 0, "preferred": 2, "leader_before": 3, "leader": 2}
    refused = {**done, "leader": 3, "error": "PREFERRED_LEADER_NOT_AVAILABLE", "message": "it is not in sync"}
    answers: list[Any] = [
        {"dry_run": True, "waits_for": "", "partitions": [{**done, "error": None, "message": None}]},
        {"dry_run": False, "waits_for": "news", "partitions": [{**done, "error": None, "message": None}]},
        VerbRefusedError("it is not in sync", {"error": "PREFERRED_LEADER_NOT_AVAILABLE", "partitions": [refused]}),
    ]

    def ask(_: str, path: str, document: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert seconds > document.pop("timeout")
        asked.append((path, document))
        answer = answers.pop(0)
        if isinstance(answer, VerbRefusedError):
            raise answer
        found: dict[str, Any] = answer
        return found

    monkeypatch.setattr(kafka_client, "read_cluster", lambda *_: CLUSTER)
    monkeypatch.setattr(partition_leaders, "try_change", ask)
    assert run(["partition", "elect-preferred", "--all", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "payments-0: leader would be node 2, is node 3",
        "the other 2 partitions are led by their preferred replicas already",
        "nothing is changed (--dry-run)",
    ]
    assert run(["partition", "elect-preferred", "payments"]) == 0
    assert capsys.readouterr() == ("payments-0: leader is node 2, was node 3\n", "raftka: waits for news\n")
    assert run(["partition", "elect-preferred", "payments", "-f", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["elected"], found["leader_before"], found["error"]) == (False, 3, "it is not in sync")
    named = [{"topic": "payments", "partition": 0}]
    assert asked == [
        ("/v1/partitions/elect-preferred", {"partitions": [], "all": True, "dry_run": True}),
        *[("/v1/partitions/elect-preferred", {"partitions": named, "all": False, "dry_run": False})] * 2,
    ]


@pytest.mark.parametrize(
    ("arguments", "answer", "code", "out", "err"),
    [
        (
            *(["--target", "2", "--dry-run"], (200, {"leader_before": 1, "leader": 2, "term": 3}), 0),
            *("orders-0: leader would be node 2, is node 1\nnothing is changed (--dry-run)\n", ""),
        ),
        (
            *(["--dry-run"], (409, {"error": "node 2 lacks 7 entries"}), 1, ""),
            "raftka: orders-0: node 1 would stay the leader: node 2 lacks 7 entries\n",
        ),
        (["--target", "1"], (200, {"leader_before": 1, "leader": 1}), 0, "orders-0: node 1 leads already\n", ""),
        (["--target", "2"], (200, {"leader": 2}), 0, "orders-0: leader is node 2, was node 1\n", ""),
        ([], (504, {"error": "late"}), 1, "", "raftka: orders-0: node 1 is still the leader: late\n"),
    ],
)
def test_a_transfer_tells_who_leads_or_would(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    arguments: list[str],
    answer: tuple[int, Any],
    code: int,
    out: str,
    err: str,
) -> None:
    asked: list[str] = []

    def post(_: str, path: str, **__: Any) -> tuple[int, Any]:
        asked.append(path)
        return answer

    monkeypatch.setattr(kafka_client, "read_cluster", lambda *_: CLUSTER)
    monkeypatch.setattr(kafka_client, "read_broker_config", lambda *_: {"admin.advertised.listener": "http://a:1"})
    monkeypatch.setattr(partition_leaders, "request_json", post)
    assert run(["partition", "transfer-leadership", "orders", "0", *arguments]) == code
    assert capsys.readouterr() == (out, err)
    (path,) = asked
    assert ("target=" in path, "dry_run=true" in path) == ("--target" in arguments, "--dry-run" in arguments)


def test_elections_are_read_with_the_text_of_the_broker() -> None:
    request = elect_preferred_leaders([("a", 0), ("b", 1), ("a", 2)], 1_000)
    named = array([string("a") + array([i32(0), i32(2)]), string("b") + array([i32(1)])])
    assert request.body == i8(0) + named + i32(1_000)
    partition = i32(2) + i16(80) + string("not in sync")
    answer = i32(0) + i16(0) + array([string("a") + array([i32(0) + i16(0) + string(None), partition])])
    assert request.read(Reader(answer)).results == [
        ElectionResult("a", 0, 0, ""),
        ElectionResult("a", 2, 80, "not in sync"),
    ]
    assert elections._election(ElectionResult("a", 2, 80, "not in sync")) == Election(True, "not in sync")
    assert elections._election(ElectionResult("a", 2, 84, "")) == Election(False, "")
    assert elections._election(ElectionResult("a", 2, 80, "")).refusal != ""
