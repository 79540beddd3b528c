"""Progress of batches: out of Spark's JSON, into a line, metrics and a status."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from raftka.dev.process_identity import ProcessIdentity
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.progress import Progress, parse_progress, render_progress
from raftka.pipeline.progress_outputs import PipelineMetrics, Terminal
from raftka.pipeline.run_folder import RunFolder, run_folders
from raftka.pipeline.status import State, Status

SPARK_SAYS: dict[str, Any] = {
    "id": "6a3c",
    "runId": "77aa",
    "name": "cold",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "batchId": 4,
    "numInputRows": 30,
    "durationMs": {"addBatch": 900, "triggerExecution": 1500},
    "stateOperators": [{"numRowsTotal": 7}, {"numRowsTotal": 5}],
    "eventTime": {"watermark": "2026-01-01T00:00:10.000Z"},
    "sources": [
        {"endOffset": {"orders": {"0": 40, "1": 5}}, "latestOffset": {"orders": {"0": 100, "1": 5}}},
        {"endOffset": '{"clicks":{"0":3}}', "latestOffset": '{"clicks":{"0":4}}'},
        {"endOffset": 12, "latestOffset": None},
    ],
}


def progress(**changes: Any) -> Progress:
    return parse_progress(json.dumps(SPARK_SAYS | changes))


def test_a_batch_is_what_spark_says_of_all_its_sources() -> None:
    found = progress()
    assert (found.query, found.batch, found.rows, found.seconds, found.behind) == ("cold", 4, 30, 1.5, 61)
    assert found.end == {"orders": {"0": 40, "1": 5}, "clicks": {"0": 3}}
    assert (found.state_rows, found.rows_per_second) == (12, 20.0)


def test_a_line_says_what_there_is_to_say() -> None:
    assert render_progress(progress()) == (
        "batch 4: 30 records in 1.5 s (20/s), 61 behind, 12 rows of state, watermark 2026-01-01T00:00:10.000Z"
    )
    assert render_progress(progress(numInputRows=0, stateOperators=[], eventTime={}, sources=[])) == (
        "batch 4: 0 records in 1.5 s, 0 behind"
    )


def test_what_a_query_leaves_out_is_said_and_counted() -> None:
    found = progress(
        stateOperators=[{"numRowsTotal": 7, "numRowsDroppedByWatermark": 3}],
        observedMetrics={"input": {"not_json": 1200, "incomplete": 0, "no count": "x"}},
    )
    assert (found.late, found.observed) == (3, {"not_json": 1200, "incomplete": 0})
    assert ", 7 rows of state, 3 too late, 1,200 not json, watermark" in render_progress(found)
    registry = CollectorRegistry()
    metrics = PipelineMetrics("cold", registry)
    metrics.take(found)
    metrics.take(found)
    assert registry.get_sample_value("raftka_pipeline_late_rows_total", {"pipeline": "cold"}) == 6.0
    labels = {"pipeline": "cold", "what": "not_json"}
    assert registry.get_sample_value("raftka_pipeline_observed_total", labels) == 2400.0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"batchId": 1}', "12"])
def test_what_is_no_progress_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_progress(text)


def test_the_terminal_says_once_that_nothing_comes() -> None:
    lines: list[str] = []
    terminal = Terminal(lines.append)
    for rows in (5, 0, 0, 0, 6, 0):
        terminal.take(progress(numInputRows=rows))
    assert [line.split()[2] for line in lines] == ["5", "0", "6", "0"]


def test_metrics_add_batches_up_and_show_the_newest() -> None:
    registry = CollectorRegistry()
    metrics = PipelineMetrics("cold", registry)
    metrics.take(progress())
    metrics.take(progress(batchId=5, numInputRows=12, eventTime={}))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"raftka_pipeline_{name}", {"pipeline": "cold", **labels})

    assert (value("batches_total"), value("rows_total"), value("batch")) == (2.0, 42.0, 5.0)
    assert value("phase_seconds_total", phase="addBatch") == 1.8
    assert (value("offsets_behind"), value("watermark_seconds")) == (61.0, 0.0)


def status(state: State = State.RUNNING, **changes: Any) -> Status:
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    known = {"pid": me.pid, "started": me.started} | changes
    return Status(name="cold", kind="archive", version=1, state=state, since="2026-01-01T00:00:00+00:00", **known)


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "cold")
    assert folder.load() is None
    with folder.locked():
        folder.save(status(last=progress(), rows=30, batches=1))
    found = folder.load()
    assert found == status(last=progress(), rows=30, batches=1)
    assert [each.name for each in run_folders(tmp_path)] == ["cold"]
    assert run_folders(tmp_path / "nowhere") == []


def test_a_run_whose_process_is_gone_has_died_unless_it_had_ended() -> None:
    assert status().seen() is State.RUNNING
    assert status(started="another boot/1").seen() is State.DIED
    assert status(State.DONE, started="another boot/1").seen() is State.DONE


def test_a_status_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "cold")
    folder.path.mkdir()
    folder.status_path.write_text("{")
    with pytest.raises(PipelineError, match=r"cold/status\.json: "):
        folder.load()


def test_one_pipeline_is_run_by_one_process(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "cold")
    with folder.locked():
        folder.save(status())
        with pytest.raises(PipelineError, match=rf"cold is already running \(pid {os.getpid()}\)"), folder.locked():
            pass
    with folder.locked():
        pass


def test_an_error_inside_a_run_is_not_taken_for_its_lock(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "cold")
    with pytest.raises(BlockingIOError), folder.locked():
        raise BlockingIOError
