"""One cluster for all clients, and each client once; what a client sends is recorded for `python -m tests.clients.sent`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from benchmarks.kafka.jars import kafka_version
from tests.clients.aiokafka_client import AiokafkaClient
from tests.clients.client import Abilities, Client
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.clients.kcat_client import KcatClient, is_installed
from tests.clients.librdkafka_client import LibrdkafkaClient
from tests.clients.line_client import LineClient
from tests.clients.programs import go_program, java_program, missing, node_program
from tests.clients.referee import OFFSETS_PARTITIONS, Referee, SentRequests
from tests.clients.sent import RECORDER, Recorder
from tests.process.broker_processes import BrokerCluster, ClusterMaker
from tests.process.conftest import pytest_runtest_makereport

__all__ = ["pytest_runtest_makereport"]

# It reads its schemas in a way that Python deprecates.
_KAFKA_PYTHON_MARKS = (pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning"),)


def _program(name: str, abilities: Abilities, command: Callable[[], list[str]]) -> Callable[[str, Path], Client]:
    return lambda bootstrap, folder: LineClient(name, abilities, command(), bootstrap, folder / f"{name}.log")


def _needs(*tools: str) -> tuple[pytest.MarkDecorator, ...]:
    reason = missing(*tools)
    return pytest.mark.long, pytest.mark.skipif(reason is not None, reason=reason or "")


_KAFKAJS = Abilities(codecs=("none", "gzip", "snappy"), null_headers=False)

# How each is made, given the brokers and a folder for its log; and the marks of its tests.
CLIENTS: dict[str, tuple[Callable[[str, Path], Client], tuple[pytest.MarkDecorator, ...]]] = {
    "confluent-kafka": (lambda bootstrap, _: LibrdkafkaClient(bootstrap), ()),
    "aiokafka": (lambda bootstrap, _: AiokafkaClient(bootstrap), ()),
    "kafka-python": (lambda bootstrap, _: KafkaPythonClient(bootstrap), _KAFKA_PYTHON_MARKS),
    "kcat": (
        lambda bootstrap, _: KcatClient(bootstrap),
        (pytest.mark.skipif(not is_installed(), reason="kcat is not installed"),),
    ),
    "Java": (_program("Java", Abilities(), java_program), _needs("java", "javac", "mvn")),
    "franz-go": (_program("franz-go", Abilities(), partial(go_program, "franz")), _needs("go")),
    "sarama": (_program("sarama", Abilities(), partial(go_program, "sarama")), _needs("go")),
    "KafkaJS": (_program("KafkaJS", _KAFKAJS, node_program), _needs("node", "npm")),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every task is one for every client."""
    if "client" in metafunc.fixturenames:
        each = [pytest.param(name, id=name, marks=marks) for name, (_, marks) in CLIENTS.items()]
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
def client(
    cluster: BrokerCluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Client]:
    make, _ = CLIENTS[request.param]
    client = make(cluster.bootstrap, tmp_path_factory.mktemp("client"))
    try:
        yield client
    finally:
        client.close()


@contextmanager
def refereed(cluster: BrokerCluster, client: str, version: str, config: pytest.Config) -> Iterator[Referee]:
    """Make topics and look at them; where requests are recorded, what comes meanwhile is the client's."""
    recorder: Recorder | None = config.pluginmanager.get_plugin(RECORDER)
    if recorder is None:
        yield Referee(cluster)
        return
    sent = SentRequests(cluster)
    sent.resume()
    yield Referee(cluster, sent)
    sent.pause()
    recorder.note(client, version, sent.seen)


@pytest.fixture
def referee(cluster: BrokerCluster, client: Client, request: pytest.FixtureRequest) -> Iterator[Referee]:
    with refereed(cluster, client.name, client.version(), request.config) as referee:
        yield referee


@pytest.fixture
def tools_referee(cluster: BrokerCluster, request: pytest.FixtureRequest) -> Iterator[Referee]:
    """Return the referee for Kafka's own tools, which are no client of the others' kind."""
    with refereed(cluster, "Kafka's tools", kafka_version(), request.config) as referee:
        yield referee


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    """Return a name for this task's topic and group."""
    return f"{client.name}.{request.node.originalname.removeprefix('test_')}"[:200]
