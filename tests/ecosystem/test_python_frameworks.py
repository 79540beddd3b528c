"""Frameworks in Python keep running sums in their state, while their application and brokers are killed."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.clients.streams_application import PARTITIONS, inputs_done, policies_of, request_topics
from tests.ecosystem.brokers import REPLICAS, Brokers
from tests.ecosystem.python_applications import SumsApplication
from tests.needed_tools import needs_tools
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, eventually
from tests.process.committed_records import CommittedReader

pytestmark = [
    pytest.mark.process,
    pytest.mark.ecosystem,
    pytest.mark.timeout(900),
    # Apache Kafka's.
    needs_tools("java", "mvn"),
]

_SOURCE, _TARGET = "numbers", "sums"
_GROUP = "summing"
_KEYS = 10
# The first number of each key is a multiple of this and the others are 1, so that a sum tells its key and its count.
_FIRST = 1_000_000
_STEP_NUMBERS = 300
_STEP_SECONDS = 150.0
_FAUST_IS_READY = "Worker ready"


class _Sums:
    """The numbers that were written, and the sums that were read."""

    def __init__(self, brokers: Brokers, application: SumsApplication, reader: CommittedReader) -> None:
        self._brokers = brokers
        self._application = application
        self._reader = reader
        self.wanted: set[str] = set()

    @property
    def counts(self) -> Counter[str]:
        """How often each sum was read."""
        return self._reader.counts

    def write(self) -> None:
        """Write more numbers to each key."""
        options = {"acks": "all", "enable.idempotence": True, "logger": quiet_logger()}
        producer = Producer({"bootstrap.servers": self._brokers.bootstrap, **options})
        for _ in range(_STEP_NUMBERS):
            turn, key = divmod(len(self.wanted), _KEYS)
            number = 1 if turn else key * _FIRST
            producer.produce(_SOURCE, str(number).encode(), f"key-{key}".encode(), key % PARTITIONS)
            self.wanted.add(str(key * _FIRST + turn))
        assert producer.flush(DEADLINE_SECONDS) == 0

    def wait(self) -> None:
        """Wait until there is a sum of each number."""

        def has_all() -> bool:
            self._application.check_runs()
            return self.wanted <= set(self.counts)

        eventually(
            lambda: f"sums lack {sorted(self.wanted - set(self.counts))[:10]}{self._application.log_end()}",
            has_all,
            _STEP_SECONDS,
        )

    def wait_committed(self) -> None:
        """Wait until the application has committed all numbers."""
        eventually(
            lambda: f"all numbers are committed{self._application.log_end()}",
            lambda: inputs_done(self._brokers.bootstrap, _GROUP, _SOURCE) == len(self.wanted),
        )

    def write_and_wait(self) -> None:
        self.write()
        self.wait()


@contextmanager
def _running(framework: str, brokers: Brokers, folder: Path) -> Iterator[tuple[SumsApplication, _Sums]]:
    """Run the application of a framework, which is started, and read its sums."""
    request_topics(brokers.bootstrap, [_SOURCE, _TARGET], REPLICAS)
    application = SumsApplication(framework, brokers.bootstrap, _GROUP, (_SOURCE, _TARGET), folder, REPLICAS)
    try:
        application.start()
        with closing(CommittedReader(brokers.bootstrap, _TARGET, range(PARTITIONS))) as reader:
            yield application, _Sums(brokers, application, reader)
    finally:
        application.kill()


def test_quix_streams_sums_each_number_once_though_it_and_brokers_are_killed(brokers: Brokers, tmp_path: Path) -> None:
    with _running("quix", brokers, tmp_path) as (application, sums):
        sums.write_and_wait()
        for _ in range(2):
            # Some of these are summed and not committed.
            sums.write()
            application.kill()
            application.start()
            sums.write_and_wait()
        brokers.kill_each_once(sums.write_and_wait)
        # Its state is in segments that were compacted by now.
        application.kill()
        application.start()
        sums.write_and_wait()
        assert sums.counts == Counter(sums.wanted)
    changelog = f"changelog__{_GROUP}--{_SOURCE}--default"
    assert policies_of(brokers.bootstrap, changelog) == {changelog: "compact"}
    brokers.check_passes()


def _restart_faust(application: SumsApplication, sums: _Sums) -> None:
    """Kill Faust when no number waits: it loses those that wait while it recovers its table (its issue 596)."""
    sums.wait_committed()
    application.kill()
    application.start()
    application.wait_says(_FAUST_IS_READY)


def test_faust_keeps_its_sums_though_it_is_killed_at_rest_and_brokers_at_work(brokers: Brokers, tmp_path: Path) -> None:
    with _running("faust", brokers, tmp_path) as (application, sums):
        application.wait_says(_FAUST_IS_READY)
        sums.write_and_wait()
        _restart_faust(application, sums)
        sums.write_and_wait()
        brokers.kill_each_once(sums.write_and_wait)
        # Its state is in segments that were compacted by now.
        _restart_faust(application, sums)
        sums.write_and_wait()
        # A number that it added twice, or not at all, would make other sums. It may write a sum again.
        assert set(sums.counts) == sums.wanted
    changelog = f"{_GROUP}-totals-changelog"
    assert policies_of(brokers.bootstrap, changelog) == {changelog: "compact"}
    brokers.check_passes()
