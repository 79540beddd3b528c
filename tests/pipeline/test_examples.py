"""The example pipelines, on real Spark and real brokers."""

import json
import sqlite3
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

from raftka.pipeline.runner import StopRequest
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


def test_pairs_are_joined_once_though_both_sides_repeat_and_only_within_the_time(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    orders, payments, target = (new_topic(cluster, name) for name in ("orders", "payments", "paid"))

    def sent(topic: str, *records: tuple[str, int]) -> None:
        values = [Record(None, json.dumps({"id": name, "at": at}).encode(), BASE + at) for name, at in records]
        write(cluster.bootstrap, topic, values)

    sent(orders, ("a", 0), ("b", 1), ("a", 2), ("c", 3))
    sent(payments, ("a", 10), ("a", 11), ("b", 20 * MINUTE), ("d", 12))
    write(cluster.bootstrap, payments, [Record(None, b"no json", BASE), Record(None, None, BASE)])
    run(
        spark,
        tmp_path,
        "join",
        topics=f"{orders},{payments}",
        to=target,
        brokers=cluster.bootstrap,
        within="5m",
        watermark="30m",
    )
    pairs = [json.loads(record.value or b"") for record in read(cluster.bootstrap, target)]
    assert [(pair["id"], json.loads(pair["first"])["id"], json.loads(pair["second"])["id"]) for pair in pairs] == [
        ("a", "a", "a")
    ]


def test_a_copy_takes_what_matches_and_tells_where_it_is_from(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    first, second = new_topic(cluster, "copied-a"), new_topic(cluster, "copied-b")
    target = new_topic(cluster, "target")
    wanted = {"topics_pattern": "copied-.*", "to": target, "brokers": cluster.bootstrap, "where": "key IS NOT NULL"}
    write(cluster.bootstrap, first, [Record(b"k", b"1", BASE, 0, (("h", b"x"),)), Record(None, b"2", BASE)])
    write(cluster.bootstrap, second, [Record(b"k", None, BASE)])
    run(spark, tmp_path, "copy", **wanted)
    # A topic that appears between two runs is read from its beginning.
    third = new_topic(cluster, "copied-c")
    write(cluster.bootstrap, third, [Record(b"k", b"3", BASE)])
    run(spark, tmp_path, "copy", **wanted)
    found = {(dict(each.headers)["raftka.topic"].decode(), each.value) for each in read(cluster.bootstrap, target)}
    assert found == {(first, b"1"), (second, None), (third, b"3")}
    assert read(cluster.bootstrap, target)[0].headers[0] in {("h", b"x"), ("raftka.topic", second.encode())}


def test_the_newest_value_of_each_key_is_in_the_table_also_when_a_batch_is_repeated(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic, path = new_topic(cluster, "users"), tmp_path / "users.sqlite"
    wanted = {"topics": topic, "to": str(path), "brokers": cluster.bootstrap, "max_offsets_per_trigger": "2"}
    values = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (None, b"x"), (b"c", b"1")]
    write(cluster.bootstrap, topic, [Record(key, value, BASE) for key, value in values])
    expected = [("a", "2", 2), ("b", None, 3), ("c", "1", 5)]
    for version in ("1", "2"):
        run(spark, tmp_path, "to-sqlite", version=version, **wanted)
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("SELECT key, value, offset FROM newest ORDER BY key").fetchall() == expected


def test_progress_reaches_prometheus_and_a_topic(spark: Any, cluster: BrokerCluster, tmp_path: Path) -> None:
    topic, target, progress = (new_topic(cluster, name) for name in ("source", "target", "progress"))
    write(cluster.bootstrap, topic, [Record(b"k", b"v", BASE) for _ in range(25)])
    stop, seen = StopRequest(), []

    def watch(line: str) -> None:
        seen.append(line)
        if line.startswith("batch 2"):
            address = next(each for each in seen if each.startswith("metrics: ")).removeprefix("metrics: ")
            seen.append(urllib.request.urlopen(address, timeout=60).read().decode())
            stop.set()

    status, _ = run(
        spark,
        tmp_path,
        "copy",
        stop=stop,
        out=watch,
        topics=topic,
        to=target,
        brokers=cluster.bootstrap,
        trigger="100ms",
        max_offsets_per_trigger="10",
        metrics_port="0",
        progress_topic=progress,
    )
    assert status.state.value == "stopped"
    metrics = next(each for each in seen if "# HELP" in each)
    # The terminal comes first: the third batch is not counted yet.
    assert 'raftka_pipeline_rows_total{pipeline="copy"} 20.0' in metrics
    told = [json.loads(record.value or b"") for record in read(cluster.bootstrap, progress)]
    assert [each["rows"] for each in told][:3] == [10, 10, 5]
    assert told[2]["end"] == {topic: {"0": 25}}
    assert told[0]["behind"] == 15
    assert len(read(cluster.bootstrap, target)) == 25
