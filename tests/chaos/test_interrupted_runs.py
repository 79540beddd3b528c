"""Ctrl-C during `raftka chaos`: what was seen is judged, nothing is waited for twice, and no such run is valid."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.process.broker_processes import ClusterMaker, eventually

pytestmark = pytest.mark.process

_PROGRAM = "import sys; from raftka.cli.main import main; sys.exit(main())"


def _is_loaded(history: Path) -> bool:
    """Whether a buffer of the history was full once."""
    return history.exists() and history.stat().st_size > 0


@pytest.mark.parametrize("is_broker_killed", [False, True], ids=["all is well", "the broker is dead"])
def test_ctrl_c_ends_a_run_soon_and_it_is_not_valid(make_cluster: ClusterMaker, tmp_path: Path, is_broker_killed: bool):
    cluster = make_cluster(1)
    cluster.start()
    out = tmp_path / "run"
    options = ["--bootstrap", cluster.bootstrap, "--minutes", "3", "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, "chaos", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            eventually("a load", lambda: _is_loaded(out / "history.jsonl"))
            if is_broker_killed:
                cluster[1].kill()
            process.send_signal(signal.SIGINT)
            if is_broker_killed:
                assert process.stdout is not None
                # What Ctrl-C does next is said before it is asked for.
                told = iter(process.stdout.readline, "")
                assert any("once more gives up" in line for line in told)
                process.send_signal(signal.SIGINT)
            began = time.monotonic()
            stdout, stderr = process.communicate(timeout=90)
        finally:
            process.kill()
    assert process.returncode == 2, stdout + stderr
    assert time.monotonic() - began < 60
    assert "Traceback" not in stderr
    assert "INVALID RUN: interrupted after" in stdout
    problems = json.loads((out / "summary.json").read_text())["problems"]
    assert problems[0].startswith("interrupted after")
    assert is_broker_killed == any("before the final reads were complete" in each for each in problems)
