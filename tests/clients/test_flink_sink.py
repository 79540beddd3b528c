"""Flink's KafkaSink at EXACTLY_ONCE, on a mini cluster: on Apache Kafka first, and with the same outcome on Raftka."""

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from raftka.kafka.client import create_topic
from tests.clients.programs import flink_program
from tests.clients.referee import Referee
from tests.needed_tools import needs_tools
from tests.process.acked_log import high_watermark, quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, eventually
from tests.process.committed_records import END, CommittedReader
from tests.process.kafka_topics import wait_topic_everywhere

# The first one fetches Apache Kafka and Flink, and starts Kafka.
pytestmark = [
    pytest.mark.process,
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    needs_tools("java", "javac", "mvn"),
]

# Of both brokers, as they are shipped.
_MAX_TIMEOUT_MS = 900_000
_PARTITIONS = 2
# The job takes 40 s and more, so that brokers can be killed amid it.
_COUNT, _PER_SECOND = 6_000, 150
_RATE = (str(_COUNT), str(_PER_SECOND))
_MORE = 400
# FlinkSink.java says what they are.
_FAULTS = "RECORD FLUSHED UNCOMMITTED COMMITTED UNCOMMITTED RECORD"
# A task may also fail by itself while a broker is away.
_RESTARTS = 100
_JOB_SECONDS = 300.0


@dataclass(frozen=True)
class _Brokers:
    """Three brokers, and Raftka's cluster if they are Raftka's."""

    bootstrap: str
    cluster: BrokerCluster | None

    def create(self, topic: str) -> None:
        create_topic(self.bootstrap, topic, _PARTITIONS, 3)
        if self.cluster is not None:
            wait_topic_everywhere(self.cluster, topic)

    def end(self, topic: str) -> None:
        """Write `END` to each partition, outside of transactions."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "logger": quiet_logger()})
        for partition in range(_PARTITIONS):
            producer.produce(topic, END, partition=partition)
        assert producer.flush(DEADLINE_SECONDS) == 0

    def disturb(self, topic: str, wait_more: Callable[[], None]) -> None:
        """Kill a leader, then a coordinator of transactions: the job goes on without each. Apache Kafka is left alone."""
        wait_more()
        if self.cluster is None:
            return
        referee = Referee(self.cluster)
        for find in (
            lambda: referee.leader_of(topic),
            # The sink has an id for each subtask and checkpoint.
            lambda: referee.transaction_coordinator_of(f"{topic}-0-1"),
        ):
            victim = find()
            self.cluster[victim].kill()
            try:
                wait_more()
            finally:
                self.cluster.restart([victim])


@pytest.fixture(scope="module", params=["apache-kafka", "raftka"])
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Brokers]:
    if request.param == "raftka":
        cluster = request.getfixturevalue("transactional")
        yield _Brokers(cluster.bootstrap, cluster)
        return
    from benchmarks.kafka.kafka_cluster import running_kafka

    with running_kafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield _Brokers(kafka.bootstrap, None)


@pytest.fixture(scope="module")
def program() -> list[str]:
    return flink_program()


class _Job:
    """A Flink job that runs.

    Args:
        words: The program's command, with its arguments.
        log: What it says.
    """

    def __init__(self, words: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def lines(self, first_word: str) -> list[str]:
        """Return what follows the word in each line that begins with it."""
        return [line.removeprefix(first_word) for line in self.said().splitlines() if line.startswith(first_word)]

    def keep_running(self) -> None:
        assert self._process.poll() is None, f"the job has ended: {self.said()[-3_000:]}"

    def wait_end(self) -> int:
        """Return the exit code, once it has one."""
        return eventually(lambda: f"an end: {self.said()[-3_000:]}", self._process.poll, _JOB_SECONDS)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def test_each_number_is_committed_once_though_tasks_fail(program: list[str], brokers: _Brokers, tmp_path: Path) -> None:
    topic = "flink.once"
    brokers.create(topic)
    words = [*program, brokers.bootstrap, topic, *_RATE, str(_RESTARTS), str(_MAX_TIMEOUT_MS)]
    with (
        closing(CommittedReader(brokers.bootstrap, topic, range(_PARTITIONS))) as reader,
        closing(_Job(words, tmp_path / "flink.log")) as job,
    ):

        def wait_more() -> None:
            wanted = reader.counts.total() + _MORE

            def is_read() -> bool:
                job.keep_running()
                return reader.counts.total() >= wanted

            eventually(lambda: f"{wanted} records, now {reader.counts.total()}: {job.said()[-3_000:]}", is_read)

        brokers.disturb(topic, wait_more)
        ended = job.wait_end()
        assert ended == 0, job.said()[-3_000:]
        brokers.end(topic)
        eventually("the ends are read", lambda: reader.counts[END] == _PARTITIONS)
        found = reader.counts - Counter({END: _PARTITIONS})
    wanted = Counter(str(number) for number in range(_COUNT))
    assert (wanted - found, found - wanted) == (Counter(), Counter())
    assert job.lines("faults: ") == [_FAULTS]


# None is the sink's own, an hour, with which most jobs meet this refusal.
@pytest.mark.parametrize("timeout_ms", [_MAX_TIMEOUT_MS + 1, None])
def test_a_job_fails_whose_transactions_may_last_longer_than_the_brokers_allow(
    program: list[str], brokers: _Brokers, timeout_ms: int | None, tmp_path: Path
) -> None:
    topic = f"flink.long.{timeout_ms}"
    brokers.create(topic)
    words = [*program, brokers.bootstrap, topic, *_RATE, "1", *([] if timeout_ms is None else [str(timeout_ms)])]
    with closing(_Job(words, tmp_path / "flink.log")) as job:
        assert job.wait_end() == 1, job.said()[-3_000:]
    assert "The transaction timeout is larger than the maximum value allowed by the broker" in job.lines("cause: ")[-1]
    assert [high_watermark(brokers.bootstrap, topic, partition) for partition in range(_PARTITIONS)] == [0, 0]
