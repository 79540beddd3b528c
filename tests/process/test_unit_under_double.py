"""The command of the unit of `raftka generate systemd`, under a double of systemd's notify socket.

systemd itself does not run it: a systemd acts on the whole machine, and a test must not. What the unit forbids the
broker is compared with what the broker does in tests/unit/deploy/test_deployment_checks.py.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.notify_double import NotifyDouble
from tests.process.command_line import RAFTKA

pytestmark = [pytest.mark.process, pytest.mark.long]


def start(folder: Path, double: NotifyDouble, data: Path) -> "subprocess.Popen[str]":
    """Run the unit's command as the unit has it, but with files of this test."""
    file = folder / "broker.toml"
    file.write_text("node.id = 1\nkafka.port = 0\nadmin.port = 0\nrpc.port = 0\n")
    unit = subprocess.run([*RAFTKA, "generate", "systemd"], check=True, capture_output=True, text=True).stdout
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    _, *words = line.replace("/etc/raftka/broker.toml", str(file)).replace("/var/lib/raftka", str(data)).split()
    return subprocess.Popen(
        [*RAFTKA, *words], env=double.environment(1_000_000), stderr=subprocess.PIPE, text=True, cwd="/"
    )


def say_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("\nno systemd runs the unit here: its command runs under a double of systemd's notify socket")


def test_the_command_of_the_unit_serves_under_a_notify_double(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say_what_runs(capsys)
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    double = NotifyDouble(tmp_path)
    with start(tmp_path, double, data) as process:
        try:
            assert double.wait_for("READY=1").pid == process.pid
            double.wait_for("WATCHDOG=1")
            process.terminate()
            assert process.wait(90) == 0
            double.wait_for("STOPPING=1")
        finally:
            process.kill()
    double.close()


def test_the_command_of_the_unit_refuses_a_missing_directory_with_the_status_that_is_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say_what_runs(capsys)
    double = NotifyDouble(tmp_path)
    with start(tmp_path, double, tmp_path / "data") as process:
        try:
            # RestartPreventExitStatus=78 of the unit.
            assert process.wait(90) == 78
            assert not (tmp_path / "data").exists()
            assert process.stderr is not None
            status = double.wait_for("STOPPING=1").status
            assert status is not None
            assert str(tmp_path / "data") in status
            assert status in " ".join(process.stderr.read().split())
        finally:
            process.kill()
    double.close()
