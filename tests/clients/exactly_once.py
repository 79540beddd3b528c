"""The programs of docs/exactly-once.md as processes, inputs for them, and how far they have got."""

import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer

from benchmarks.report import ROOT
from tests.clients.programs import go_program_of, java_program_of
from tests.needed_tools import needs_tools
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, eventually
from tests.process.committed_records import END, CommittedReader
from tests.process.kafka_topics import admin_client

PAGE = ROOT / "docs" / "exactly-once.md"
PARTITIONS = 2

# A block of code names its file in its first line.
_PROGRAM = re.compile(r"^```\w+\n(?:#|//) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A few hundred inputs a second leave the processor to the brokers.
_INPUTS_PER_STEP = 4
_STEP_SECONDS = 0.02


def _python(source: Path) -> list[str]:
    return [sys.executable, str(source)]


_LONG = pytest.mark.long
# By client: the program's file, what makes it a command, and the marks of its tests.
PROGRAMS: Mapping[str, tuple[str, Callable[[Path], list[str]], tuple[pytest.MarkDecorator, ...]]] = {
    "confluent-kafka": ("exactly_once_librdkafka.py", _python, ()),
    "aiokafka": ("exactly_once_aiokafka.py", _python, ()),
    # It may stand still for 20 s for each coordinator that dies.
    "kafka-python": ("exactly_once_kafka_python.py", _python, (_LONG,)),
    "Java": ("ExactlyOnce.java", java_program_of, (_LONG, needs_tools("java", "javac", "mvn"))),
    "franz-go": ("exactly_once.go", go_program_of, (_LONG, needs_tools("go"))),
}


def programs_of_page() -> dict[str, str]:
    """Return the code of each program of the page, by the name of its file."""
    return dict(_PROGRAM.findall(PAGE.read_text(encoding="utf-8")))


def program_command(client: str, folder: Path) -> list[str]:
    """Return the command of a client's program, which is written to a folder as it is on the page."""
    name, command, _ = PROGRAMS[client]
    source = folder / name
    source.write_text(programs_of_page()[name], encoding="utf-8")
    return command(source)


class Pipeline:
    """Instances of one program that read a topic and write another one; the target names the group as well.

    Args:
        command: The program.
        brokers: Their addresses.
        source, target: The topics, each with `PARTITIONS` partitions.
        folder: For what the instances say.

    Attributes:
        source, target: The topics.
    """

    def __init__(self, command: list[str], brokers: str, source: str, target: str, folder: Path) -> None:
        self._command = command
        self._brokers = brokers
        self.target = target
        self.source = source
        self._folder = folder
        self._instances: dict[str, subprocess.Popen[bytes]] = {}
        self._reader = CommittedReader(brokers, target, range(PARTITIONS))

    def start(self, instance: str) -> None:
        with self._log(instance).open("ab") as log:
            words = [*self._command, self._brokers, self.source, self.target, instance]
            self._instances[instance] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self, instance: str) -> None:
        """SIGKILL, and reap."""
        self._instances[instance].kill()
        self._instances.pop(instance).wait()

    def close(self) -> None:
        """Kill all instances."""
        for instance in list(self._instances):
            self.kill(instance)
        self._reader.close()

    def _log(self, instance: str) -> Path:
        return self._folder / f"{instance}.log"

    def outputs(self) -> Counter[str]:
        """Return how often each output was read so far at read_committed."""
        self.keep_running()
        return self._reader.counts

    def keep_running(self) -> None:
        """Start an instance again that its own alarm has ended, as the page says; any other end fails."""
        for instance, process in list(self._instances.items()):
            ended_with = process.poll()
            if ended_with == -signal.SIGALRM:
                self.start(instance)
            elif ended_with is not None:
                said = self._log(instance).read_text(errors="replace")[-3_000:]
                raise AssertionError(f"instance {instance} ended with {ended_with}:\n{said}")

    def wait_more(self, more: int) -> None:
        """Wait until so many more outputs were read than now."""
        count = len(self.outputs()) + more
        eventually(lambda: f"{count} outputs, now {len(self.outputs())}", lambda: len(self.outputs()) >= count)

    def wait_end(self) -> None:
        """Mark the end of the target's partitions, and wait until it was read."""
        ends = Producer({"bootstrap.servers": self._brokers, "logger": quiet_logger()})
        for partition in range(PARTITIONS):
            ends.produce(self.target, END, partition=partition)
        assert ends.flush(DEADLINE_SECONDS) == 0
        eventually("the ends are read", lambda: self.outputs()[END] == PARTITIONS)


class Feeder:
    """Writes numbered inputs to the partitions of a topic in turn, each once, in a thread, until `finish`."""

    def __init__(self, brokers: str, topic: str) -> None:
        options = {"enable.idempotence": True, "linger.ms": 2, "reconnect.backoff.max.ms": 500}
        self._producer = Producer({"bootstrap.servers": brokers, "logger": quiet_logger(), **options})
        self._topic = topic
        self._is_over = threading.Event()
        self.values: list[str] = []
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # The wait bounds the load; no test depends on how long it is.
        while not self._is_over.wait(_STEP_SECONDS):
            for _ in range(_INPUTS_PER_STEP):
                number = len(self.values)
                self.values.append(f"{number:06d}")
                self._producer.produce(self._topic, self.values[-1], partition=number % PARTITIONS)
            self._producer.poll(0)

    def finish(self) -> list[str]:
        """End, and return what was written, once all of it is."""
        self._is_over.set()
        self._thread.join(DEADLINE_SECONDS)
        assert self._producer.flush(DEADLINE_SECONDS) == 0, "inputs were never answered"
        return self.values


@contextmanager
def pipeline_at_work(pipeline: Pipeline, brokers: str, *instances: str) -> Iterator[Feeder]:
    """Start instances and inputs for them, and end them at the end."""
    with closing(pipeline):
        for instance in instances:
            pipeline.start(instance)
        feeder = Feeder(brokers, pipeline.source)
        try:
            pipeline.wait_more(50)
            yield feeder
        finally:
            feeder.finish()


def check_each_input_has_one_output(pipeline: Pipeline, feeder: Feeder, brokers: str) -> None:
    """Let the instances do all inputs: none is lost, and none is doubled."""
    wanted = feeder.finish()
    # An input counts as done by the transaction that has its output: nothing comes afterwards.
    eventually("all inputs are committed as done", lambda: _inputs_done(pipeline, brokers) == len(wanted))
    pipeline.wait_end()
    found = pipeline.outputs() - Counter({END: PARTITIONS})
    lost = [value for value in wanted if f"paid {value}" not in found]
    doubled = [value for value, count in found.items() if count > 1]
    assert (lost, doubled) == ([], [])
    assert found == Counter(f"paid {value}" for value in wanted)


def _inputs_done(pipeline: Pipeline, brokers: str) -> int:
    pipeline.keep_running()
    asked = [ConsumerGroupTopicPartitions(pipeline.target)]
    # Held until it has answered: the answer goes with the client.
    admin = admin_client(brokers)
    answer = admin.list_consumer_group_offsets(asked)[pipeline.target].result(DEADLINE_SECONDS)
    return sum(max(each.offset, 0) for each in answer.topic_partitions)
