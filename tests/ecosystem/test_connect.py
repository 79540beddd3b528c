"""Kafka Connect carries the lines of a file through a topic into another file, while workers and brokers die."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from raftka.kafka import client as kafka_client
from tests.clients.streams_application import request_topics
from tests.ecosystem.brokers import REPLICAS, Brokers
from tests.ecosystem.connect_workers import CONFIGS, GROUP, OFFSETS, STATUSES, Workers
from tests.needed_tools import needs_tools
from tests.process.broker_processes import eventually
from tests.process.committed_records import CommittedReader

pytestmark = [
    pytest.mark.process,
    pytest.mark.ecosystem,
    pytest.mark.timeout(600),
    needs_tools("java", "mvn"),
]

_TOPIC = "lines"
_PARTITIONS = range(2)
_SOURCE, _SINK = "source", "sink"
_LINE = re.compile(r"line-\d+")
_STEP_LINES = 500
# A worker that was killed is missed after 10 s, and its tasks are given away 3 s later.
_STEP_SECONDS = 120.0


class _Lines:
    """The lines of the file that the source reads, and of the file that the sink writes."""

    def __init__(self, folder: Path, reader: CommittedReader, workers: Workers) -> None:
        self.source = folder / "source.txt"
        self.sink = folder / "sink.txt"
        self.written: list[str] = []
        self._reader = reader
        self._workers = workers
        self.source.touch()
        self.sink.touch()

    def write(self) -> None:
        """Add lines."""
        lines = [f"line-{len(self.written) + number}" for number in range(_STEP_LINES)]
        with self.source.open("a", encoding="utf-8") as out:
            out.write("".join(f"{line}\n" for line in lines))
        self.written.extend(lines)

    def wait(self) -> None:
        """Wait until all lines are committed to the topic, and written by the sink."""

        def has_all() -> bool:
            return set(self.written) <= set(self._reader.counts) and set(self.written) <= set(self.sunk())

        eventually(
            lambda: (
                f"{len(self.written)} lines are through: {len(self._reader.counts)} in the topic, "
                f"{len(set(self.sunk()))} in the file{self._workers.ends_of_logs()}"
            ),
            has_all,
            _STEP_SECONDS,
        )

    def write_and_wait(self) -> None:
        self.write()
        self.wait()

    def sunk(self) -> list[str]:
        """Return the lines that the sink has written."""
        # A worker that dies amid a line leaves a part of it, and its successor goes on behind that part.
        return _LINE.findall(self.sink.read_text(encoding="utf-8"))


@pytest.fixture(params=["at-least-once", "exactly-once"])
def is_exactly_once(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "exactly-once")


@pytest.fixture
def workers(brokers: Brokers, is_exactly_once: bool, tmp_path: Path) -> Iterator[Workers]:
    request_topics(brokers.bootstrap, [_TOPIC], REPLICAS)
    with closing(Workers(brokers.bootstrap, tmp_path, is_exactly_once=is_exactly_once)) as workers:
        workers.start()
        yield workers


def test_connect_loses_no_line_though_workers_leaders_and_coordinators_are_killed(
    brokers: Brokers, workers: Workers, is_exactly_once: bool, tmp_path: Path
) -> None:
    with closing(CommittedReader(brokers.bootstrap, _TOPIC, _PARTITIONS)) as reader:
        lines = _Lines(tmp_path, reader, workers)
        _create_connectors(workers, lines, is_exactly_once)
        lines.write_and_wait()
        for connector in (_SOURCE, _SINK):
            victim = workers.worker_of(connector)
            # Its task has only begun with these lines.
            lines.write()
            workers.kill(victim)
            lines.write_and_wait()
            workers.restart(victim)
        brokers.kill_leader(_TOPIC, lines.write_and_wait)
        brokers.kill_leader(CONFIGS, lines.write_and_wait)
        brokers.kill_coordinator(GROUP, lines.write_and_wait)
        brokers.kill_coordinator(f"connect-{_SINK}", lines.write_and_wait)
        if is_exactly_once:
            # The source's task, and the worker that writes the configurations.
            for transactional_id in (f"{GROUP}-{_SOURCE}-0", f"connect-cluster-{GROUP}"):
                brokers.kill_transaction_coordinator(transactional_id, lines.write_and_wait)
        for connector in (_SOURCE, _SINK):
            workers.wait_runs(connector)
        lines.write_and_wait()
    _check_lines(lines, reader.counts, is_exactly_once)
    topics = (CONFIGS, OFFSETS, STATUSES)
    policies = {topic: kafka_client.read_topic_config(brokers.bootstrap, topic)["cleanup.policy"] for topic in topics}
    assert policies == dict.fromkeys(topics, "compact")
    brokers.check_passes()


def _create_connectors(workers: Workers, lines: _Lines, is_exactly_once: bool) -> None:
    package = "org.apache.kafka.connect.file"
    source = {
        "connector.class": f"{package}.FileStreamSourceConnector",
        "file": str(lines.source),
        "topic": _TOPIC,
        "tasks.max": "1",
    }
    # This lets Connect refuse a connector that could not be exactly once.
    once = {"exactly.once.support": "required"} if is_exactly_once else {}
    workers.create(_SOURCE, {**source, **once})
    sink = {
        "connector.class": f"{package}.FileStreamSinkConnector",
        "file": str(lines.sink),
        "topics": _TOPIC,
        "tasks.max": "1",
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.session.timeout.ms": "10000",
    }
    workers.create(_SINK, sink)


def _check_lines(lines: _Lines, committed: Counter[str], is_exactly_once: bool) -> None:
    wanted = Counter(lines.written)
    assert wanted - committed == Counter()
    assert set(committed) == set(wanted)
    if is_exactly_once:
        assert committed == wanted
    # The sink may write again what it wrote since its last commit. It invents nothing.
    assert set(lines.sunk()) == set(wanted)
