"""Three brokers of Apache Kafka (KRaft, combined roles) in a folder on a disk.

Their settings are Kafka's defaults and its start scripts' JVM options, but for addresses, folders, and
`log.segment.delete.delay.ms`: 2 s instead of 60 s, so that a deleted topic leaves the disk before the next run.
"""

import base64
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from benchmarks.cluster import TOPIC, BenchmarkError, eventually
from benchmarks.kafka.jars import class_path
from benchmarks.machine import wait_for_rest
from raftka.dev.ports import BrokerAddresses, PortRequest, choose_addresses
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError

_NODES, _REPLICAS = 3, 3
_START_SECONDS = 120.0
# One that has lost its quorum while stopping waits for it in vain.
_STOP_SECONDS = 10.0
_REQUEST_SECONDS = 10.0
_LOGGING = Path(__file__).with_name("log4j2.properties")
# What kafka-server-start.sh and kafka-run-class.sh give the JVM when nobody says otherwise.
_HEAP = "1G"
_TIED = ["setpriv", "--pdeathsig", "KILL"]
_JVM = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
]


def java_command(main_class: str, *arguments: str) -> list[str]:
    """Return the command line of one of Kafka's tools."""
    return ["java", *_JVM, f"-Dlog4j2.configurationFile={_LOGGING}", "-cp", class_path(), main_class, *arguments]


class KafkaCluster:
    """Brokers that run; the interface is that of `benchmarks.cluster.BenchCluster`."""

    name = "kafka"

    def __init__(
        self,
        folder: Path,
        addresses: list[BrokerAddresses],
        properties: Mapping[str, object] | None = None,
        heap: str = _HEAP,
    ) -> None:
        self._folder = folder
        self._heap = heap
        self._addresses = addresses
        self._more_properties = dict(properties or {})
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """HOST:PORT,... of all brokers."""
        return ",".join(each.kafka for each in self._addresses)

    @property
    def pids(self) -> dict[int, int]:
        """Pid by node id, of those that run."""
        return {node: child.pid for node, child in self._children.items() if child.poll() is None}

    def log_path(self, node: int) -> Path:
        """Return the file of what a broker logs."""
        return self._folder / f"broker-{node}.log"

    def start(self) -> None:
        """Format the storage, start the brokers and wait until they are one cluster."""
        cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A")
        nodes = range(1, len(self._addresses) + 1)
        formatting = [self._format(node, cluster_id) for node in nodes]
        for child in formatting:
            out, _ = child.communicate(timeout=_START_SECONDS)
            if child.returncode != 0:
                raise BenchmarkError(f"Kafka could not format its storage: {out[-300:].decode(errors='replace')}")
        for node in nodes:
            with self.log_path(node).open("ab") as log:
                command = java_command("kafka.Kafka", str(self._properties_path(node)))
                command[1:1] = [f"-Xms{self._heap}", f"-Xmx{self._heap}"]
                # A harness that is killed leaves no JVMs behind.
                command[:0] = _TIED if shutil.which(_TIED[0]) else []
                self._children[node] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, start_new_session=True
                )
        eventually("Kafka's brokers are one cluster", self._is_complete, _START_SECONDS)

    def stop(self) -> None:
        """Stop the brokers in good order; those that take too long are killed."""
        for child in self._children.values():
            child.send_signal(signal.SIGTERM)
        for child in self._children.values():
            try:
                child.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def terms(self, partitions: int) -> list[int]:
        """Return the leader epoch of each partition; -1 where it has none yet."""
        return eventually("every partition has a leader", lambda: self._read_terms(partitions))

    def _read_terms(self, partitions: int) -> list[int] | None:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(TOPIC, number): latest for number in range(partitions)}
        try:
            with kafka_client.one_line_errors(self.bootstrap):
                admin = kafka_client.new_admin(self.bootstrap)
                futures = admin.list_offsets(wanted, request_timeout=_REQUEST_SECONDS)
                found = {each.partition: future.result(2 * _REQUEST_SECONDS) for each, future in futures.items()}
        except KafkaClientError:
            # A broker may not have heard yet that it leads, or does not lead any more.
            return None
        epochs = (found[number].leader_epoch for number in range(partitions))
        return [-1 if epoch is None else epoch for epoch in epochs]

    def elections(self) -> list[str]:
        """Return nothing: the controller's log tells of them, in other words."""
        return []

    def wait_in_sync(self, partitions: int) -> None:
        """Wait until every replica is in the in-sync set."""
        eventually("every replica is in sync", lambda: self._in_sync(partitions))

    @contextmanager
    def topic(self, partitions: int, config: Mapping[str, str] | None = None) -> Iterator[None]:
        """Hold a topic with three replicas; afterwards it is deleted and the disk has come to rest."""
        kafka_client.create_topic(self.bootstrap, TOPIC, partitions, _REPLICAS, config)
        try:
            self.wait_in_sync(partitions)
            yield
        finally:
            kafka_client.delete_topic(self.bootstrap, TOPIC)
            eventually("the topic is gone", lambda: TOPIC not in self._topics() or None)
            wait_for_rest()

    def _in_sync(self, partitions: int) -> bool | None:
        found = self._topics().get(TOPIC, [])
        is_full = len(found) == partitions and all(
            each.leader != -1 and len(each.in_sync) == _REPLICAS for each in found
        )
        return is_full or None

    def _topics(self) -> dict[str, list[kafka_client.PartitionInfo]]:
        return kafka_client.read_cluster(self.bootstrap).topics

    def _is_complete(self) -> bool | None:
        for node, child in self._children.items():
            if child.poll() is not None:
                tail = self.log_path(node).read_bytes()[-500:].decode(errors="replace")
                raise BenchmarkError(f"Kafka's broker {node} ended with {child.returncode}: {tail}")
        try:
            return len(kafka_client.read_cluster(self.bootstrap, 2.0).brokers) == len(self._addresses) or None
        except KafkaClientError:
            return None

    def _format(self, node: int, cluster_id: str) -> "subprocess.Popen[bytes]":
        path = self._properties_path(node)
        path.write_text("".join(f"{key}={value}\n" for key, value in self._properties(node).items()))
        command = java_command("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(path))
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self._folder)

    def _properties(self, node: int) -> dict[str, object]:
        own = self._addresses[node - 1]
        return {
            "process.roles": "broker,controller",
            "node.id": node,
            "controller.quorum.voters": ",".join(f"{i}@{each.rpc}" for i, each in enumerate(self._addresses, 1)),
            "listeners": f"PLAINTEXT://{own.kafka},CONTROLLER://{own.rpc}",
            "advertised.listeners": f"PLAINTEXT://{own.kafka}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self._folder / f"data-{node}",
            "log.segment.delete.delay.ms": 2000,
            **self._more_properties,
        }

    def _properties_path(self, node: int) -> Path:
        return self._folder / f"server-{node}.properties"


@contextmanager
def running_kafka(
    data_dir: Path, nodes: int = _NODES, properties: Mapping[str, object] | None = None, heap: str = _HEAP
) -> Iterator[KafkaCluster]:
    """Start brokers, three if nothing is said, in a new folder below `data_dir`; stop and remove them afterwards.

    `properties` are added to those of each broker. `heap` is the size of its heap, as -Xmx has it.
    """
    # Before the folder is made: the first time this downloads a hundred jars.
    class_path()
    folder = Path(tempfile.mkdtemp(prefix="kafka-", dir=data_dir.resolve()))
    cluster = KafkaCluster(folder, choose_addresses(nodes, PortRequest(0, 0, 0)), properties, heap)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
        wait_for_rest()
