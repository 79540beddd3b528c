"""Kafka's console and verifiable tools: codecs, acks, headers, nulls; times; a group and its coordinator's end."""

import re
from contextlib import ExitStack
from datetime import UTC, datetime

from tests.clients.client import ALL_ACKS, ALL_CODECS, SESSION_TIMEOUT_MS, Record
from tests.clients.kafka_tools import MARKS, Watched, run, watched
from tests.clients.referee import Referee
from tests.process.broker_processes import eventually

pytestmark = MARKS

PARTITIONS = 4
T0_MS = 1_700_000_000_000
STEP_MS = 1_000


def _properties(flag: str, **properties: str) -> list[str]:
    return [part for name, value in properties.items() for part in (flag, f"{name.replace('_', '.')}={value}")]


def test_a_console_producer_writes_every_codec_at_every_acks(tools_referee: Referee):
    topic = "tools.codecs"
    tools_referee.create_topic(topic)
    sent: list[str] = []
    for codec in ALL_CODECS:
        for acks in ALL_ACKS:
            more = [f"{codec}-{acks}-{number} " + "blah" * 20 for number in range(20)]
            how = ("--compression-codec", codec, *_properties("--command-property", acks=acks))
            run(tools_referee, "console-producer", "--topic", topic, *how, stdin="\n".join(more) + "\n")
            sent += more
            tools_referee.wait_visible(topic, len(sent))
    assert [record.value for record in tools_referee.read(topic, len(sent))] == sent


def test_headers_nulls_and_times_pass_through_the_console(tools_referee: Referee):
    topic = "tools.headers"
    tools_referee.create_topic(topic)
    lines = ["a:1,a:2\tkey\tvalue", "NONE\tkey\tNONE", "b:NONE\tNONE\tno key"]
    parsing = _properties("--reader-property", parse_key="true", parse_headers="true", null_marker="NONE")
    run(tools_referee, "console-producer", "--topic", topic, *parsing, stdin="\n".join(lines) + "\n")
    found = tools_referee.read(topic, len(lines))
    assert [record.content for record in found] == [
        ("key", "value", (("a", "1"), ("a", "2"))),
        ("key", None, ()),
        (None, "no key", (("b", None),)),
    ]
    shown = _properties("--formatter-property", print_key="true", print_headers="true", print_timestamp="true")
    read = run(tools_referee, "console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "3", *shown)
    assert read.splitlines() == [
        f"CreateTime:{found[0].timestamp}\ta:1,a:2\tkey\tvalue",
        f"CreateTime:{found[1].timestamp}\tNO_HEADERS\tkey\tnull",
        f"CreateTime:{found[2].timestamp}\tb:null\tnull\tno key",
    ]


def test_a_time_is_an_offset_for_the_tools(tools_referee: Referee):
    topic, group = "tools.times", "tools.times-group"
    tools_referee.create_topic(topic)
    written = [Record(None, str(number), timestamp=T0_MS + number * STEP_MS) for number in range(20)]
    tools_referee.write(topic, written, "none")

    def offset_at(moment: str) -> str:
        return run(tools_referee, "get-offsets", "--topic", topic, "--time", moment).strip()

    assert offset_at(str(T0_MS + 7 * STEP_MS - 1)) == f"{topic}:0:7"
    assert offset_at("max-timestamp") == f"{topic}:0:19"
    assert offset_at("earliest-local") == f"{topic}:0:0"
    for tier in ("latest-tiered", "earliest-pending-upload"):
        assert offset_at(tier) == ""  # Nothing is tiered.

    wanted = datetime.fromtimestamp((T0_MS + 12 * STEP_MS) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000")
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-datetime", f"{wanted}Z", "--execute")
    run(tools_referee, "consumer-groups", *reset)
    assert tools_referee.committed(group, topic) == {0: 12}


def test_what_the_tools_measure_with_comes_to_its_end(tools_referee: Referee):
    topic, count = "tools.perf", 2_000
    tools_referee.create_topic(topic)
    measured = ("--topic", topic, "--num-records", str(count))
    written = run(tools_referee, "producer-perf-test", *measured, "--record-size", "100", "--throughput", "-1")
    assert f"{count} records sent" in written
    tools_referee.wait_visible(topic, count)
    head, row = run(tools_referee, "consumer-perf-test", *measured).splitlines()
    found = dict(zip(head.split(", "), row.split(", "), strict=True))
    assert int(found["data.consumed.in.nMsg"]) == count


def _assigned(consumers: list[Watched]) -> list[set[int]]:
    """Return what each consumer was given last."""
    given = [consumer.told("partitions_assigned") for consumer in consumers]
    return [{each["partition"] for each in events[-1]["partitions"]} if events else set() for events in given]


def _read(consumers: list[Watched]) -> set[str]:
    return {record["value"] for consumer in consumers for record in consumer.told("record_data")}


def test_a_group_of_verifiable_consumers_outlives_its_coordinator(tools_referee: Referee):
    topic = "tools.coordinator"
    tools_referee.create_topic(topic, PARTITIONS)
    before, after = ([f"{name}-{number}" for number in range(40)] for name in ("before", "after"))
    tools_referee.fill(topic, before, PARTITIONS)
    consume = ("--topic", topic, "--group-id", topic, "--session-timeout", str(SESSION_TIMEOUT_MS), "--verbose")
    with ExitStack() as stack:
        start = ("verifiable-consumer", *consume)
        consumers = [stack.enter_context(watched(tools_referee, *start)) for _ in range(2)]
        eventually("half of the partitions each", lambda: [len(each) for each in _assigned(consumers)] == [2, 2])
        assert set.union(*_assigned(consumers)) == set(range(PARTITIONS))
        eventually("what was there before", lambda: _read(consumers) >= set(before))
        described = run(tools_referee, "consumer-groups", "--describe", "--group", topic, "--members", "--verbose")
        owned = re.findall(rf"{re.escape(topic)}:(\d(?:,\d)*)", described)
        assert sorted(number for each in owned for number in each.split(",")) == ["0", "1", "2", "3"]
        assert re.search(
            rf"^{re.escape(topic)}\s+Classic\s+consumer", run(tools_referee, "groups", "--list"), re.MULTILINE
        )

        victim = tools_referee.coordinator_of(topic)
        killing = tools_referee.killing(victim, lambda: tools_referee.coordinator_of(topic, other_than=victim))
        stack.callback(killing.finish)
        tools_referee.fill(topic, after, PARTITIONS)
        eventually("what came afterwards", lambda: _read(consumers) >= set(after))
        eventually("another coordinator", killing.is_replaced)
        everything = dict.fromkeys(range(PARTITIONS), (len(before) + len(after)) // PARTITIONS)
        eventually("all of it committed", lambda: tools_referee.committed(topic, topic) == everything)
