"""What is drawn of replication (rows R41 to R46), and that it can be drawn."""

from pathlib import Path
from typing import Any

import pytest

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.telemetry.charts import draw_charts
from raftka.pipeline.telemetry.charts_data import Charts, Measured, ReplicationSecond, WantedScope, charts_data
from raftka.pipeline.telemetry.plot_data import SECONDS_MAX

BASE = 1_767_225_600


def second(at: int, **changes: Any) -> ReplicationSecond:
    found = ReplicationSecond(
        at=BASE + at,
        logs={"leader_entries_avg": 10.0 * at, "leader_entries_max": 20.0 * at, "follower_unapplied_max": 3},
        written={"leader data": 5},
        calls=[Measured("quorum_ack data", 7, 0, 1500, 9000)],
        applies=[Measured("data", 7, 0, 50, 100)],
        min_in_sync=2,
        in_sync_min=3,
        out_of_sync_max=0,
    )
    return found._replace(**changes)


def stalled() -> Charts:
    """Return the charts of five seconds: in the third one calls fail, and one replica is out of sync."""
    rows = [second(at) for at in range(5)]
    failed = [Measured("quorum_ack data", 0, 4, None, None)]
    rows[2] = second(2, calls=failed, applies=[Measured("log_start", 0, 1, None, None)], in_sync_min=1)
    rows[2] = rows[2]._replace(out_of_sync_max=2)
    return charts_data("topic orders", rows)


def lines(charts: Charts, rows: str) -> dict[str, list[float | None]]:
    """Return the values of all lines of the panels of a row."""
    return {
        name: [value for _, value in points]
        for panel in charts.panels
        if panel.rows == rows
        for name, points in panel.lines.items()
    }


def test_each_row_has_a_panel() -> None:
    charts = stalled()
    assert [panel.rows for panel in charts.panels] == ["R41", "R41", "R9", "R42", "R43", "R44", "R45", "R46"]
    assert (charts.title, charts.begin, charts.end) == ("topic orders", BASE, BASE + 5)
    assert lines(charts, "R41") == {
        "leaders, avg": [0.0, 10.0, 20.0, 30.0, 40.0],
        "leaders, max": [0.0, 20.0, 40.0, 60.0, 80.0],
        "followers in sync, max": [3] * 5,
    }
    assert lines(charts, "R9") == {"leader data": [5] * 5}
    assert lines(charts, "R46") == {
        "smallest set": [3, 3, 1, 3, 3],
        "min.insync.replicas": [2] * 5,
        "most out of sync": [0, 0, 2, 0, 0],
    }


def test_a_count_is_0_where_nothing_happened_and_a_duration_is_not_there() -> None:
    charts = stalled()
    assert lines(charts, "R43") == {"quorum_ack data": [7, 7, 0, 7, 7]}
    assert lines(charts, "R44") == {"quorum_ack data": [0, 0, 4, 0, 0], "apply log_start": [0, 0, 1, 0, 0]}
    assert lines(charts, "R42")["quorum_ack data p99"] == [9.0, 9.0, None, 9.0, 9.0]
    assert list(lines(charts, "R45")) == ["data p50", "data p99"]


def test_a_healthy_time_has_no_line_of_failures() -> None:
    charts = charts_data("broker 1", [second(0), second(1)])
    panel = next(panel for panel in charts.panels if panel.rows == "R44")
    assert (panel.lines, panel.empty) == ({}, "no failures")


def test_a_line_of_replication_breaks_where_seconds_are_missing() -> None:
    charts = charts_data("the cluster", [second(9), second(0), second(1)])
    assert charts.panels[-1].lines["smallest set"] == [(BASE, 3), (BASE + 1, 3), (BASE + 2, None), (BASE + 9, 3)]


def test_a_scope_without_a_partition_of_several_replicas_says_so() -> None:
    alone = second(0, min_in_sync=None, in_sync_min=None, out_of_sync_max=None)
    panel = charts_data("topic alone", [alone]).panels[-1]
    assert (panel.lines, panel.empty) == ({}, "no partition with several replicas")


def test_no_seconds_and_too_many_cannot_be_drawn() -> None:
    with pytest.raises(PipelineError, match="there is nothing to draw of broker 7"):
        charts_data("broker 7", [])
    with pytest.raises(PipelineError, match="choose them with --begin and --end"):
        charts_data("the cluster", [second(0), second(SECONDS_MAX)])


def test_charts_are_a_png_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib comes with the extra spark")
    path = tmp_path / "charts.png"
    draw_charts(stalled(), path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    # As reports of earlier brokers leave it: nothing is known but the set in sync.
    old = second(0, logs={}, written={}, calls=[], applies=[], min_in_sync=None)
    draw_charts(charts_data("the cluster", [old]), path)
    with pytest.raises(PipelineError, match=r"[Ii]s a directory"):
        draw_charts(stalled(), tmp_path)


@pytest.mark.parametrize(
    ("wanted", "scope", "title"),
    [
        (WantedScope(topic="orders"), "topic", "topic orders"),
        (WantedScope(broker=0), "broker", "broker 0"),
        (WantedScope(), "cluster", "the cluster"),
    ],
)
def test_a_scope_is_a_topic_a_broker_or_the_cluster(wanted: WantedScope, scope: str, title: str) -> None:
    assert (wanted.scope, wanted.title) == (scope, title)
