"""The pipeline `telemetry` on a real topic: windows once across restarts, late and dirty records, the plot."""

import json
import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.run_folder import RunFolder
from raftka.pipeline.telemetry.charts_data import WantedScope, charts_data
from raftka.pipeline.telemetry.folder import REPLICATION, SECONDS, WINDOWS, TablesFolder
from raftka.pipeline.telemetry.plot_data import plot_data
from raftka.pipeline.telemetry.reading import Wanted, read_partition, read_replication, read_table
from tests.pipeline.pipelines import Record, new_topic, read, run, write
from tests.pipeline.telemetry_reports import BASE, followers, leaderless, led, record, report
from tests.process.broker_processes import BrokerCluster
from tests.process.command_line import RAFTKA, environment

# A JVM starts slowly where others run.
JVM_SECONDS = 600.0
KILLED = led(range(12)) + leaderless((12, 13)) + led(range(14, 40), broker=2, term=2, followers=followers(b1=40, b3=99))


class Pipeline:
    """Topics of one test, and its pipeline, which is run as often as is wanted."""

    def __init__(self, spark: Any, cluster: BrokerCluster, folder: Path) -> None:
        self._spark, self._cluster, self._folder = spark, cluster, folder
        self._source, self._target = new_topic(cluster, "telemetry"), new_topic(cluster, "windows")
        self.tables = folder / "telemetry" / "telemetry"
        self.lines: list[str] = []

    def write(self, *records: Record) -> None:
        write(self._cluster.bootstrap, self._source, records)

    def run(self, version: int = 1) -> None:
        wanted = {"topics": self._source, "windows_topic": self._target, "brokers": self._cluster.bootstrap}
        _, lines = run(self._spark, self._folder, "telemetry", version=str(version), **wanted)
        self.lines += lines

    def told(self) -> list[tuple[str, int]]:
        """Return the windows in the topic, by key and start after BASE, in order of writing."""
        values = [(each.key, json.loads(each.value or b"")) for each in read(self._cluster.bootstrap, self._target)]
        return [((key or b"").decode(), self._second(value["start"])) for key, value in values]

    def rows(self) -> list[tuple[str | None, int]]:
        """Return the windows in the tables, by topic and start after BASE."""
        rows = read_table(self._spark, TablesFolder.open(self.tables), WINDOWS).collect()
        return sorted(((row.topic, round(row.start.timestamp()) - BASE) for row in rows), key=str)

    def outages(self) -> list[tuple[str, int, int]]:
        """Return the outages of the partition, in seconds after BASE; tables and topic have the same."""
        rows = read_table(self._spark, TablesFolder.open(self.tables), WINDOWS).where("topic IS NOT NULL").collect()
        table = [(each.state, each.begin.timestamp(), each.end.timestamp()) for row in rows for each in row.outages]
        values = [json.loads(each.value or b"") for each in read(self._cluster.bootstrap, self._target)]
        told = [each for value in values if value["topic"] is not None for each in value["outages"]]
        found = [(state, round(begin) - BASE, round(end) - BASE) for state, begin, end in sorted(table)]
        assert found == sorted((each["state"], *(self._second(each[key]) for key in ("begin", "end"))) for each in told)
        return found

    def seconds(self) -> list[int]:
        rows = read_table(self._spark, TablesFolder.open(self.tables), SECONDS).collect()
        return sorted(round(row.second.timestamp()) - BASE for row in rows)

    def replication(self) -> dict[tuple[str, str | None, int | None], list[int]]:
        """Return the seconds after BASE of each scope."""
        rows = read_table(self._spark, TablesFolder.open(self.tables), REPLICATION).collect()
        found: dict[tuple[str, str | None, int | None], list[int]] = {}
        for row in rows:
            found.setdefault((row.scope, row.topic, row.broker), []).append(round(row.second.timestamp()) - BASE)
        return found

    def reports(self) -> list[int]:
        """Return how many reports each window of the partition has, in order of time."""
        rows = read_table(self._spark, TablesFolder.open(self.tables), WINDOWS).where("topic IS NOT NULL")
        return [row.reports for row in rows.sort("start").collect()]

    @staticmethod
    def _second(text: str) -> int:
        return round(datetime.fromisoformat(text).timestamp()) - BASE

    def forget_last_batch(self) -> None:
        """Let Spark believe that it was killed before it noted its last batch."""
        noted = RunFolder(self._folder, "telemetry").checkpoint(1) / "commits"
        newest = max((path for path in noted.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        newest.unlink()
        (noted / f".{newest.name}.crc").unlink(missing_ok=True)


def windows_of(*starts: int) -> list[tuple[str | None, int]]:
    return sorted(((topic, start) for topic in (None, "orders") for start in starts), key=str)


def records_of(*starts: int) -> list[tuple[str, int]]:
    return [(key, start) for start in starts for key in ("cluster", "orders-0")]


def test_windows_are_told_once_across_restarts_and_what_is_late_or_dirty_is_counted(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, cluster, tmp_path)
    pipeline.write(*map(record, KILLED), record(b"no report"), record(report(3, v=9)))
    pipeline.run()
    # The last report is of second 39: what has been seen up to 29 cannot change, and windows see 3 s ahead.
    assert pipeline.rows() == windows_of(0, 10)
    assert pipeline.told() == records_of(0, 10)
    assert pipeline.seconds() == list(range(20))
    # Broker 1, which led, is silent in seconds 12 and 13; in them the others report.
    assert {key: len(found) for key, found in pipeline.replication().items()} == {
        ("partition", "orders", None): 20,
        ("topic", "orders", None): 20,
        ("cluster", None, None): 20,
        ("broker", None, 1): 18,
        ("broker", None, 2): 20,
        ("broker", None, 3): 20,
    }
    assert pipeline.outages() == [("leaderless", 12, 14)]
    assert ", 1 not json, 1 other version" in pipeline.lines[0]
    # One that is late, and one that is not although it is older than others.
    pipeline.write(record(report(5, 3, "follower")), record(report(21, 4, "learner", term=2)))
    pipeline.write(*map(record, led(range(40, 60), broker=2, term=2)))
    pipeline.run()
    assert any("too late" in line for line in pipeline.lines)
    assert pipeline.rows() == windows_of(0, 10, 20, 30)
    assert pipeline.told() == records_of(0, 10, 20, 30)
    assert pipeline.reports() == [30, 28, 31, 30]
    pipeline.run()
    assert pipeline.told() == records_of(0, 10, 20, 30)


@pytest.mark.long
def test_a_batch_that_is_repeated_is_in_the_tables_once(spark: Any, cluster: BrokerCluster, tmp_path: Path) -> None:
    pipeline = Pipeline(spark, cluster, tmp_path)
    pipeline.write(*map(record, KILLED))
    pipeline.run()
    # Killed after its commit: nothing is written again.
    pipeline.forget_last_batch()
    pipeline.run()
    assert pipeline.rows() == windows_of(0, 10)
    assert pipeline.told() == records_of(0, 10)
    # Killed before it: the topic has the windows already and gets them again, the tables once.
    pipeline.forget_last_batch()
    batch = TablesFolder.open(pipeline.tables).records()[0].name
    shutil.move(pipeline.tables / "batches" / batch, pipeline.tables / "_raftka" / "staging" / batch)
    pipeline.run()
    assert pipeline.rows() == windows_of(0, 10)
    assert pipeline.told() == records_of(0, 10) + records_of(0, 10)
    # The state went on with it.
    pipeline.write(*map(record, led(range(40, 50), broker=2, term=2)))
    pipeline.run()
    assert pipeline.rows() == windows_of(0, 10, 20)


@pytest.mark.long
def test_a_checkpoint_that_is_lost_repeats_no_window(spark: Any, cluster: BrokerCluster, tmp_path: Path) -> None:
    pipeline = Pipeline(spark, cluster, tmp_path)
    pipeline.write(*map(record, KILLED))
    pipeline.run()
    pipeline.write(*map(record, led(range(40, 50), broker=2, term=2)))
    pipeline.run(version=9)
    assert pipeline.rows() == windows_of(0, 10, 20)
    assert pipeline.told() == records_of(0, 10, 20)


@pytest.mark.long
def test_a_killed_leader_is_drawn(spark: Any, cluster: BrokerCluster, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib comes with the extra spark")
    pipeline = Pipeline(spark, cluster, tmp_path)
    others = [each | {"topic": "calm", "topic_id": "id-calm"} for each in led(range(40))]
    pipeline.write(*map(record, KILLED), *map(record, others))
    pipeline.run()
    title, rows = read_partition(spark, TablesFolder.open(pipeline.tables), Wanted())
    assert title == "orders-0"
    data = plot_data(title, rows)
    assert [(span.name, span.begin - BASE, term) for span, term in data.leaders] == [("1", 0, 1), ("2", 14, 2)]
    assert [(span.name, span.begin - BASE, span.end - BASE) for span in data.shades] == [("leaderless", 12, 14)]
    assert data.lags["1"][-1] == (BASE + 19, 60)
    assert read_partition(spark, TablesFolder.open(pipeline.tables), Wanted(topic="calm"))[0] == "calm-0"
    with pytest.raises(PipelineError, match="has nothing of nowhere in that time"):
        read_partition(spark, TablesFolder.open(pipeline.tables), Wanted(topic="nowhere"))
    folder = TablesFolder.open(pipeline.tables)
    for wanted in (WantedScope(topic="calm"), WantedScope(broker=3), WantedScope()):
        panel = charts_data(wanted.title, read_replication(spark, folder, wanted)).panels[-1]
        assert panel.rows == "R46"
        assert (panel.lines == {}) == (wanted.broker == 3), "a broker that follows only has no set in sync"
    with pytest.raises(PipelineError, match="has nothing of broker 9 in that time"):
        read_replication(spark, folder, WantedScope(broker=9))
    out = tmp_path / "killed.png"
    chosen = ("--begin", "2026-01-01T00:00:10", "--end", "2026-01-01T00:00:18")
    command = [*RAFTKA, "telemetry", "plot", "--parquet", str(pipeline.tables), "--out", str(out), *chosen]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JVM_SECONDS, env=environment())
    assert done.returncode == 0, done.stderr
    assert "killed.png: orders-0, 8 s: leaderless 2 s" in done.stdout
    assert out.read_bytes().startswith(b"\x89PNG")
    command = [*RAFTKA, "telemetry", "plot", "--parquet", str(pipeline.tables), "--out", str(out), "--cluster", *chosen]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JVM_SECONDS, env=environment())
    assert done.returncode == 0, done.stderr
    assert (
        "killed.png: the cluster, 8 s: 0 calls, 0 failed, smallest set in sync 3, at most 0 of a partition out of sync"
        in done.stdout
    )
