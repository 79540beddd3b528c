"""Cures of alerts, typed on a dev cluster as docs/operations/alerts.md shows them, and what /metrics says meanwhile."""

import re
import resource
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO
from urllib.request import urlopen

import pytest

from raftka.admin_client import not_ready_reason
from raftka.dev.cluster_file import ClusterFolder, ClusterState
from raftka.dev.launcher import broker_config, hang_file, launch
from raftka.dev.process_identity import ProcessIdentity
from raftka.monitoring.alerts import ALERTS
from tests.process.broker_processes import eventually
from tests.process.command_line import FREE_PORTS, RAFTKA, environment, raftka

BY_NAME = {alert.name: alert for alert in ALERTS}
NODES = (1, 2, 3)
SECONDS = 60.0
# Whose cures are typed, and by which test: filled when the modules of these tests are imported.
CURED: dict[str, str] = {}


def of_alerts(*runs: str) -> pytest.MarkDecorator:
    """Run a test once for each argument: the name of an alert, or several with `+` between.

    The test takes the fixture `cures`, which fails where it has left out a command of one of these alerts.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        for run in runs:
            for name in run.split("+"):
                assert name in BY_NAME, name
                # Again, where a module is imported by another name, too.
                typed_by = CURED.setdefault(name, test.__name__)
                assert typed_by == test.__name__, f"{name}: {typed_by} types its cure already"
        decorated: Callable[..., None] = pytest.mark.parametrize("cures", runs, indirect=True)(test)
        return decorated

    return decorate  # type: ignore[return-value]


@dataclass(frozen=True)
class Operator:
    """Somebody at a terminal beside a dev cluster in its default folder, who has set RAFTKA_BROKERS.

    Attributes:
        home: XDG_DATA_HOME, below which the cluster is.
    """

    home: Path

    @property
    def folder(self) -> ClusterFolder:
        return ClusterFolder(self.home / "raftka" / "dev")

    @property
    def state(self) -> ClusterState:
        return self.folder.load_existing()

    def type(self, line: str, code: int = 0, stdin: str = "") -> str:
        """Type a command of `raftka`, which must end with `code`, and return all that it prints."""
        program, *words = shlex.split(line)
        assert program == "raftka"
        done = raftka(*words, stdin=stdin, code=code, **self._variables())
        return done.stdout + done.stderr

    def restart_with_few_files(self, node: int, most: int) -> None:
        """Restart a broker from a shell that allows so many open files."""
        line = f"ulimit -n {most} && exec {shlex.join([*RAFTKA, 'dev', 'restart', str(node)])}"
        subprocess.run(["sh", "-c", line], check=True, env=environment() | self._variables(), timeout=SECONDS)

    def _variables(self) -> dict[str, str]:
        # The cluster is not there yet when `raftka dev` is typed.
        known = {"RAFTKA_BROKERS": self.state.bootstrap} if self.folder.state_path.exists() else {}
        return {"XDG_DATA_HOME": str(self.home), **known}

    @contextmanager
    def typing(self, line: str) -> Iterator[IO[str]]:
        """Type a command of `raftka`, and yield its stdin; afterwards it is killed, if it has not ended."""
        variables = environment() | self._variables()
        words = [*RAFTKA, *shlex.split(line)[1:]]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=variables) as it:
            assert it.stdin is not None
            try:
                yield it.stdin
            finally:
                it.kill()

    def start(self, **options: str | int) -> None:
        """Start three brokers with these options, `.` spelled `_`."""
        given = [f"-c {name.replace('_', '.')}={value}" for name, value in options.items()]
        self.type(" ".join(["raftka dev -n 3 --detach", *FREE_PORTS, *given]))

    def pid(self, node: int) -> int:
        """Return the process of a broker that runs."""
        return self._process(node).pid

    def freeze(self, *nodes: int) -> None:
        """Stop brokers with SIGSTOP."""
        for node in nodes:
            assert self._process(node).send_signal(signal.SIGSTOP)

    def wake(self, *nodes: int) -> None:
        """Let brokers go on; those that have ended need nothing."""
        for node in nodes:
            self._process(node).send_signal(signal.SIGCONT)

    def stop(self, node: int) -> None:
        """End a broker with SIGTERM."""
        process = self._process(node)
        assert process.send_signal(signal.SIGTERM)
        assert process.wait_gone(SECONDS)

    def _process(self, node: int) -> ProcessIdentity:
        process = self.state.broker(node).process
        assert process is not None
        return process

    def admin(self, node: int) -> str:
        return self.state.broker(node).addresses.admin

    def values(self, name: str, *nodes: int, labels: str = "") -> list[float]:
        """Return the samples of a name at all brokers that answer, or at some; `labels` as they are exposed."""
        shown = rf"\{{[^}}]*{re.escape(labels)}[^}}]*\}}"
        sample = re.compile(rf"^{name}{shown if labels else f'(?:{shown})?'} (\S+)$", re.MULTILINE)
        found = []
        for broker in self.state.brokers:
            if broker.is_alive and broker.node_id in (nodes or NODES):
                try:
                    with urlopen(f"http://{broker.addresses.admin}/metrics", timeout=2) as answer:
                        text = answer.read().decode()
                except OSError:
                    continue
                found += [float(value) for value in sample.findall(text)]
        return found

    def is_well(self) -> bool:
        """Whether all three brokers serve, and all replicas are in sync."""
        # One that opens its replicas has no figures of them, and its peers have not missed it yet.
        if any(not_ready_reason(broker.addresses.admin) is not None for broker in self.state.brokers):
            return False
        wanted = (
            *(("raftka_cluster_brokers_alive", [3]), ("raftka_cluster_offline_partitions", [0])),
            *(("raftka_under_replicated_partitions", [0, 0, 0]), ("raftka_under_min_isr_partitions", [0, 0, 0])),
            *(("raftka_peer_up", [1] * 6), ("raftka_failed_replicas", [0, 0, 0])),
            ("raftka_disk_in_doubt", [0, 0, 0]),
        )
        return all(self.values(name) == expected for name, expected in wanted)

    def wait_well(self) -> None:
        eventually("the cluster is well", self.is_well, SECONDS)

    def wait_no_problem(self) -> None:
        """Wait until also the doctor finds no problem: it may ask a broker that has just missed a heartbeat."""
        command, variables = [*RAFTKA, "doctor", "cluster"], environment() | self._variables()

        def finds_none() -> bool:
            return subprocess.run(command, env=variables, capture_output=True, timeout=SECONDS).returncode == 0

        eventually("the doctor finds no problem", finds_none, SECONDS)

    def log(self, node: int) -> str:
        """Return the end of a broker's log without its usual lines, for a failed wait."""
        lines = self.folder.log_path(node).read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines[-1000:] if " INFO " not in line)

    @contextmanager
    def with_hang_file(self, node: int) -> Iterator[Path]:
        """Restart a broker so that its appends hang while the file exists that is yielded; afterwards as it was."""
        self.stop(node)
        state = self.state
        broker = state.broker(node)
        path = hang_file(self.folder, node)
        child = launch(self.folder, broker, broker_config(self.folder, state, broker), tied=True, has_hang_file=True)
        try:
            with self.folder.locked():
                self.folder.save(state.with_process(node, ProcessIdentity.of(child.pid)))
            yield path
        finally:
            path.unlink(missing_ok=True)
            child.terminate()
            child.wait(SECONDS)
            self.type(f"raftka dev restart {node}")

    def leave_few_descriptors(self, node: int) -> None:
        """Let a broker that runs have little more descriptors than it has open."""
        self._limit_descriptors(node, len(self._descriptors(node)) + 1)

    def leave_no_descriptor(self, node: int) -> None:
        """Let a broker that runs open nothing more: the kernel counts by the lowest number that is free."""
        used = self._descriptors(node)
        self._limit_descriptors(node, next(number for number in count() if number not in used))

    def _descriptors(self, node: int) -> set[int]:
        return {int(each.name) for each in Path(f"/proc/{self.pid(node)}/fd").iterdir()}

    def _limit_descriptors(self, node: int, most: int) -> None:
        _, hard = resource.prlimit(self.pid(node), resource.RLIMIT_NOFILE)
        resource.prlimit(self.pid(node), resource.RLIMIT_NOFILE, (most, hard))


@dataclass
class Cures:
    """The cures that a test types.

    Attributes:
        names: Of which alerts.
        operator: Who types.
        left: (alert, command) of what has not been typed yet.
    """

    names: tuple[str, ...]
    operator: Operator
    left: set[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.left = {(name, command) for name in self.names for command in BY_NAME[name].commands}

    @property
    def name(self) -> str:
        """The one alert of this run."""
        (name,) = self.names
        return name

    def type(self, command: str, *says: str, code: int = 0, of: str = "", **places: str | int) -> str:
        """Type a command of the cures with `N=2`, `TOPIC="orders"` and so on; it must print all of `says`.

        Without `of` it belongs to all alerts of the run that have it.
        """
        known = {(name, command) for name in ([of] if of else self.names) if command in BY_NAME[name].commands}
        assert known, f"{command}: no cure of {of or self.names}"
        self.left -= known
        line = re.sub(r"\b[A-Z]+\b", lambda found: str(places[found[0]]), command)
        said = self.operator.type(line, code)
        for words in says:
            assert re.search(words, said), f"{line} does not say {words!r}:\n{said}"
        return said
