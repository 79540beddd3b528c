"""Two workers of Kafka Connect in distributed mode, and what their REST interface says."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from raftka.dev.ports import PortRequest, choose_addresses
from tests.ecosystem.brokers import REPLICAS
from tests.ecosystem.java_process import JavaProcess, connect_class_path
from tests.process.broker_processes import eventually

GROUP = "connect"
CONFIGS, OFFSETS, STATUSES = "connect.configs", "connect.offsets", "connect.statuses"
_CLASS = "org.apache.kafka.connect.cli.ConnectDistributed"
_STRINGS = "org.apache.kafka.connect.storage.StringConverter"
# A worker that starts scans its class path, and takes part in its group.
_START_SECONDS = 150.0
_ANSWER_SECONDS = 30.0
_NAMES = ("left", "right")


class Workers:
    """Two workers of one group; whoever makes them calls `close`.

    Args:
        bootstrap: The brokers.
        folder: For properties and logs.
        is_exactly_once: Whether sources write in transactions.
        find_class_path: Finds the jars of Connect and of its connectors.
    """

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        *,
        is_exactly_once: bool,
        find_class_path: Callable[[], str] = connect_class_path,
    ) -> None:
        addresses = choose_addresses(len(_NAMES), PortRequest(0, 0, 0))
        self._urls = {name: f"http://{each.admin}" for name, each in zip(_NAMES, addresses, strict=True)}
        common = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "config.storage.topic": CONFIGS,
            "offset.storage.topic": OFFSETS,
            "status.storage.topic": STATUSES,
            **{f"{each}.storage.replication.factor": REPLICAS for each in ("config", "offset", "status")},
            # The default of 25 takes longer to make than all else does.
            "offset.storage.partitions": 3,
            "offset.flush.interval.ms": 1_000,
            "key.converter": _STRINGS,
            "value.converter": _STRINGS,
            "exactly.once.source.support": "enabled" if is_exactly_once else "disabled",
            # The tasks of a worker that was killed wait that long for it.
            "scheduled.rebalance.max.delay.ms": 3_000,
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 2_000,
        }
        self._workers = {
            name: JavaProcess(_CLASS, {**common, "listeners": url}, folder, f"worker-{name}", find_class_path)
            for name, url in self._urls.items()
        }

    def start(self) -> None:
        """Start both, and wait until they answer."""
        for worker in self._workers.values():
            worker.start()
        for name in _NAMES:
            self._wait_answers(name)

    def create(self, connector: str, config: Mapping[str, str]) -> None:
        """Create a connector, and wait until its task runs."""

        def is_created() -> bool:
            return self._ask(_NAMES[0], f"/connectors/{connector}/config", config) is not None

        eventually(lambda: f"connector {connector}{self.ends_of_logs()}", is_created)
        self.wait_runs(connector)

    def wait_runs(self, connector: str) -> None:
        """Wait until the connector has one task, and it runs."""
        eventually(
            lambda: f"{connector} runs: {self._status(connector)}{self.ends_of_logs()}",
            lambda: self._task(connector) is not None,
            _START_SECONDS,
        )

    def worker_of(self, connector: str) -> str:
        """Return the name of the worker that has the connector's task."""
        worker = eventually("a worker has the task", lambda: self._task(connector), _START_SECONDS)
        return next(name for name, url in self._urls.items() if url == f"http://{worker}")

    def kill(self, name: str) -> None:
        """SIGKILL, and reap."""
        self._workers[name].kill()

    def restart(self, name: str) -> None:
        """Start a worker that was killed, and wait until it answers."""
        self._workers[name].start()
        self._wait_answers(name)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.kill()

    def ends_of_logs(self) -> str:
        """Return the ends of the logs of both."""
        return "".join(worker.log_end() for worker in self._workers.values())

    def _wait_answers(self, name: str) -> None:
        def answers() -> bool:
            self._workers[name].check_runs()
            return self._ask(name, "/connectors") is not None

        eventually(lambda: f"{name} answers:{self._workers[name].log_end()}", answers, _START_SECONDS)

    def _task(self, connector: str) -> str | None:
        status = self._status(connector) or {"tasks": []}
        return next((str(task["worker_id"]) for task in status["tasks"] if task["state"] == "RUNNING"), None)

    def _status(self, connector: str) -> Any:
        answers = (self._ask(name, f"/connectors/{connector}/status") for name in _NAMES)
        return next((answer for answer in answers if answer is not None), None)

    def _ask(self, name: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """Return what a worker answers; None if it does not, or is amid a rebalance."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._urls[name]}{path}", data, {"Content-Type": "application/json"})
        request.method = "GET" if body is None else "PUT"
        try:
            with urlopen(request, timeout=_ANSWER_SECONDS) as answer:
                return json.load(answer)
        except HTTPError as error:
            with error:
                said = error.read()[:500]
            # Not there yet, amid a rebalance, or without a leader.
            if error.code in (404, 409, 500, 503):
                return None
            raise AssertionError(f"{path}: {error.code} {said!r}") from None
        except OSError:
            return None
