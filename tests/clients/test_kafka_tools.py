"""Kafka's own tools: topics, records, offsets, groups, and what a killed leader leaves of them."""

import json
from functools import partial

import pytest

from tests.clients.client import DEADLINE_SECONDS
from tests.clients.kafka_tools import MARKS, events, run, running
from tests.clients.referee import Referee
from tests.process.broker_processes import eventually

pytestmark = MARKS


def test_topics_and_their_configuration_are_administered(tools_referee: Referee):
    topic = "tools.topics"
    create = ("--create", "--topic", topic, "--partitions", "2", "--replication-factor", "3")
    run(tools_referee, "topics", *create, "--config", "retention.ms=86400000")
    assert topic in run(tools_referee, "topics", "--list").split()
    eventually("leaders", lambda: "Leader: none" not in run(tools_referee, "topics", "--describe", "--topic", topic))
    described = run(tools_referee, "topics", "--describe", "--topic", topic)
    assert "PartitionCount: 2\tReplicationFactor: 3" in described
    assert "retention.ms=86400000" in described

    run(tools_referee, "topics", "--alter", "--topic", topic, "--partitions", "3")
    assert "PartitionCount: 3" in run(tools_referee, "topics", "--describe", "--topic", topic)

    entity = ("--entity-type", "topics", "--entity-name", topic)
    run(tools_referee, "configs", *entity, "--alter", "--add-config", "retention.ms=3600000,segment.bytes=1048576")
    shown = run(tools_referee, "configs", *entity, "--describe")
    assert "retention.ms=3600000" in shown
    assert "segment.bytes=1048576" in shown
    run(tools_referee, "configs", *entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in run(tools_referee, "configs", *entity, "--describe")
    broker = run(tools_referee, "configs", "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
    assert "log.retention.ms=" in broker

    run(tools_referee, "topics", "--delete", "--topic", topic)
    eventually("no such topic", lambda: tools_referee.partitions_of(topic) is None)


def test_a_console_producer_and_a_console_consumer_in_a_group(tools_referee: Referee):
    topic, group, count = "tools.console", "tools.console-readers", 30
    tools_referee.create_topic(topic)
    sent = [f"key-{number}:value-{number}" for number in range(count)]
    parsing = [part for each in ("parse.key=true", "key.separator=:") for part in ("--reader-property", each)]
    properties = ("--command-property", "compression.type=zstd")
    run(tools_referee, "console-producer", "--topic", topic, *properties, *parsing, stdin="\n".join(sent) + "\n")
    showing = [part for each in ("print.key=true", "key.separator=:") for part in ("--formatter-property", each)]
    first = ("--topic", topic, "--group", group, "--from-beginning", *showing)
    assert run(tools_referee, "console-consumer", *first, "--max-messages", str(count)).splitlines() == sent

    run(tools_referee, "console-producer", "--topic", topic, stdin="later\n")
    assert (
        run(tools_referee, "console-consumer", "--topic", topic, "--group", group, "--max-messages", "1") == "later\n"
    )
    by_hand = ("--topic", topic, "--partition", "0", "--offset", "28", "--max-messages", "3")
    assert run(tools_referee, "console-consumer", *by_hand).splitlines() == ["value-28", "value-29", "later"]


def test_offsets_are_looked_up_and_records_deleted(tools_referee: Referee, tmp_path_factory: pytest.TempPathFactory):
    topic = "tools.offsets"
    tools_referee.create_topic(topic)
    tools_referee.fill(topic, [str(number) for number in range(20)], 1)
    assert run(tools_referee, "get-offsets", "--topic", topic, "--time", "latest").strip() == f"{topic}:0:20"
    wanted = tmp_path_factory.mktemp("tools") / "delete.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 5}]}))
    assert "low_watermark: 5" in run(tools_referee, "delete-records", "--offset-json-file", str(wanted))
    assert run(tools_referee, "get-offsets", "--topic", topic, "--time", "earliest").strip() == f"{topic}:0:5"


def test_groups_are_administered(tools_referee: Referee):
    topic, group = "tools.groups", "tools.group"
    tools_referee.create_topic(topic)
    tools_referee.fill(topic, [str(number) for number in range(20)], 1)
    consume = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "20")
    run(tools_referee, "console-consumer", *consume)
    assert group in run(tools_referee, "consumer-groups", "--list").split()
    eventually(
        "an empty group",
        lambda: "Empty" in run(tools_referee, "consumer-groups", "--describe", "--group", group, "--state"),
    )
    assert _offsets(tools_referee, group) == {topic: ("20", "20", "0")}
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "7", "--execute")
    run(tools_referee, "consumer-groups", *reset)
    assert _offsets(tools_referee, group) == {topic: ("7", "20", "13")}
    run(tools_referee, "consumer-groups", "--delete-offsets", "--group", group, "--topic", topic)
    run(tools_referee, "consumer-groups", "--delete", "--group", group)
    assert group not in run(tools_referee, "consumer-groups", "--list").split()


def _offsets(referee: Referee, group: str) -> dict[str, tuple[str, str, str]]:
    """Return of each topic of a group: committed, end, lag."""
    shown = run(referee, "consumer-groups", "--describe", "--group", group)
    rows = [line.split() for line in shown.splitlines() if line.startswith(group)]
    return {row[1]: (row[3], row[4], row[5]) for row in rows}


def _produce_while_the_leader_dies(referee: Referee, topic: str, count: int) -> tuple[dict[int, str], set[str]]:
    """Return what was promised, by offset, and what was sent and not promised: the tool does not try again."""
    victim = referee.leader_of(topic)
    acked: dict[int, str] = {}
    failed: set[str] = set()
    killing = None
    produce = ("--topic", topic, "--max-messages", str(count), "--throughput", "400", "--acks", "-1")
    with running(referee, "verifiable-producer", *produce) as producer:
        try:
            for event in events(producer):
                if event["name"] == "producer_send_success":
                    acked[event["offset"]] = event["value"]
                elif event["name"] == "producer_send_error":
                    failed.add(event["value"])
                if len(acked) == 200 and killing is None:
                    replaced = partial(referee.cluster.leader_of, topic, 0, other_than=victim)
                    killing = referee.killing(victim, replaced)
            producer.wait(DEADLINE_SECONDS)
        finally:
            if killing is not None:
                killing.finish()
    assert len(acked) + len(failed) == count
    assert len(acked) > 400, "nearly nothing was promised: the test shows nothing"
    return acked, failed


def test_what_a_verifiable_producer_was_promised_a_verifiable_consumer_reads(tools_referee: Referee):
    topic = "tools.verifiable"
    tools_referee.create_topic(topic)
    acked, failed = _produce_while_the_leader_dies(tools_referee, topic, count=2_000)
    found = [str(record.value) for record in tools_referee.read(topic, len(acked))]
    assert {offset: found[offset] for offset in acked} == acked
    assert len(found) == len(set(found))
    assert set(found) <= {*acked.values(), *failed}

    count = str(len(found))
    consume = (
        "--topic",
        topic,
        "--group-id",
        topic,
        "--max-messages",
        count,
        "--verbose",
        "--reset-policy",
        "earliest",
    )
    with running(tools_referee, "verifiable-consumer", *consume) as consumer:
        seen = list(events(consumer))
    assert [event["value"] for event in seen if event["name"] == "record_data"] == found
    assert tools_referee.committed(topic, topic) == {0: len(found)}
