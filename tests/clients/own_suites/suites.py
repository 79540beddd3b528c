"""The transaction tests that clients have themselves, and how they run against brokers at an address."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kafka.jars import kafka_version
from tests.clients.own_suites.sources import aiokafka_source, kafka_python_source

_FOLDER = Path(__file__).parent
RUN_SECONDS = 600.0

# What topics need that the tests let brokers create: aiokafka's tests expect two partitions, kafka-python's one or more.
PARTITIONS = 2


@dataclass(frozen=True)
class Suite:
    """Tests of a client.

    Attributes:
        source: Returns the folder of the tests; raises SourceError.
        plugin: The module of this folder that replaces what starts brokers.
        wanted: Arguments of pytest that select the tests.
        tests: How many tests that selects.
        environment: Returns the variables that name the brokers, given HOST:PORT,... of all.
        arguments: More arguments of pytest.
    """

    source: Callable[[], Path]
    plugin: str
    wanted: tuple[str, ...]
    tests: int
    environment: Callable[[str], Mapping[str, str]]
    arguments: tuple[str, ...] = ()


def _kafka_python_environment(bootstrap: str) -> dict[str, str]:
    # KAFKA_ROOT only has to exist: its programs are for brokers that the tests start.
    uri = f"kafka://{bootstrap.split(',')[0]}"
    return {"KAFKA_VERSION": kafka_version(), "KAFKA_URI": uri, "KAFKA_ROOT": str(_FOLDER)}


SUITES = {
    "aiokafka": Suite(
        source=aiokafka_source,
        plugin="aiokafka_fixtures",
        wanted=(
            "tests/test_transactional_producer.py",
            "tests/test_transactional_consumer.py",
            "tests/test_producer.py::TestKafkaProducerIntegration::test_producer_idempotence_configuration",
            # Spelt so there.
            "tests/test_producer.py::TestKafkaProducerIntegration::test_producer_indempotence_simple",
            "tests/test_producer.py::TestKafkaProducerIntegration::test_producer_indempotence_no_duplicates",
        ),
        tests=23,
        environment=lambda bootstrap: {"OWN_SUITES_BROKERS": bootstrap},
        # The tests look for Kafka's version in an image's name.
        arguments=(f"--docker-image=none:{kafka_version()}", "-p", "no:asyncio"),
    ),
    "kafka-python": Suite(
        source=kafka_python_source,
        plugin="kafka_python_fixtures",
        wanted=("test/integration/test_producer_integration.py",),
        tests=17,
        environment=_kafka_python_environment,
    ),
}


def run_suite(suite: Suite, source: Path, bootstrap: str, folder: Path) -> dict[str, str]:
    """Run a client's tests in a process of their own.

    Returns:
        The outcome of each test by its name: "passed", or else what pytest says of it.
    """
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", suite.plugin, "-p", "no:cacheprovider", f"--junitxml={report}"]
    environment = {**os.environ, **suite.environment(bootstrap), "PYTHONPATH": str(_FOLDER)}
    done = subprocess.run(
        [*command, *suite.arguments, *suite.wanted],
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    # 1 is that tests failed, which the report tells.
    assert done.returncode in (0, 1), f"{done.stdout[-3000:]}\n{done.stderr[-1000:]}"
    return _outcomes(report)


def _outcomes(report: Path) -> dict[str, str]:
    found = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        told = [f"{each.tag}: {each.get('message')}\n{each.text}" for each in case if each.tag in _NOT_PASSED]
        found[f"{case.get('classname')}.{case.get('name')}"] = "\n".join(told) or "passed"
    return found


_NOT_PASSED = frozenset({"failure", "error", "skipped"})
