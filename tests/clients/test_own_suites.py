"""aiokafka's and kafka-python's own tests of transactions: what passes on Apache Kafka passes on Raftka."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.kafka.kafka_cluster import running_kafka
from tests.clients.own_suites.sources import SourceError
from tests.clients.own_suites.suites import PARTITIONS, RUN_SECONDS, SUITES, Suite, run_suite
from tests.clients.referee import TRANSACTIONAL
from tests.needed_tools import NEED_VARIABLE, needs_tools
from tests.process.broker_processes import ClusterMaker

# It also waits for what fetches the tests and starts the brokers.
pytestmark = [pytest.mark.process, pytest.mark.long, needs_tools("git"), pytest.mark.timeout(2 * RUN_SECONDS)]

_APACHE_KAFKA = pytest.param("apache-kafka", marks=needs_tools("java", "mvn"))


@pytest.fixture(scope="module", params=[_APACHE_KAFKA, "raftka"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Addresses of three brokers, which create the topics that clients ask for; Apache Kafka's come first."""
    folder = tmp_path_factory.mktemp("brokers")
    if request.param == "apache-kafka":
        with running_kafka(folder, properties={"num.partitions": PARTITIONS}) as kafka:
            yield kafka.bootstrap
        return
    maker = ClusterMaker(folder)
    try:
        cluster = maker(3, **TRANSACTIONAL, **{"num.partitions": PARTITIONS, "auto.create.topics.enable": True})
        cluster.start()
        yield cluster.bootstrap
    finally:
        maker.stop()


def _source(suite: Suite) -> Path:
    """Return the folder of the tests; where they cannot be had, the test is skipped or fails as for a missing tool."""
    try:
        return suite.source()
    except SourceError as error:
        if os.environ.get(NEED_VARIABLE):
            pytest.fail(f"{error}, and {NEED_VARIABLE} is set", pytrace=False)
        # As `needs_tools` does: nothing of Raftka can be tried without the files.
        pytest.skip(str(error))


@pytest.mark.parametrize("name", list(SUITES))
def test_a_client_passes_its_own_tests_of_transactions(bootstrap: str, name: str, tmp_path: Path) -> None:
    suite = SUITES[name]
    outcomes = run_suite(suite, _source(suite), bootstrap, tmp_path)
    failed = {test: outcome for test, outcome in outcomes.items() if outcome != "passed"}
    assert not failed, "\n\n".join(f"{test}: {outcome}" for test, outcome in failed.items())
    assert len(outcomes) == suite.tests, sorted(outcomes)
