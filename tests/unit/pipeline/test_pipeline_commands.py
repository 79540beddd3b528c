"""`raftka pipeline` and `raftka archive` as commands, without Spark: what they print, and their exit codes."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

from raftka.cli.exit_codes import DONE, FAILED, UNJUDGED, USAGE
from raftka.cli.root import run
from raftka.dev.process_identity import ProcessIdentity
from raftka.pipeline.archive import commits
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.run_folder import RunFolder, check_checkpoint
from raftka.pipeline.status import State, Status
from tests.unit.pipeline.archives import new_archive, staged_batch


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RAFTKA_PIPELINES", "RAFTKA_PIPELINE_DIR", "RAFTKA_BROKERS"):
        monkeypatch.delenv(name, raising=False)


def ran(name: str, state: State, error: str | None = None, started: str | None = None) -> None:
    """Leave the status of a run."""
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    folder = RunFolder(Path("raftka-pipelines"), name)
    folder.path.mkdir(parents=True)
    folder.save(
        Status(
            name=name,
            kind="archive",
            version=1,
            state=state,
            pid=me.pid,
            started=me.started if started is None else started,
            since="2026-01-01T00:00:00+00:00",
            error=error,
        )
    )


def test_without_pyspark_a_run_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert run(["pipeline", "run", "archive", "--set", "topics=a"]) == FAILED
    assert capsys.readouterr().err == "raftka: pipelines need PySpark: pip install 'raftka[spark]'\n"
    assert run(["archive", "verify", "nowhere"]) == FAILED
    assert "pip install 'raftka[spark]'" in capsys.readouterr().err
    assert run(["audit", "nowhere"]) == UNJUDGED
    assert "pip install 'raftka[spark]'" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["history.jsonl", "--topic", "histories"]])
def test_an_audit_is_of_files_or_of_a_topic(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", *arguments]) == USAGE
    assert "use either FILE... or --topic" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["run", "nothing"], FAILED, "there is no pipeline nothing"),
        (["run", "a/b"], FAILED, "'a/b' is not a valid name of a pipeline"),
        (["run", "archive", "--set", "topics"], USAGE, "--set topics: must be KEY=VALUE"),
        (["run", "archive", "--brokers", "nowhere"], USAGE, "'nowhere' is not HOST:PORT"),
        (["run"], USAGE, "Missing argument"),
        (["list", "--file", "nowhere.toml"], FAILED, "nowhere.toml: cannot be read"),
        (["status", "cold"], FAILED, "pipeline cold has never run in "),
        (["stop", "cold"], FAILED, "pipeline cold has never run in "),
    ],
)
def test_what_cannot_work_is_one_line_and_an_exit_code(
    arguments: list[str], code: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pipeline", *arguments]) == code
    assert reason in capsys.readouterr().err


def test_pipelines_and_kinds_are_listed_without_importing_spark(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pipelines.toml").write_text('[pipelines.cold]\nkind = "archive"\ntopics = ["a", "b"]\ntrigger = "1m"\n')
    before = set(sys.modules)
    assert run(["pipeline", "list"]) == DONE
    shown = capsys.readouterr().out
    assert "cold      archive  a,b     1m       never run" in shown
    assert "windowed-count" in shown
    assert run(["pipeline", "list", "--format", "json"]) == DONE
    assert json.loads(capsys.readouterr().out)["pipelines"][0]["topics"] == "a,b"
    assert not {name for name in set(sys.modules) - before if name.startswith(("pyspark", "py4j"))}


def test_a_status_shows_what_failed_and_what_died(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "status"]) == DONE
    assert "no pipeline has run in" in capsys.readouterr().out
    ran("good", State.RUNNING)
    assert run(["pipeline", "status"]) == DONE
    ran("bad", State.FAILED, "topic orders does not exist")
    ran("gone", State.RUNNING, started="another boot/1")
    assert run(["pipeline", "status"]) == FAILED
    shown = capsys.readouterr().out
    assert "bad: topic orders does not exist" in shown
    assert run(["pipeline", "status", "--format", "json"]) == FAILED
    states = {each["name"]: each["state"] for each in json.loads(capsys.readouterr().out)}
    assert states == {"bad": "failed", "gone": "died", "good": "running"}
    assert run(["pipeline", "status", "good"]) == DONE


def test_a_status_that_cannot_be_read_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    ran("good", State.DONE)
    ran("spoilt", State.DONE)
    folder = RunFolder(Path("raftka-pipelines"), "spoilt")
    folder.status_path.write_text("{")
    Path("pipelines.toml").write_text('[pipelines.spoilt]\nkind = "archive"\ntopics = ["a"]\n')
    assert run(["pipeline", "list"]) == DONE
    assert "unreadable" in capsys.readouterr().out
    assert run(["pipeline", "status"]) == FAILED
    told = capsys.readouterr()
    assert "good" in told.out
    assert "the next `raftka pipeline run spoilt` replaces it" in told.err
    assert run(["pipeline", "status", "spoilt"]) == FAILED
    assert run(["pipeline", "stop", "spoilt"]) == FAILED
    assert "replaces it" in capsys.readouterr().err
    with folder.locked():
        pass


def test_a_checkpoint_that_names_no_query_is_refused_with_its_file(tmp_path: Path) -> None:
    check_checkpoint(tmp_path)
    metadata = tmp_path / "metadata"
    metadata.write_text('{"id": "29d9bb19"}')
    check_checkpoint(tmp_path)
    metadata.write_text("{}")
    with pytest.raises(
        PipelineError, match=r"not the metadata of a checkpoint: .* a higher `version` starts with a new checkpoint"
    ):
        check_checkpoint(tmp_path)


def test_a_pipeline_that_does_not_run_cannot_be_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    ran("gone", State.RUNNING, started="another boot/1")
    assert run(["pipeline", "stop", "gone"]) == FAILED
    assert "pipeline gone does not run (its last run: died)" in capsys.readouterr().err


def test_an_archive_is_shown_by_its_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["archive", "show", "nowhere"]) == FAILED
    assert "is not an archive" in capsys.readouterr().err
    folder = new_archive(tmp_path)
    assert run(["archive", "show", str(folder.path)]) == DONE
    assert "nothing is archived yet" in capsys.readouterr().out
    record = staged_batch(folder, 0)
    commits.commit(folder, record)
    commits.settle(folder, record)
    assert run(["archive", "show", str(folder.path), "--format", "json"]) == DONE
    assert json.loads(capsys.readouterr().out) == [
        {"topic": "orders", "partition": 0, "begin": 0, "end": 20, "records": 20, "files": 2}
    ]
