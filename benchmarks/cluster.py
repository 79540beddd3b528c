"""Three brokers in a folder on a disk, and what their admin ports tell of a topic."""

import http.client
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, TypeVar

from benchmarks.machine import wait_for_rest
from raftka.admin_client import AdminError, get_json
from raftka.dev import operations
from raftka.dev.cluster_file import BrokerEntry, ClusterFolder
from raftka.dev.supervisor import StartRequest, start_cluster
from raftka.kafka import client as kafka_client

TOPIC = "bench"
DEADLINE_SECONDS = 60.0
_POLL_SECONDS = 0.02
_NODES = 3
# What a log line says when a leadership ends or another begins.
_OF_ELECTIONS = ("stands for election", "steps down", "leaves office", "hands over", "link to", "elected by")
_LINES_MAX = 20

T = TypeVar("T")


class BenchmarkError(Exception):
    """A measurement could not be made; in one line."""


class Cluster(Protocol):
    """What a measurement needs of three brokers, whoever made them."""

    @property
    def name(self) -> str:
        """raftka or kafka."""

    @property
    def bootstrap(self) -> str:
        """HOST:PORT,... of all brokers."""

    @property
    def pids(self) -> dict[int, int]:
        """Pid by node id, of those that run."""

    def terms(self, partitions: int) -> list[int]:
        """Return the term of each partition: a changed list means that there was an election."""

    def elections(self) -> list[str]:
        """Return the newest lines of the brokers' logs that tell of elections; none where they keep no such lines."""

    def wait_in_sync(self, partitions: int) -> None:
        """Wait until every replica is in sync."""

    def topic(self, partitions: int, config: Mapping[str, str] | None = None) -> AbstractContextManager[None]:
        """Hold a topic with three replicas; afterwards it is deleted and the disk has come to rest."""


class BenchCluster:
    """Brokers that run, or did until they were killed."""

    name = "raftka"

    def __init__(self, folder: ClusterFolder) -> None:
        self._folder = folder

    @property
    def brokers(self) -> tuple[BrokerEntry, ...]:
        """The brokers as they are now, dead ones too."""
        return self._folder.load_existing().brokers

    @property
    def bootstrap(self) -> str:
        """HOST:PORT,... of all brokers."""
        return self._folder.load_existing().bootstrap

    @property
    def pids(self) -> dict[int, int]:
        """Pid by node id, of those that run."""
        return {each.node_id: each.process.pid for each in self.brokers if each.process is not None and each.is_alive}

    @property
    def folder(self) -> ClusterFolder:
        """Where its brokers keep their data, their logs and what `raftka dev` knows of them."""
        return self._folder

    def kill(self, node: int) -> None:
        """SIGKILL a broker and wait until it is gone."""
        operations.kill_broker(self._folder, node)

    def restart(self, node: int) -> None:
        """Start a broker again and wait until it serves."""
        operations.restart_broker(self._folder, node)

    def partition(self, number: int = 0, topic: str = TOPIC) -> dict[str, Any] | None:
        """Return what a running broker tells of a partition; None while none of them answers."""
        for broker in self.brokers:
            if not broker.is_alive:
                continue
            try:
                status, body = get_json(broker.addresses.admin, f"/v1/partitions/{topic}/{number}", 5.0)
            except AdminError:
                continue
            if status == 200:
                return dict(body)
        return None

    def terms(self, partitions: int) -> list[int]:
        """Return the term of each partition: a changed list means that there was an election."""
        return [int((self.partition(number) or {"term": -1})["term"]) for number in range(partitions)]

    def elections(self) -> list[str]:
        """Return the newest lines of the brokers' logs that tell of elections."""
        found = []
        for broker in self.brokers:
            lines = self._folder.log_path(broker.node_id).read_text(errors="replace").splitlines()
            found += [line for line in lines if any(words in line for words in _OF_ELECTIONS)][-_LINES_MAX:]
        return sorted(found)

    def metrics(self) -> list[str]:
        """Return the metrics of each running broker, as text.

        Raises:
            BenchmarkError: One does not answer.
        """
        return [_read_metrics(broker.addresses.admin, "/metrics") for broker in self.brokers if broker.is_alive]

    def replica_metrics(self) -> list[str]:
        """The same of each replica; an older version has all in one.

        Raises:
            BenchmarkError: One does not answer.
        """
        paths = ("/metrics/partitions", "/metrics")
        return [_read_metrics(broker.addresses.admin, *paths) for broker in self.brokers if broker.is_alive]

    def wait_in_sync(self, partitions: int) -> None:
        """Wait until every replica has written, fsynced and shown what the leader has."""
        for number in range(partitions):
            eventually(f"partition {number} in sync", partial(self._settled, number))

    def _settled(self, number: int) -> dict[str, Any] | None:
        found = self.partition(number)
        if found is None or found["leader"] == -1 or len(found["positions"]) < _NODES:
            return None
        marks = ("dirty", "flushed", "commit", "visible")
        is_equal = len({row[mark]["index"] for row in found["positions"] for mark in marks}) == 1
        return found if is_equal and len(found["in_sync"]) == _NODES else None

    @contextmanager
    def topic(self, partitions: int, config: Mapping[str, str] | None = None) -> Iterator[None]:
        """Hold a topic with three replicas; afterwards it is deleted and the disk has come to rest."""
        kafka_client.create_topic(self.bootstrap, TOPIC, partitions, _NODES, config)
        try:
            # Not before: the first leader's election would count as one during the measurement.
            self.wait_in_sync(partitions)
            yield
        finally:
            kafka_client.delete_topic(self.bootstrap, TOPIC)
            eventually("the topic is gone", lambda: self.partition(0) is None or None)
            wait_for_rest()


@contextmanager
def running_cluster(
    data_dir: Path, options: Mapping[str, str] | None = None, nodes: int = _NODES
) -> Iterator[BenchCluster]:
    """Start brokers, three if nothing is said, in a new folder below `data_dir`; stop them and remove it afterwards.

    `options` are configuration keys of the brokers; the others have their defaults.
    """
    folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=data_dir))
    cluster = None
    try:
        request = StartRequest(nodes, port=0, admin_port=0, rpc_port=0, data_dir=folder, options=dict(options or {}))
        cluster = start_cluster(request)
        cluster.wait_ready()
        yield BenchCluster(cluster.folder)
    finally:
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
        wait_for_rest()


def _read_metrics(address: str, *paths: str) -> str:
    """Return what the first of these paths answers that exists."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10.0)
    try:
        for path in paths:
            connection.request("GET", path)
            response = connection.getresponse()
            text = response.read().decode()
            if response.status == HTTPStatus.OK:
                return text
        raise BenchmarkError(f"no metrics from {address}: {response.status}")
    except (OSError, http.client.HTTPException) as error:
        raise BenchmarkError(f"no metrics from {address}: {error}") from error
    finally:
        connection.close()


class LeaderPoll:
    """One kept connection to a broker's admin port: asks cheaply whether the broker has begun to lead a partition.

    It asks for events. A version that has none is asked for its metrics, which a newer one keeps for a second.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=2.0)
        # The first event that is news.
        self._since = 1

    def leads(self, topic: str, partition: int) -> bool:
        """Return whether the broker has taken office in the partition since the last call; False without an answer.

        The first call answers for the whole life of the broker.
        """
        try:
            status, text = self._get(f"/v1/events?since={self._since}")
            if status == HTTPStatus.NOT_FOUND:
                wanted = f'raftka_partition_leader{{partition="{partition}",topic="{topic}"}} 1.0'
                return wanted in self._get("/metrics")[1]
            found = json.loads(text)
        except (OSError, ValueError, http.client.HTTPException):
            self._connection.close()
            return False
        self._since = found["next"]
        name = f"{topic}-{partition}"
        return any(event["kind"] == "leader" and event["partition"] == name for event in found["events"])

    def _get(self, path: str) -> tuple[int, str]:
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        return response.status, response.read().decode()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def eventually(what: str, probe: Callable[[], T | None], seconds: float = DEADLINE_SECONDS) -> T:
    """Ask until the answer is not None and return it.

    Raises:
        BenchmarkError: Not in time.
    """
    deadline = time.monotonic() + seconds
    while (found := probe()) is None:
        if time.monotonic() >= deadline:
            raise BenchmarkError(f"not within {seconds:.0f} s: {what}")
        time.sleep(_POLL_SECONDS)
    return found
