"""The example pipelines, on real Spark and real brokers."""

import json
from pathlib import Path
from typing import Any

from tests.pipeline.pipelines import Record, new_topic, read, run, write
from tests.process.broker_processes import BrokerCluster

MINUTE = 60_000
BASE = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def test_windows_are_counted_once_and_only_when_they_are_complete(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    source, target = new_topic(cluster, "clicks"), new_topic(cluster, "counts")
    clicks = [(b"a", 1), (b"a", 2), (b"b", 3), (b"a", MINUTE + 1), (b"a", 5 * MINUTE)]
    write(cluster.bootstrap, source, [Record(key, b"", BASE + at) for key, at in clicks])
    status, lines = run(
        spark,
        tmp_path,
        "windowed-count",
        topics=source,
        to=target,
        window="1m",
        watermark="10s",
        brokers=cluster.bootstrap,
    )
    found = [json.loads(record.value or b"") for record in read(cluster.bootstrap, target)]
    counted = sorted((each["start"], each["key"], each["count"]) for each in found)
    assert counted == [
        ("2026-01-01T00:00:00.000Z", "a", 2),
        ("2026-01-01T00:00:00.000Z", "b", 1),
        ("2026-01-01T00:01:00.000Z", "a", 1),
    ]
    assert status.rows == 5
    assert lines[0].startswith("batch 0: 5 records in ")
