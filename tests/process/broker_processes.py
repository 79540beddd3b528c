"""Clusters of real broker processes: start, wait until ready, SIGKILL, SIGTERM, restart, and always stop.

Every cluster takes a loopback network of its own, 127.X.Y.0/24 with X and Y drawn at random: node n listens on
127.X.Y.n with the same ports everywhere, so that test runs in parallel do not meet.
"""

import ctypes
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from raftka.admin_client import AdminError, get_json, not_ready_reason
from raftka.config_descriptor import config_descriptor
from raftka.dev.launcher import broker_command
from raftka.harmless_signals import harmless_signals_blocked

# Below the range that the system gives to outgoing connections: a killed broker finds its ports free again.
KAFKA_PORT = 19_092
ADMIN_PORT = 19_644
RPC_PORT = 23_145
DEADLINE_SECONDS = 90.0
_POLL_SECONDS = 0.05
_LOG_TAIL_LINES = 25
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)

T = TypeVar("T")


def eventually(what: str | Callable[[], str], probe: Callable[[], T | None], seconds: float = DEADLINE_SECONDS) -> T:
    """Return the first result of `probe` that is neither None nor False; fail with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        result = probe()
        if result is not None and result is not False:
            return result
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what if isinstance(what, str) else what()}"
        time.sleep(_POLL_SECONDS)


class BrokerProcess:
    """One broker: its folder, its configuration and, while it runs, its process.

    Attributes:
        node_id: Its number.
        host: Its address in the cluster's loopback network.
        config: The configuration, in Kafka's dotted spelling; tests may change it before a start.
        log_path: What the process writes to stdout and stderr, over all its lives.
        open_files_max: `ulimit -n` of its next life; None: as here.
        runs_by: What its next life is started by: a command that becomes the one behind it, in the same process.
        python: The interpreter of its next life, in whose environment the broker's version is.
    """

    def __init__(self, node_id: int, folder: Path, config: dict[str, Any]) -> None:
        self.node_id = node_id
        self.config = config
        self.host = str(config["kafka.address"])
        self.log_path = folder / f"node-{node_id}.log"
        self.open_files_max: int | None = None
        self.runs_by: tuple[str, ...] = ()
        self.python = sys.executable
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        return Path(self.config["data.dir"])

    @property
    def kafka(self) -> str:
        return f"{self.host}:{self.config['kafka.port']}"

    @property
    def admin(self) -> str:
        return f"{self.host}:{self.config['admin.port']}"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"node {self.node_id} does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; it dies with this one, however this one dies."""
        assert not self.is_running, f"node {self.node_id} runs already"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAFTKA_")}
        descriptor = config_descriptor(json.dumps(self.config))
        try:
            with self.log_path.open("ab") as log, harmless_signals_blocked():
                self._process = subprocess.Popen(
                    [*self.runs_by, self.python, *broker_command(self.node_id, descriptor)[1:]],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    pass_fds=(descriptor,),
                    start_new_session=True,
                    preexec_fn=_before_it_runs(self.open_files_max),
                )
        finally:
            os.close(descriptor)

    def wait_ready(self) -> None:
        """Wait until the broker serves; fails with its log if it ends or takes too long."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (reason := not_ready_reason(self.admin)) is not None:
            assert self.is_running, f"node {self.node_id} ended with exit code {self.exit_code}{self.log_tail()}"
            assert time.monotonic() < deadline, f"node {self.node_id} is not ready: {reason}{self.log_tail()}"
            time.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """SIGKILL, and reap."""
        self._stop(signal.SIGKILL)

    def terminate(self) -> int:
        """SIGTERM, wait for a clean end, and return the exit code; SIGKILL if it does not come."""
        return self._stop(signal.SIGTERM)

    def wait_exit(self) -> int:
        """Wait until the process ends by itself and return its exit code."""
        assert self._process is not None
        try:
            return self._process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"node {self.node_id} runs on{self.log_tail()}") from None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def rss_bytes(self) -> int:
        """Return the process's resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_tail(self) -> str:
        """Return the end of the log as lines for an assertion message."""
        lines = self.log_text().splitlines()[-_LOG_TAIL_LINES:]
        return "".join(f"\n  node {self.node_id} | {line}" for line in lines)

    def _stop(self, number: signal.Signals) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(DEADLINE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise AssertionError(f"node {self.node_id} did not end on {number.name}{self.log_tail()}") from None
        return self._process.returncode

    def destroy(self) -> None:
        """End the process, whatever state it is in."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()


class BrokerCluster:
    """Brokers 1 to n with one secret, in one folder and one loopback network. Whoever makes it calls `stop`."""

    def __init__(self, folder: Path, size: int, **options: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.network = _free_network(size)
        self.secret_path = folder / "secret"
        self.secret_path.touch(0o600)
        self.secret_path.write_bytes(random.randbytes(32).hex().encode())
        ids = range(1, size + 1)
        self.seeds = [f"{node}@{self.network}.{node}:{RPC_PORT}" for node in ids]
        self.brokers = {node: BrokerProcess(node, folder, self._config(node, options)) for node in ids}

    def _config(self, node: int, options: dict[str, Any]) -> dict[str, Any]:
        host = f"{self.network}.{node}"
        return {
            "node.id": node,
            "data.dir": str(self.folder / f"node-{node}"),
            "kafka.address": host,
            "kafka.port": KAFKA_PORT,
            "admin.address": host,
            "admin.port": ADMIN_PORT,
            "rpc.address": host,
            "rpc.port": RPC_PORT,
            "seeds": self.seeds,
            "cluster.secret.file": str(self.secret_path),
            # A producer that outlives its topic would make it anew.
            "auto.create.topics.enable": False,
            **options,
        }

    def stop(self) -> None:
        """End every process, whatever state it is in."""
        for broker in self.brokers.values():
            broker.destroy()

    def __getitem__(self, node: int) -> BrokerProcess:
        return self.brokers[node]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.kafka for broker in self.brokers.values())

    @property
    def running(self) -> list[BrokerProcess]:
        return [broker for broker in self.brokers.values() if broker.is_running]

    def start(self) -> None:
        """Start every broker and wait until all serve."""
        for broker in self.brokers.values():
            broker.start()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until every running broker serves."""
        for broker in self.running:
            broker.wait_ready()

    def restart(self, nodes: Iterable[int]) -> None:
        """Start brokers again and wait until all that run serve."""
        for node in nodes:
            self.brokers[node].start()
        self.wait_ready()

    def partition(self, topic: str, partition: int) -> dict[str, Any] | None:
        """Return what the admin ports say of a partition; None while none of them answers."""
        for broker in self.running:
            try:
                status, body = get_json(broker.admin, f"/v1/partitions/{topic}/{partition}")
            except AdminError:
                continue
            if status == 200:
                return dict(body)
        return None

    def leader_of(self, topic: str, partition: int, other_than: int = -1) -> int:
        """Wait until a running broker leads the partition and return its number."""

        def leader() -> int | None:
            status = self.partition(topic, partition)
            node = -1 if status is None else int(status["leader"])
            return node if node not in (-1, other_than) and self.brokers[node].is_running else None

        return eventually(f"a leader of {topic}-{partition}", leader)

    def wait_in_sync(self, topic: str, partition: int) -> None:
        """Wait until every replica is in sync and has written, fsynced and shown what the leader has."""

        def is_in_sync() -> bool:
            status = self.partition(topic, partition)
            if status is None or sorted(status["in_sync"]) != sorted(status["replicas"]):
                return False
            marks = ("dirty", "flushed", "commit", "visible")
            indexes = {position[mark]["index"] for position in status["positions"] for mark in marks}
            return len(status["positions"]) == len(status["replicas"]) and len(indexes) == 1

        eventually(lambda: f"{topic}-{partition} in sync: {self.partition(topic, partition)}", is_in_sync)

    def wait_caught_up(self, topic: str, partition: int) -> None:
        """Wait until every replica is in sync and has fsynced what any had at first: also where records keep coming."""
        wanted = None

        def has_caught_up() -> bool:
            nonlocal wanted
            status = self.partition(topic, partition)
            if status is None:
                return False
            if wanted is None:
                wanted = max(position["dirty"]["index"] for position in status["positions"])
            flushed = [position["flushed"]["index"] for position in status["positions"]]
            is_in_sync = sorted(status["in_sync"]) == sorted(status["replicas"])
            return is_in_sync and len(flushed) == len(status["replicas"]) and min(flushed) >= wanted

        eventually(lambda: f"{topic}-{partition} caught up: {self.partition(topic, partition)}", has_caught_up)

    def log_tails(self) -> str:
        """Return the ends of all logs, for an assertion message."""
        return "".join(broker.log_tail() for broker in self.brokers.values())


class ClusterMaker:
    """Makes clusters (not started) in a folder, and stops all of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.clusters: list[BrokerCluster] = []

    def __call__(self, size: int, **options: Any) -> BrokerCluster:
        cluster = BrokerCluster(self._folder / f"cluster-{len(self.clusters)}", size, **options)
        self.clusters.append(cluster)
        return cluster

    def stop(self) -> None:
        for cluster in self.clusters:
            cluster.stop()


def _before_it_runs(open_files_max: int | None) -> Callable[[], None]:
    parent = os.getpid()

    def prepare() -> None:
        if open_files_max is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files_max, open_files_max))
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _free_network(size: int) -> str:
    """Return the first three bytes of a loopback network in which no broker of another run listens."""
    while True:
        network = f"127.{random.randint(1, 254)}.{random.randint(0, 255)}"
        if all(_is_free(f"{network}.{node}") for node in range(1, size + 1)):
            return network


def _is_free(host: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, RPC_PORT)) != 0
