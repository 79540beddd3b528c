"""Archives of Apache Kafka's logs, which have what Raftka's have not: transactions, and compaction."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from raftka.kafka import client as kafka_client
from raftka.kafka import offsets as kafka_offsets
from raftka.pipeline.archive.findings import render
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.gaps import Gaps
from raftka.pipeline.archive.verification import Wanted, verify
from tests.pipeline.pipelines import run
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, eventually

pytestmark = pytest.mark.long

COMPACTED, MOVED = "compacted", "moved"
KEYS, ROUNDS, ABORTED = 20, 10, 7


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three brokers with a log that was compacted, and one with transactions."""
    from benchmarks.kafka.kafka_cluster import running_kafka

    with running_kafka(tmp_path_factory.mktemp("kafka")) as kafka:
        write_transactions(kafka.bootstrap)
        write_compacted(kafka.bootstrap)
        yield kafka.bootstrap


def producer(bootstrap: str, **options: object) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "logger": quiet_logger(), "acks": "all"} | options)


def write_transactions(bootstrap: str) -> None:
    """Write 5 records that are committed, 7 that are aborted, 3 that are committed, and 2 without a transaction."""
    kafka_client.create_topic(bootstrap, MOVED, 1, 3)
    mover = producer(bootstrap, **{"transactional.id": "mover"})
    mover.init_transactions(DEADLINE_SECONDS)
    for count, is_kept in ((5, True), (ABORTED, False), (3, True)):
        mover.begin_transaction()
        for number in range(count):
            mover.produce(MOVED, b"value %d" % number)
        # What is not sent is not in the log, aborted or not.
        assert mover.flush(DEADLINE_SECONDS) == 0
        if is_kept:
            mover.commit_transaction(DEADLINE_SECONDS)
        else:
            mover.abort_transaction(DEADLINE_SECONDS)
    plain = producer(bootstrap)
    for _ in range(2):
        plain.produce(MOVED, b"plain")
    assert plain.flush(DEADLINE_SECONDS) == 0


def write_compacted(bootstrap: str) -> None:
    """Write every key ten times in compressed batches, and wait until the brokers have taken most of them away."""
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}
    kafka_client.create_topic(bootstrap, COMPACTED, 1, 3, config)
    sender = producer(bootstrap, **{"compression.type": "zstd", "linger.ms": 200})
    for number in range(ROUNDS * KEYS):
        # A key in each batch that no other one has: so no batch goes away as a whole.
        sender.produce(COMPACTED, b"%d" % number, b"%d" % (number % KEYS if number % 50 else 1000 + number))
        if number % 50 == 49:
            assert sender.flush(DEADLINE_SECONDS) == 0

    def is_compacted() -> bool:
        # A segment ends when a record is written behind its time; the last one is never compacted.
        sender.produce(COMPACTED, b"last", b"last")
        assert sender.flush(DEADLINE_SECONDS) == 0
        return read_count(bootstrap) < ROUNDS * KEYS / 2

    eventually("the log is compacted", is_compacted, 120.0)


def read_count(bootstrap: str) -> int:
    consumer = kafka_client.new_consumer(bootstrap, auto_offset_reset="earliest")
    from confluent_kafka import TopicPartition

    end = kafka_offsets.end_offsets(bootstrap, [(COMPACTED, 0)])[COMPACTED, 0]
    consumer.assign([TopicPartition(COMPACTED, 0, 0)])
    count, deadline = 0, time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            count += 1
            if message.offset() == end - 1:
                break
    consumer.close()
    return count


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_every_offset_that_has_no_record_has_a_cause(spark: Any, brokers: str, tmp_path: Path, level: str) -> None:
    path = tmp_path / "cold"
    options = {"topics": f"{COMPACTED},{MOVED}", "brokers": brokers, "isolation_level": level}
    run(spark, tmp_path, "archive", to=str(path), **options)
    found = verify(spark, ArchiveFolder.open(path), Wanted(brokers, isolation_level=level))
    assert found.is_whole, render(found)
    compacted, moved = found.partitions
    aborted = ABORTED if level == "read_committed" else 0
    assert moved.gaps == Gaps(control=3, aborted=aborted)
    assert (moved.end, moved.proven) == (20, 17 - aborted)
    assert compacted.gaps == Gaps(compacted=compacted.gaps.offsets)
    assert compacted.gaps.offsets > ROUNDS * KEYS / 2
    assert compacted.proven + compacted.gaps.offsets + compacted.compacted == compacted.end
    named = "3 control records, 7 of aborted transactions" if aborted else "3 control records"
    lines = render(found)
    assert f"{3 + aborted} offsets without a record ({named})" in lines[1]
    assert f"({compacted.gaps.offsets} compacted away)" in lines[0]
