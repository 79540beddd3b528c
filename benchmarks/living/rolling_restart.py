"""Three brokers with 60 partitions, restarted one after the other under load: what a client sees of it."""

import time
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from benchmarks.cluster import TOPIC, BenchCluster, eventually, running_cluster
from benchmarks.compare.verdict import Target, row
from benchmarks.load import CountingProducer, client_facts
from benchmarks.plan import Plan
from raftka.kafka import client as kafka_client

_PARTITIONS, _REPLICAS = 60, 3
_RATE = 2000.0
_STEADY_RECORDS = 4000
_IN_SYNC_SECONDS = 120.0
_POLL_SECONDS = 0.01


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return what was lost or refused, the longest time without an acknowledgement, and seconds of each restart.

    Raises:
        BenchmarkError: A broker does not come back into every in-sync set.
    """
    del plan
    with running_cluster(data_dir) as cluster, cluster.topic(_PARTITIONS):
        with CountingProducer(cluster.bootstrap, "all", rate=_RATE, enable_idempotence=True) as producer:
            _steady(producer)
            restarts = [_restart(cluster, producer, node) for node in sorted(cluster.pids)]
            _steady(producer)
        errors, acked, written = list(producer.errors), producer.acked, _records(cluster)
    what = f"rolling restart of 3 brokers, {_PARTITIONS} partitions, {_RATE:,.0f} records/s at acks=all"
    return {
        "what": f"{what}, one idempotent producer; a restart ends once the broker serves and no in-sync set lacks it",
        "client": client_facts(),
        "rows": [
            row(f"{what}: acknowledged and not there", "records", [acked - written], [], Target("<=", 0, "value")),
            row(f"{what}: errors that the client cannot retry", "records", [len(errors)], [], Target("<=", 0, "value")),
            row(f"{what}: longest time without any acknowledgement", "s", [max(each["quiet"] for each in restarts)]),
            row(
                f"{what}: until the broker serves and every replica counts as in sync, each",
                "s",
                [each["seconds"] for each in restarts],
            ),
        ],
        "acknowledged": acked,
        "written": written,
        "errors": sorted(set(errors)),
        "restarts": restarts,
    }


def _steady(producer: CountingProducer) -> None:
    acked = producer.acked
    eventually("records are acknowledged", lambda: producer.acked >= acked + _STEADY_RECORDS or None)


def _restart(cluster: BenchCluster, producer: CountingProducer, node: int) -> dict[str, float]:
    quiet = _QuietTime(producer)
    began = time.perf_counter()
    restarted = kafka_client.in_background(partial(cluster.restart, node))
    while not restarted.done():
        quiet.look()
        time.sleep(_POLL_SECONDS)
    restarted.result()

    def is_in_sync() -> bool | None:
        quiet.look()
        known = kafka_client.read_cluster(cluster.bootstrap).topics.get(TOPIC, [])
        return (len(known) == _PARTITIONS and all(len(each.in_sync) == _REPLICAS for each in known)) or None

    eventually(f"all replicas are in sync after the restart of broker {node}", is_in_sync, _IN_SYNC_SECONDS)
    return {"node": node, "seconds": round(time.perf_counter() - began, 2), "quiet": round(quiet.longest, 2)}


class _QuietTime:
    """The longest time in which nothing at all was acknowledged, as far as `look` is called often."""

    def __init__(self, producer: CountingProducer) -> None:
        self._producer = producer
        self._acked, self._since = producer.acked, time.perf_counter()
        self.longest = 0.0

    def look(self) -> None:
        now = time.perf_counter()
        self.longest = max(self.longest, now - self._since)
        if self._producer.acked != self._acked:
            self._acked, self._since = self._producer.acked, now


def _records(cluster: BenchCluster) -> int:
    """Return how many records all partitions hold; nothing is removed while this runs."""
    consumer = kafka_client.new_consumer(cluster.bootstrap, group_id="count")
    try:
        ends = [consumer.get_watermark_offsets(TopicPartition(TOPIC, number), 30.0) for number in range(_PARTITIONS)]
        return sum(high - low for low, high in ends)
    finally:
        consumer.close()
