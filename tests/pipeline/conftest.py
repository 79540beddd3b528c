"""One Spark session and one cluster for all tests on real Spark; without PySpark or Java they are skipped."""

import functools
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftka.pipeline.errors import ConnectorMissingError, SparkMissingError
from raftka.pipeline.spark_session import open_session, require_spark
from tests.pipeline.without_spark import SkippedModule
from tests.process.broker_processes import BrokerCluster, ClusterMaker
from tests.process.conftest import pytest_runtest_makereport

__all__ = ["pytest_runtest_makereport"]

# A shell that starts the tests in the background lets them ignore Ctrl-C, and every process they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS_FOLDER = Path(__file__).parent


@functools.cache
def missing() -> str | None:
    """Return what is missing for these tests; None: nothing is."""
    try:
        require_spark()
    except SparkMissingError as error:
        return str(error)
    return None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    reason = missing()
    if reason is None or os.environ.get("RAFTKA_NEED_SPARK"):
        return None
    module = SkippedModule.from_parent(parent, path=module_path)
    module.reason = reason
    return module


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if TESTS_FOLDER in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))
            # py4j leaves the sockets between Python and the JVM to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session of all tests."""
    folder = tmp_path_factory.mktemp("spark")
    options = {"driver.memory": "1g", "sql.warehouse.dir": str(folder / "warehouse"), "log.level": "ERROR"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            session = open_session("tests", options, folder / "spark.log")
        except ConnectorMissingError as error:
            if os.environ.get("RAFTKA_NEED_SPARK"):
                raise
            pytest.skip(str(error))
        yield session
        session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers for tests that only need topics."""
    maker = ClusterMaker(tmp_path_factory.mktemp("brokers"))
    try:
        made = maker(3)
        made.start()
        yield made
    finally:
        maker.stop()


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[ClusterMaker]:
    """Return a maker of clusters for one test, which may kill brokers."""
    maker = ClusterMaker(tmp_path / "brokers")
    try:
        yield maker
    finally:
        maker.stop()
