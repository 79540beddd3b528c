"""Telemetry of real brokers: every replica tells each second where it stands, also over the death of a leader."""

import itertools
import json
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from tests.process.acked_log import LoadProducer, new_consumer
from tests.process.broker_processes import ClusterMaker, eventually
from tests.process.kafka_topics import create_topic, topics_at, wait_topic_everywhere

pytestmark = pytest.mark.process

TOPIC = "orders"
TELEMETRY = "__raftka_telemetry"
# Clocks are read one after the other: a process that is held up between two reads is no gap.
CLOCK_SLACK_MS = 1_000

Record = dict[str, Any]


class TelemetryReader:
    """All records of the topic, in the order of each partition."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = new_consumer(bootstrap)
        self._consumer.assign([TopicPartition(TELEMETRY, number, 0) for number in range(3)])
        self.messages: list[Message] = []
        self.records: list[Record] = []

    def wait_for(self, what: str, wanted: Callable[[Record], bool], *, behind: int = 0) -> Record:
        """Read on until a record behind the first `behind` ones is wanted, and return it."""
        seen = behind

        def look() -> Record | None:
            nonlocal seen
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self.messages.append(message)
                    self.records.append(json.loads(message.value()))
            for record in self.records[seen:]:
                seen += 1
                if wanted(record):
                    return record
            return None

        return eventually(lambda: f"{what}; the last of {len(self.records)} is {self.records[-1:]}", look)

    def close(self) -> None:
        self._consumer.close()


def test_every_replica_tells_where_it_stands_also_over_the_death_of_a_leader(make_cluster: ClusterMaker):
    cluster = make_cluster(3, **{"telemetry.enable": True})
    cluster.start()
    create_topic(cluster, TOPIC)
    eventually("the topic of telemetry", lambda: TELEMETRY in topics_at(cluster[1].kafka))
    wait_topic_everywhere(cluster, TELEMETRY)
    with ExitStack() as stack:
        reader = TelemetryReader(cluster.bootstrap)
        stack.callback(reader.close)
        loads = [
            stack.enter_context(LoadProducer(cluster.bootstrap, TOPIC, f"acks {acks}", acks=acks))
            for acks in ("all", 1)
        ]
        for load in loads:
            load.wait_acked(200)
        for node in cluster.brokers:
            reader.wait_for(f"replica {node} beside its peers", lambda record, node=node: is_of(record, node))
        first = reader.wait_for("both levels at the leader", tells_both_levels)
        assert first["fsync"]["n"] > 0
        assert first["in_sync"] == first["voters"] == [1, 2, 3]
        assert (first["in_sync_min"], first["min_in_sync"], first["replicate_failed"]) == (3, 1, None)
        assert first["appended"]["leader"]["data"]["entries"] > 0
        assert first["apply"]["data"]["n"] > 0
        assert sorted(first["followers"]) == sorted(str(node) for node in (1, 2, 3) if node != first["broker"])

        old = first["broker"]
        cluster[old].kill()
        new = reader.wait_for(
            "a leader in office of a later term",
            lambda record: is_of(record) and record["in_office"] and record["term"] > first["term"],
            behind=reader.records.index(first),
        )
        assert new["broker"] != old
        for load in loads:
            load.wait_acked(100)
        reader.wait_for(
            "progress under the new leader",
            lambda record: is_of(record, new["broker"]) and record["commit"] > new["commit"],
            behind=reader.records.index(new),
        )
        for load in loads:
            load.finish()
    check_messages(reader)
    check_lives(reader.records)
    assert published(cluster[new["broker"]].admin) > 0


def is_of(record: Record, broker: int | None = None) -> bool:
    return (record["topic"], record["partition"]) == (TOPIC, 0) and broker in (None, record["broker"])


def tells_both_levels(record: Record) -> bool:
    """Whether a leader that knows both followers has answered at both levels in its interval."""
    replicate = record["replicate"]
    is_whole = record["followers"] is not None and len(record["followers"]) == 2 and len(record["in_sync"]) == 3
    return (
        is_of(record) and is_whole and None not in (replicate["quorum_ack"], replicate["leader_ack"], record["fsync"])
    )


def check_messages(reader: TelemetryReader) -> None:
    """Keys, places and times: the replicas of a partition are together, and told of in order."""
    places = defaultdict(set)
    for message, record in zip(reader.messages, reader.records, strict=True):
        assert message.key().decode() == f"{record['topic']}-{record['partition']}"
        assert message.timestamp()[1] == record["at"]
        places[message.key()].add(message.partition())
    assert all(len(partitions) == 1 for partitions in places.values())
    replicas = {(record["topic"], record["partition"], record["broker"]) for record in reader.records}
    told = {(TOPIC, 0), *((TELEMETRY, number) for number in range(3))}
    # The consumer has had the topic of groups made meanwhile.
    assert replicas >= {(*partition, broker) for partition in told for broker in (1, 2, 3)}


def check_lives(records: list[Record]) -> None:
    """What each replica said in one life of its broker fits together, and leaves out no second."""
    lives = defaultdict(list)
    for record in records:
        lives[(record["topic"], record["partition"], record["broker"], record["boot"])].append(record)
        assert 0 <= record["log_start"] <= record["commit"] <= record["flushed"] <= record["dirty"]
        assert record["commit"] <= record["visible"] <= record["dirty"]
        assert (record["role"] == "leader") == (record["leader"] == record["broker"])
        others = (record["replicate_other"] or {}).values()
        applies = (record["apply"] or {}).values()
        by_kind = [durations for each in others for durations in each.values()]
        for durations in (*record["replicate"].values(), record["fsync"], *by_kind, *applies):
            check_durations(durations)
        assert 0 <= record["unapplied"] <= record["entries"]
        check_appended(record)
    for life in lives.values():
        for before, after in itertools.pairwise(life):
            assert before["term"] <= after["term"]
            assert before["commit"] <= after["commit"]
            # A batch whose answer was lost is told again, word for word.
            assert before == after or 0 < after["at"] - before["at"] <= after["interval_ms"] + CLOCK_SLACK_MS


def check_appended(record: Record) -> None:
    for by_kind in (record["appended"] or {}).values():
        for kind, written in by_kind.items():
            assert kind in ("data", "barrier", "log_start")
            assert written["entries"] > 0
            assert written["bytes_max"] <= written["bytes"] <= written["entries"] * written["bytes_max"]


def check_durations(durations: dict[str, Any] | None) -> None:
    if durations is not None:
        bounds = [bound for bound, _ in durations["buckets"]]
        assert bounds == sorted(set(bounds))
        assert durations["n"] == sum(count for _, count in durations["buckets"]) > 0
        assert bounds[-1] >= durations["max_us"] > 0
        assert durations["max_us"] <= durations["sum_us"] <= durations["n"] * durations["max_us"]


def published(admin: str) -> float:
    """Return how many records a broker says that it has published."""
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("raftka_telemetry_records_published_total")))
