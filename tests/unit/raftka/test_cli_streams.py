"""What is said where stdin, stdout or stderr are closed, or take nothing."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.process.command_line import RAFTKA, SECONDS, environment


def run_in_shell(arguments: str, redirection: str) -> "subprocess.CompletedProcess[str]":
    """Run `raftka` with the standard streams as a shell redirects them."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *RAFTKA, *arguments.split()],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment(),
    )


@pytest.mark.parametrize("arguments", ["version", "--help", "topic list", "consume t -e", "produce t"])
def test_a_closed_stdout_is_one_line(arguments: str) -> None:
    done = run_in_shell(arguments, ">&-")
    assert (done.returncode, done.stderr) == (1, "raftka: cannot write to stdout: it is closed\n")


@pytest.mark.parametrize("arguments", ["version", "--help"])
def test_a_full_stdout_is_one_line(arguments: str) -> None:
    done = run_in_shell(arguments, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """Return a device that takes nothing, of our own."""
    path = tmp_path / "full"
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 7))
        path.open("wb").close()
    except OSError:
        pytest.skip("no devices can be made here")
    return path


# The dashboard is more than a buffer takes: the write fails within the command.
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", ["version", "generate grafana", "generate systemd", "debug log {}"])
def test_a_full_stdout_is_named(
    arguments: str, unbuffered: str, full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    (tmp_path / "groups").mkdir()
    done = run_in_shell(arguments.format(tmp_path), f">{full}")
    assert (done.returncode, done.stderr) == (1, "raftka: cannot write to stdout: No space left on device\n")


def test_a_closed_stdin_is_named_by_who_reads_it() -> None:
    done = run_in_shell("produce t", "<&-")
    assert (done.returncode, done.stderr) == (1, "raftka: cannot read stdin: it is closed\n")
    assert run_in_shell("version", "<&-").returncode == 0


def test_what_is_said_on_a_closed_stderr_does_not_come_out_of_stdout() -> None:
    done = run_in_shell("nonsense", "2>&-")
    assert (done.returncode, done.stdout) == (64, "")
