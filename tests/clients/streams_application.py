"""Kafka Streams' own program for tests of exactly once (`StreamsEosTest`), which Kafka's test jar has.

It has modes. `run` writes random numbers under random keys to the topic `data`. `process` is an instance of an
application: it copies `data`, and keeps the least number and the sum of each key. `process-complex` also keeps, of the
copies behind a second topic, the greatest number and the count. `verify` and `verify-complex` read all topics at
read_committed up to what the application has committed, do the sums themselves, and compare them record by record.

Nothing of that program is in this repository: Maven fetches the jar that `java/streams/pom.xml` names.
"""

import re
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import NewTopic

from raftka.kafka import client as kafka_client
from tests.clients.programs import JAVA, streams_class_path
from tests.process.broker_processes import DEADLINE_SECONDS, eventually
from tests.process.kafka_topics import admin_client, request_topic

PARTITIONS = 2
# The program's names: its application, which is its group too, and the topics that it reads and writes.
_APPLICATION = "EosTest"
_SOURCE = "data"
_PLAIN_TOPICS = (_SOURCE, "echo", "min", "sum", "repartition", "max", "cnt")
# Streams numbers the parts of a topology: these are the stores of the four aggregations, each with a topic of changes.
_STORES = (3, 7, 14, 18)
# Those of `process`, which is the first half of the topology.
_SIMPLE_STORES = _STORES[:2]


def _changelog(store: int) -> str:
    return f"{_APPLICATION}-KSTREAM-AGGREGATE-STATE-STORE-{store:010d}-changelog"


_CHANGELOGS = tuple(map(_changelog, _STORES))

_CLASS = "org.apache.kafka.streams.tests.StreamsEosTest"
# Of the topics that exist beforehand. Apache Kafka gets the same.
_TOPIC_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1"}
_OPTIONS = {
    "processing.guarantee": "exactly_once_v2",
    # A group waits that long for an instance that was killed.
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "2000",
}
# About 200 inputs are written each second, and the program commits every 5 s: this is more than one commit.
_STEP_INPUTS = 1500
# An instance that comes back first waits for its group, and then reads the topics of changes.
_STEP_SECONDS = 180.0
# The program's own patience is 600 s.
_VERIFY_SECONDS = 300.0
_LOG_END = 3_000

_WRITTEN = re.compile(r"Producer closed: (\d+) records produced")


def create_topics(bootstrap: str, replicas: int) -> None:
    """Create all topics of the program with the policy delete, and wait until each partition has a leader."""
    request_topics(bootstrap, (*_PLAIN_TOPICS, *_CHANGELOGS), replicas)


def create_plain_topics(bootstrap: str, replicas: int) -> None:
    """Do the same for the topics that the program does not create itself."""
    request_topics(bootstrap, _PLAIN_TOPICS, replicas)


def request_topics(bootstrap: str, topics: Iterable[str], replicas: int) -> None:
    """Create topics with the policy delete, and wait until each partition has a leader."""
    for topic in topics:
        request_topic(bootstrap, NewTopic(topic, PARTITIONS, replicas, config=_TOPIC_CONFIG))

    def are_led() -> bool:
        found = kafka_client.read_cluster(bootstrap).topics
        every = [found.get(topic, []) for topic in topics]
        return all(len(each) == PARTITIONS and all(one.leader != -1 for one in each) for each in every)

    eventually("all topics of Kafka Streams have leaders", are_led)


def check_topics_are_as_created(bootstrap: str) -> None:
    """Fail if the application made topics of its own, or gave one that it found another policy."""
    assert policies_of(bootstrap, _APPLICATION) == dict.fromkeys(_CHANGELOGS, "delete")


def check_application_made_changelogs(bootstrap: str, suffix: str) -> None:
    """Fail unless the application of `process` or `process-complex` made its compacted topics, and no others."""
    stores = _STORES if suffix else _SIMPLE_STORES
    assert policies_of(bootstrap, _APPLICATION) == dict.fromkeys(map(_changelog, stores), "compact")


def policies_of(bootstrap: str, application: str) -> dict[str, str]:
    """Return the clean-up policy of each topic whose name begins with the application's."""
    names = sorted(name for name in kafka_client.read_cluster(bootstrap).topics if name.startswith(application))
    return {name: kafka_client.read_topic_config(bootstrap, name)["cleanup.policy"] for name in names}


def inputs_done(bootstrap: str, application: str, source: str) -> int | None:
    """Return how many records of the source an application has committed; None: no coordinator answers."""
    asked = [ConsumerGroupTopicPartitions(application)]
    # Held until it has answered: the answer goes with the client.
    admin = admin_client(bootstrap)
    try:
        answer = admin.list_consumer_group_offsets(asked)[application].result(DEADLINE_SECONDS)
    except KafkaException:
        return None
    offsets = [each.offset for each in answer.topic_partitions if each.topic == source]
    return sum(max(offset, 0) for offset in offsets)


class StreamsProcess:
    """One life of one of Kafka Streams' own programs in one of its modes."""

    def __init__(self, main_class: str, mode: str, properties: Path, log: Path) -> None:
        self._log = log
        self._mode = mode
        command = [*JAVA, "-Dlog4j2.level=WARN", "-cp", streams_class_path(), main_class, str(properties), mode]
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def check_runs(self) -> None:
        code = self._process.poll()
        assert code is None, f"{self._mode} has ended with {code}:\n{self.said()[-_LOG_END:]}"

    def kill(self) -> None:
        """SIGKILL if it runs, and reap."""
        self._process.kill()
        self._process.wait()

    def ask_to_end(self) -> None:
        self.check_runs()
        self._process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        """Return the exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self._mode} does not end:\n{self.said()[-_LOG_END:]}") from None


class StreamsApplication:
    """Instances of the application, and the program that writes inputs for them; whoever makes it calls `close`.

    Args:
        bootstrap: The brokers, which have the topics of `create_topics`.
        folder: For states, properties and what the processes say.
        suffix: Of the modes: "-complex", or nothing.
    """

    def __init__(self, bootstrap: str, folder: Path, suffix: str = "-complex") -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._suffix = suffix
        self._lives = 0
        self._done = 0
        self._instances: dict[str, StreamsProcess] = {}
        self._inputs = self._process("run", "inputs")

    def _process(self, mode: str, name: str) -> StreamsProcess:
        self._lives += 1
        properties = self._folder / f"{name}.properties"
        options = {"bootstrap.servers": self._bootstrap, "state.dir": str(self._folder / name), **_OPTIONS}
        properties.write_text("".join(f"{key}={value}\n" for key, value in options.items()), encoding="utf-8")
        return StreamsProcess(_CLASS, mode, properties, self._folder / f"{name}-{self._lives}.log")

    def start(self, instance: str) -> None:
        """Start an instance, and wait until it has its part of the partitions and their states."""
        # An instance that was killed finds its folder again, and takes its transactional id over.
        process = self._instances[instance] = self._process(f"process{self._suffix}", instance)

        def is_at_work() -> bool:
            process.check_runs()
            return "-> RUNNING" in process.said()

        eventually(lambda: f"{instance} is at work:\n{process.said()[-_LOG_END:]}", is_at_work, _STEP_SECONDS)

    def kill(self, instance: str) -> None:
        """SIGKILL, and reap."""
        self._instances.pop(instance).kill()

    def wait_more(self) -> None:
        """Wait until the instances have committed some more inputs as done."""
        count = self._inputs_done() + _STEP_INPUTS
        self._wait_done(count)

    def end_inputs(self) -> None:
        """Let no more inputs be written, and wait until the instances have done all."""
        self._inputs.ask_to_end()
        self._inputs.wait(_STEP_SECONDS)
        written = _WRITTEN.search(self._inputs.said())
        assert written is not None, self._inputs.said()[-_LOG_END:]
        self._wait_done(int(written[1]))
        assert self._inputs_done() == int(written[1])

    def end(self) -> None:
        """Let the instances end in good order."""
        for process in self._instances.values():
            process.ask_to_end()
        for name, process in self._instances.items():
            process.wait(_STEP_SECONDS)
            assert "EOS-TEST-CLIENT-CLOSED" in process.said(), f"{name}:\n{process.said()[-_LOG_END:]}"
        self._instances.clear()

    def verify(self) -> None:
        """Let the program compare all outputs with all inputs; fails with what it says."""
        verifier = self._process(f"verify{self._suffix}", "verifier")
        try:
            code = verifier.wait(_VERIFY_SECONDS)
        finally:
            verifier.kill()
        assert code == 0, verifier.said()[-_LOG_END:]
        assert "ALL-RECORDS-DELIVERED" in verifier.said(), verifier.said()[-_LOG_END:]

    def close(self) -> None:
        """Kill what still runs."""
        for process in (self._inputs, *self._instances.values()):
            process.kill()

    def _wait_done(self, count: int) -> None:
        def is_done() -> bool:
            for process in self._instances.values():
                process.check_runs()
            return self._inputs_done() >= count

        eventually(lambda: f"{count} inputs done, now {self._done}{self._ends_of_logs()}", is_done, _STEP_SECONDS)

    def _inputs_done(self) -> int:
        """Return how many inputs are committed as done; what was known last while no coordinator answers."""
        done = inputs_done(self._bootstrap, _APPLICATION, _SOURCE)
        if done is not None:
            self._done = done
        return self._done

    def _ends_of_logs(self) -> str:
        every = {"inputs": self._inputs, **self._instances}
        return "".join(f"\n{name}:\n{process.said()[-_LOG_END:]}" for name, process in every.items())
