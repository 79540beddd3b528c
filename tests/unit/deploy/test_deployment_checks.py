"""Units and manifests as the tools of systemd and Kubernetes judge them, and the broker beside what its unit allows."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needed_tools import needs_tools
from tests.notify_double import NotifyDouble
from tests.process.command_line import RAFTKA

pytestmark = pytest.mark.long

# A tenth of a point: 2.0 of 10.
EXPOSURE_MAX = 20
# What the unit needs, and the oldest and the newest schemas that are checked.
KUBERNETES_VERSIONS = ("1.28", "1.37")
UNITS = {
    "by default": [],
    "with a node id and networks": ["--node-id", "3", "--allow", "10.0.0.0/24", "--data-dir", "/srv/raftka/data"],
}
MANIFESTS = {
    "by default": [],
    "with everything": [
        *("--replicas", "5", "--name", "orders", "--namespace", "shop", "--anti-affinity", "preferred"),
        *("--storage", "2Ti", "--storage-class", "fast", "--memory", "4Gi", "--cpu", "500m", "-c", "log.level=DEBUG"),
        *("--metrics-namespace", "monitoring"),
    ],
}


def generated(*arguments: str) -> str:
    done = subprocess.run([*RAFTKA, "generate", *arguments], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


@pytest.fixture(params=UNITS.values(), ids=UNITS)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    # `verify` wants a program that exists, and a user that this machine knows.
    text = generated("systemd", "--user", "daemon", "--executable", "/usr/bin/env", *request.param)
    path = tmp_path / "raftka.service"
    path.write_text(text)
    return path


@needs_tools("systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@needs_tools("systemd-analyze")
def test_the_exposure_of_the_unit_is_at_most_two_of_ten(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", unit],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Overall exposure level" in done.stdout


@needs_tools("systemd-analyze", "strace")
def test_every_system_call_of_a_broker_is_one_that_its_unit_allows(tmp_path: Path) -> None:
    unit = generated("systemd")
    allowed: set[str] = set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", unit, re.MULTILINE):
        calls = calls_of(line.removeprefix("~").split())
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    trace = tmp_path / "trace"
    run_broker(tmp_path, ["strace", "-f", "-qq", "-e", "signal=none", "-e", "trace=all", "-o", str(trace)])
    used = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)[( ]", trace.read_text(errors="replace"), re.MULTILINE))
    assert {"openat", "bind", "futex", "execve"} <= used
    # systemd allows it without being asked: the kernel sends it after a signal.
    assert sorted(used - allowed - {"restart_syscall"}) == []


def test_a_broker_runs_without_memory_that_is_both_writable_and_executable(tmp_path: Path) -> None:
    # The kernel's own form of MemoryDenyWriteExecute=, since Linux 6.3: PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN.
    program = (
        "import ctypes, os, sys\n"
        "if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0): sys.exit(77)\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    asked = subprocess.run([sys.executable, "-c", program, "/bin/true"], timeout=60, check=False)
    if asked.returncode == 77:
        pytest.skip("the kernel is older than 6.3 and has no PR_SET_MDWE")
    run_broker(tmp_path, [sys.executable, "-c", program])


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize("options", MANIFESTS.values(), ids=MANIFESTS)
def test_the_manifests_fit_the_schemas_of_kubernetes(version: str, options: list[str], tmp_path: Path) -> None:
    path = tmp_path / "raftka.yaml"
    path.write_text(generated("kubernetes", "--image", "registry.example.com/raftka:0.1.0", *options))
    program = Path(sys.executable).with_name("kubernetes-validate")
    done = subprocess.run(
        [program, "--strict", "-k", version, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count(" passed ") == 5


def calls_of(names: list[str]) -> set[str]:
    """Return the system calls of groups such as @system-service, of groups inside them, too."""
    found: set[str] = set()
    for name in names:
        if not name.startswith("@"):
            found.add(name)
            continue
        shown = subprocess.run(
            ["systemd-analyze", "syscall-filter", "--no-pager", name], check=True, capture_output=True, text=True
        )
        lines = [line.strip() for line in shown.stdout.splitlines()[1:]]
        found |= calls_of([line for line in lines if line and not line.startswith("#")])
    return found


def run_broker(folder: Path, before: list[str]) -> None:
    """Run `raftka start`, with these words before it, until it serves; let it take records, and stop it."""
    double = NotifyDouble(folder)
    keys = ["--node-id", "1", "--admin-port", "0", "--rpc-port", "0", "--kafka-port", "0"]
    command = [sys.executable, *RAFTKA[1:], "start", *keys, "--data-dir", str(folder / "data")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*before, *command], env=double.environment(), stderr=log, start_new_session=True)
        try:
            broker = double.wait_for("READY=1", 180).pid
            port = re.findall(r"listens for Kafka on [\d.]+:(\d+)", (folder / "log").read_text())[0]
            brokers = {**double.environment(), "RAFTKA_BROKERS": f"127.0.0.1:{port}"}
            for words, given in (
                (["topic", "create", "orders", "-r", "1"], ""),
                (["produce", "orders"], "x" * 1000 + "\n" + "\n".join(map(str, range(20_000)))),
                (["consume", "orders", "-e"], ""),
            ):
                subprocess.run(
                    [*RAFTKA, *words], input=given, env=brokers, check=True, capture_output=True, text=True, timeout=120
                )
            os.kill(broker, signal.SIGTERM)
            assert process.wait(120) == 0, (folder / "log").read_text()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            double.close()
