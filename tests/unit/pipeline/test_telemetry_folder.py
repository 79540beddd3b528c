"""Tables of telemetry: a batch is there as a whole or not at all, and settings that do not fit are refused."""

import json
from pathlib import Path

import pytest

from raftka.cli.exit_codes import FAILED, USAGE
from raftka.cli.root import run
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.settings import convert
from raftka.pipeline.telemetry.folder import REPLICATION, SECONDS, WINDOWS, BatchRecord, TablesFolder
from raftka.pipeline.telemetry.settings import Settings

FIRST, SECOND = "aaaaaaaa-1", "bbbbbbbb-2"


ONE_OF = "--topic, --broker and --cluster: choose one of them"


def record(batch: int, checkpoint: str = FIRST, end_ms: int = 1000) -> BatchRecord:
    return BatchRecord(checkpoint=checkpoint, batch=batch, windows=2, seconds=20, end_ms=end_ms)


def staged(folder: TablesFolder, record: BatchRecord) -> Path:
    """Write what Spark would have written."""
    path = folder.staging_of(record.name)
    for table in (WINDOWS, SECONDS):
        (path / table).mkdir()
        (path / table / "part-0.parquet").write_text(f"{table} of {record.name}")
    return path


def test_a_batch_is_in_the_tables_once_it_is_committed(tmp_path: Path) -> None:
    folder = TablesFolder.create(tmp_path / "tables")
    with folder.written():
        staged(folder, record(3))
        assert not folder.has(record(3).name)
        assert folder.table(WINDOWS) == []
        folder.commit(record(3))
    assert folder.has("b0000000003-aaaaaaaa")
    assert folder.records() == [record(3)]
    assert (Path(folder.table(WINDOWS)[0]) / "part-0.parquet").read_text() == "windows of b0000000003-aaaaaaaa"


def test_what_a_crash_has_left_in_staging_is_gone_and_the_batch_is_written_again(tmp_path: Path) -> None:
    folder = TablesFolder.create(tmp_path / "tables")
    (staged(folder, record(0)) / WINDOWS / "torn.parquet").touch()
    again = TablesFolder.create(tmp_path / "tables")
    with again.written():
        path = staged(again, record(0))
        assert not (path / WINDOWS / "torn.parquet").exists()
        # A second attempt of the same run begins anew, too.
        (path / "torn").touch()
        assert not (staged(again, record(0)) / "torn").exists()
        again.commit(record(0))
    assert again.records() == [record(0)]


def test_a_new_checkpoint_goes_on_where_the_windows_of_others_end(tmp_path: Path) -> None:
    folder = TablesFolder.create(tmp_path / "tables")
    for each in (record(0, FIRST, 1000), record(1, FIRST, 2000), record(0, SECOND, 3000)):
        staged(folder, each)
        folder.commit(each)
    assert folder.end_of_others(FIRST) == 3000
    assert folder.end_of_others(SECOND) == 2000
    assert TablesFolder.create(tmp_path / "other").end_of_others(FIRST) == 0


def test_a_batch_of_an_earlier_version_has_no_table_of_replication(tmp_path: Path) -> None:
    folder = TablesFolder.create(tmp_path / "tables")
    staged(folder, record(0))
    folder.commit(record(0))
    path = folder.batches / record(0).name / "batch.json"
    told = json.loads(path.read_text())
    del told["replication"]
    path.write_text(json.dumps(told))
    (staged(folder, record(1, end_ms=2000)) / REPLICATION).mkdir()
    folder.commit(record(1, end_ms=2000))
    assert [each.replication for each in folder.records()] == [0, 0]
    assert folder.table(REPLICATION) == [str(folder.batches / record(1).name / REPLICATION)]
    assert len(folder.table(SECONDS)) == 2


def test_one_pipeline_writes(tmp_path: Path) -> None:
    folder = TablesFolder.create(tmp_path / "tables")
    with folder.written(), pytest.raises(PipelineError, match="another pipeline writes to it"), folder.written():
        pass
    with folder.written():
        pass


def test_a_folder_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").touch()
    with pytest.raises(PipelineError, match="has other content"):
        TablesFolder.create(tmp_path / "notes")
    with pytest.raises(PipelineError, match="is not a folder of telemetry"):
        TablesFolder.open(tmp_path / "notes")
    with pytest.raises(PipelineError, match="is a local folder"):
        TablesFolder.create("s3://bucket/tables")
    folder = TablesFolder.create(tmp_path / "tables")
    (folder.path / "_raftka" / "telemetry.json").write_text('{"format": 9}')
    with pytest.raises(PipelineError, match="folder of telemetry of format 9; this version reads 1"):
        TablesFolder.open(folder.path)
    staged(folder, record(0))
    folder.commit(record(0))
    (folder.batches / record(0).name / "batch.json").write_text("{")
    with pytest.raises(PipelineError, match=r"b0000000000-aaaaaaaa/batch\.json: "):
        folder.records()


def test_telemetry_needs_no_setting() -> None:
    settings = convert({"kind": "telemetry"}, Settings, "telemetry")
    assert settings.topics == ("__raftka_telemetry",)
    # Checkpoints of versions 1 and 2 hold reports that say less.
    assert settings.version == 3
    assert (settings.window_seconds, settings.watermark_seconds, settings.fail_on_data_loss) == (10, 10.0, False)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("window", "4s", "window = 4s: whole seconds, 5 or more"),
        ("window", "10500ms", "window = 10500ms: whole seconds"),
        ("window", "soon", "window: 'soon' is not a duration"),
        ("watermark", "0s", "watermark: '0s' is not a duration"),
        ("windows.topic", "__raftka_telemetry", "is one of the topics that the pipeline reads"),
    ],
)
def test_settings_that_do_not_fit_are_refused(key: str, value: str, reason: str) -> None:
    with pytest.raises(PipelineError, match=reason):
        convert({"kind": "telemetry", key: value}, Settings, "telemetry")


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--parquet", "nowhere"], USAGE, "Missing option '--out'"),
        (["--parquet", "nowhere", "--out", "a.png", "--partition", "1"], USAGE, "--partition needs --topic"),
        (["--parquet", "nowhere", "--out", "a.png", "--topic", "t", "--broker", "1"], USAGE, ONE_OF),
        (["--parquet", "nowhere", "--out", "a.png", "--cluster", "--topic", "t", "--partition", "0"], USAGE, ONE_OF),
        (["--parquet", "nowhere", "--out", "a.png", "--begin", "noon"], USAGE, "--begin noon: must be a time such as"),
        (["--parquet", "nowhere", "--out", "a.png", "--spark", "x"], USAGE, "--spark x: must be KEY=VALUE"),
    ],
)
def test_a_plot_that_cannot_be_drawn_is_one_line(
    arguments: list[str], code: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["telemetry", "plot", *arguments]) == code
    assert reason in capsys.readouterr().err


def test_a_plot_of_tables_that_are_not_there_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib comes with the extra spark")
    pytest.importorskip("pyspark", reason="pyspark comes with the extra spark")
    assert run(["telemetry", "plot", "--parquet", str(tmp_path), "--out", str(tmp_path / "a.png")]) == FAILED
    said = capsys.readouterr().err
    assert "is not a folder of telemetry" in said or "need Java" in said
