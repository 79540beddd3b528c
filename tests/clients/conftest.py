"""Clusters for all clients, and each client once; what a client sends is recorded for `python -m tests.clients.sent`.

Most tasks are done at `cluster`. At `living` partitions can be moved, too. `transactional` is for tests that kill
brokers amid transactions or leave transactions open: they are no tasks of `python -m tests.clients.sent`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.kafka.jars import kafka_version
from tests.clients.all_clients import CLIENTS, TOOLS_NAME
from tests.clients.client import Abilities, Client
from tests.clients.referee import OFFSETS_PARTITIONS, TRANSACTIONAL, Referee, SentRequests
from tests.clients.sent import OUTCOME, RECORDER, Recorder
from tests.clients.tasks import Task
from tests.process.broker_processes import BrokerCluster, ClusterMaker
from tests.process.conftest import make_cluster, pytest_runtest_makereport
from tests.process.former_version import former_python

__all__ = ["make_cluster", "pytest_runtest_makereport"]

# Five of them vote in raft0, so two of them do not.
LIVING_BROKERS = 7


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every task is one for every client."""
    if "client" in metafunc.fixturenames:
        each = [pytest.param(name, id=name, marks=kind.marks) for name, kind in CLIENTS.items()]
        metafunc.parametrize("client", each, indirect=True, scope="session")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers that every client has to do with, and that some tasks kill and start again."""
    maker = ClusterMaker(tmp_path_factory.mktemp("clients"))
    quick = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": OFFSETS_PARTITIONS}
    try:
        cluster = maker(3, **quick)
        cluster.start()
        yield cluster
    finally:
        maker.stop()


@pytest.fixture(scope="session")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Brokers of which nobody kills one, in a cluster that uses `raftka.membership` at level 1."""
    maker = ClusterMaker(tmp_path_factory.mktemp("living"))
    try:
        cluster = maker(LIVING_BROKERS, **{"group.initial.rebalance.delay.ms": 0})
        cluster.start()
        yield cluster
    finally:
        maker.stop()


@pytest.fixture(scope="session")
def transactional(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers that have transactions, and that some tests kill and start again."""
    maker = ClusterMaker(tmp_path_factory.mktemp("transactional"))
    try:
        cluster = maker(3, **TRANSACTIONAL)
        cluster.start()
        yield cluster
    finally:
        maker.stop()


@pytest.fixture(scope="session")
def client(
    cluster: BrokerCluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Client]:
    client = CLIENTS[request.param].make(cluster.bootstrap, tmp_path_factory.mktemp("client"))
    try:
        yield client
    finally:
        client.close()


@contextmanager
def refereed(cluster: BrokerCluster, client: str, version: str, request: pytest.FixtureRequest) -> Iterator[Referee]:
    """Make topics and look at them; where requests are recorded, what comes meanwhile is the client's."""
    recorder: Recorder | None = request.config.pluginmanager.get_plugin(RECORDER)
    if recorder is None:
        yield Referee(cluster)
        return
    sent = SentRequests(cluster)
    sent.resume()
    yield Referee(cluster, sent)
    sent.pause()
    recorder.note_requests(client, version, sent.seen)


@pytest.fixture
def referee(cluster: BrokerCluster, client: Client, request: pytest.FixtureRequest) -> Iterator[Referee]:
    task = Task.of_marks(list(request.node.iter_markers()))
    request.node.user_properties.append((OUTCOME, (client.name, task.outcome(client.abilities))))
    if refusal := task.refusal(client.abilities):
        pytest.skip(f"{client.name} {refusal}")
    with refereed(cluster, client.name, client.version(), request) as referee:
        yield referee


@pytest.fixture
def tools_referee(cluster: BrokerCluster, request: pytest.FixtureRequest) -> Iterator[Referee]:
    """Return the referee for Kafka's own tools, which are no client of the others' kind."""
    task = Task.of_marks(list(request.node.iter_markers()))
    request.node.user_properties.append((OUTCOME, (TOOLS_NAME, task.outcome(Abilities()))))
    with refereed(cluster, TOOLS_NAME, kafka_version(), request) as referee:
        yield referee


@pytest.fixture
def living_tools(living: BrokerCluster, request: pytest.FixtureRequest) -> Iterator[Referee]:
    """Return the referee for Kafka's own tools at `living`: what they send is recorded, and it is no task of theirs.

    They leave no move and no throttle there.
    """
    with refereed(living, TOOLS_NAME, kafka_version(), request) as referee:
        yield referee


@pytest.fixture
def transaction_tools(transactional: BrokerCluster, request: pytest.FixtureRequest) -> Iterator[Referee]:
    """Return the referee for Kafka's own tools at `transactional`; what they send is recorded, and it is no task."""
    with refereed(transactional, TOOLS_NAME, kafka_version(), request) as referee:
        yield referee


@pytest.fixture
def raised_tools(make_cluster: ClusterMaker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Referee]:
    """Return the referee for Kafka's own tools at three brokers of a version without features, which have founded it."""
    cluster = make_cluster(3)
    former = former_python(tmp_path)
    for broker in cluster.brokers.values():
        broker.python = former
    cluster.start()
    with refereed(cluster, TOOLS_NAME, kafka_version(), request) as referee:
        yield referee


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    """Return a name for this task's topic and group."""
    return f"{client.name}.{request.node.originalname.removeprefix('test_')}"[:200]
