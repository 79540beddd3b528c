"""Every client that is asked for the tasks: how it is made, what it has, and what its tests need."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.clients.aiokafka_client import AiokafkaClient
from tests.clients.client import Abilities, Client
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.clients.kcat_client import KcatClient
from tests.clients.librdkafka_client import LibrdkafkaClient
from tests.clients.line_client import LineClient
from tests.clients.programs import go_program, java_program, node_program
from tests.needed_tools import needs_tools

# How the runs are recorded of what is no client of the others' kind.
TOOLS_NAME = "Kafka's tools"

# It reads its schemas in a way that Python deprecates.
_KAFKA_PYTHON_MARKS = (pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning"),)


@dataclass(frozen=True, slots=True)
class ClientKind:
    """One of the clients.

    Attributes:
        make: Makes it, given the brokers and a folder for its log.
        abilities: What it has.
        marks: The marks of its tests.
    """

    make: Callable[[str, Path], Client]
    abilities: Abilities
    marks: tuple[pytest.MarkDecorator, ...] = ()


def _program(name: str, abilities: Abilities, command: Callable[[], list[str]], *tools: str) -> ClientKind:
    def make(bootstrap: str, folder: Path) -> Client:
        return LineClient(name, abilities, command(), bootstrap, folder / f"{name}.log")

    return ClientKind(make, abilities, (pytest.mark.long, needs_tools(*tools)))


_KAFKAJS = Abilities(codecs=("none", "gzip", "snappy"), null_headers=False)

CLIENTS: dict[str, ClientKind] = {
    "confluent-kafka": ClientKind(lambda bootstrap, _: LibrdkafkaClient(bootstrap), LibrdkafkaClient.abilities),
    "aiokafka": ClientKind(lambda bootstrap, _: AiokafkaClient(bootstrap), AiokafkaClient.abilities),
    "kafka-python": ClientKind(
        lambda bootstrap, _: KafkaPythonClient(bootstrap), KafkaPythonClient.abilities, _KAFKA_PYTHON_MARKS
    ),
    "kcat": ClientKind(lambda bootstrap, _: KcatClient(bootstrap), KcatClient.abilities, (needs_tools("kcat"),)),
    "Java": _program("Java", Abilities(transactions=True), java_program, "java", "javac", "mvn"),
    "franz-go": _program("franz-go", Abilities(transactions=True), partial(go_program, "franz"), "go"),
    "sarama": _program("sarama", Abilities(), partial(go_program, "sarama"), "go"),
    "KafkaJS": _program("KafkaJS", _KAFKAJS, node_program, "node", "npm"),
}
