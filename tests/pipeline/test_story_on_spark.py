"""`make run-pipeline` without make: all is proven, and nothing is left running however it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from raftka.dev.process_identity import ProcessIdentity
from tests.process.command_line import RAFTKA, environment, read_until, started

pytestmark = [pytest.mark.process, pytest.mark.long]

STORY = [sys.executable, "-m", "raftka.pipeline.story", "--out"]
SECONDS = 840.0
PNG = b"\x89PNG\r\n\x1a\n"


def children(pid: int) -> list[ProcessIdentity]:
    """Return the processes that a process has started: brokers and a JVM."""
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [found for each in pids if (found := ProcessIdentity.of(int(each))) is not None]


def test_what_pipelines_make_of_a_load_with_lost_leaders_is_proven(tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = subprocess.run(
        [*STORY, str(out)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment() | {"TMPDIR": str(tmp_path)},
    )
    assert told.returncode == 0, told.stdout + told.stderr
    for words in ("is whole", "one for each order that is no JSON", "stood still: ", "no anomaly", "is stopped"):
        assert words in told.stdout
    assert "Traceback" not in told.stdout + told.stderr
    assert (out / "telemetry.png").read_bytes().startswith(PNG)
    assert list(tmp_path.glob("*/cluster.json")) == []
    # What `raftka check` says of the same file, in one process.
    judged = subprocess.run(
        [*RAFTKA, "check", str(out / "history.jsonl"), "--format", "json"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (judged.returncode, json.loads(judged.stdout)["valid"]) == (0, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_story_that_is_stopped_leaves_no_process_behind(number: signal.Signals, tmp_path: Path) -> None:
    with started([*STORY, str(tmp_path / "out")], TMPDIR=str(tmp_path)) as process:
        # The line behind which pipelines run, a load writes, and the story waits.
        lines = read_until(process, "")
        while "two producers write" not in lines[-1]:
            lines += read_until(process, "")
        running = children(process.pid)
        assert len(running) == 4, lines
        process.send_signal(number)
        _, complaint = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert f"The story ends here: {number.name} stopped it" in complaint
    assert "Traceback" not in complaint
    assert all(each.wait_gone(60.0) for each in running)
    assert list(tmp_path.glob("*/cluster.json")) == []


def test_a_folder_with_other_things_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    told = subprocess.run([*STORY, str(tmp_path)], capture_output=True, text=True, timeout=SECONDS, env=os.environ)
    assert told.returncode == 1
    assert "has other content" in told.stderr
    assert told.stdout == ""
