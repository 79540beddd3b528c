"""Clusters for the tests with real processes; a failed test shows the ends of its brokers' logs."""

import functools
import signal
import socket
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.process.broker_processes import BrokerCluster, ClusterMaker
from tests.process.command_line import Run, raftka

# A shell that starts the tests in the background lets them ignore Ctrl-C, and every process they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterMaker]:
    """Return a maker of clusters that live until the end of the run."""
    maker = ClusterMaker(tmp_path_factory.mktemp("shared"))
    try:
        yield maker
    finally:
        maker.stop()


@pytest.fixture(scope="session")
def shared_cluster(shared_clusters: ClusterMaker) -> BrokerCluster:
    """Three brokers for tests that only need topics; nobody kills these."""
    cluster = shared_clusters(3)
    cluster.start()
    return cluster


@pytest.fixture
def run(shared_cluster: BrokerCluster) -> Run:
    """Return `raftka` that speaks to the shared cluster."""
    return functools.partial(raftka, RAFTKA_BROKERS=shared_cluster.bootstrap)


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[ClusterMaker]:
    """Return a maker of clusters for one test, which may kill brokers."""
    maker = ClusterMaker(tmp_path)
    try:
        yield maker
    finally:
        maker.stop()


@pytest.fixture
def living_cluster(make_cluster: ClusterMaker) -> BrokerCluster:
    """Three brokers for one test, in a cluster that uses `raftka.membership` at level 1."""
    cluster = make_cluster(3)
    cluster.start()
    return cluster


@pytest.fixture
def collected_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the sockets that a test's kafka-python client forgot, also those that its thread holds beyond the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.net.inet import KafkaNetSocket
    made: list[socket.socket] = []
    make = KafkaNetSocket.socket

    def remembered(self: KafkaNetSocket, *arguments: int) -> socket.socket:
        made.append(make(self, *arguments))
        return made[-1]

    monkeypatch.setattr(KafkaNetSocket, "socket", remembered)
    yield
    for each in made:
        each.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        makers = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, ClusterMaker)]
        shown = [cluster for maker in makers for cluster in maker.clusters]
        shown += [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, BrokerCluster)]
        report.sections.extend(("the brokers' logs end with", cluster.log_tails()) for cluster in shown)
    return report
