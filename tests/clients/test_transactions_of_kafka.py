"""What the tests of transactions ask of Raftka holds on Apache Kafka.

Clients do their tasks, the programs of docs/exactly-once.md run, and kafka-transactions says the same. Nobody kills
brokers here: that these outlive it is asked of Raftka alone.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from benchmarks.kafka.kafka_cluster import running_kafka
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC, transactions_partition
from tests.clients import test_client_transactions as tasks
from tests.clients import test_kafka_transaction_tools as tools
from tests.clients.all_clients import CLIENTS
from tests.clients.exactly_once import (
    PARTITIONS,
    PROGRAMS,
    Pipeline,
    check_each_input_has_one_output,
    pipeline_at_work,
    program_command,
)
from tests.clients.referee import TRANSACTIONS_PARTITIONS, Referee
from tests.clients.transactors import TRANSACTORS, Transactor
from tests.needed_tools import needs_tools
from tests.process.broker_processes import eventually
from tests.process.kafka_topics import admin_client, request_topic

pytestmark = [pytest.mark.process, pytest.mark.long, needs_tools("java", "mvn")]

_REPLICAS = 3
_TASKS = [
    tasks.test_a_reader_at_read_committed_sees_committed_transactions_only_and_waits_for_open_ones,
    tasks.test_outputs_and_offsets_count_together_or_not_at_all,
    tasks.test_a_producer_is_fenced_by_the_next_one_of_its_transactional_id,
]
_TOOLS = [
    tools.test_a_transaction_is_listed_described_and_aborted_where_it_begins,
    tools.test_a_transaction_is_terminated_by_its_transactional_id,
    tools.test_a_transactional_id_that_nobody_has_used_is_unknown,
]


class KafkaReferee(Referee):
    """A referee that knows Apache Kafka's brokers by the protocol alone: nothing tells it what they do."""

    def create_topic(self, topic: str, partitions: int = 1, replicas: int | None = None, **config: Any) -> None:
        """Create a topic and wait until it is led; its records may be as old as they say."""
        request_topic(
            self.cluster.bootstrap,
            NewTopic(topic, partitions, replicas or _REPLICAS, config={"retention.ms": "-1", **config}),
        )
        for number in range(partitions):
            self._leader(topic, number)

    def transaction_coordinator_of(self, transactional_id: str) -> int:
        """Return the broker that keeps a transactional id."""
        return self._leader(TRANSACTIONS_TOPIC, transactions_partition(transactional_id, TRANSACTIONS_PARTITIONS))

    def _leader(self, topic: str, partition: int) -> int:
        admin = admin_client(self.cluster.bootstrap)

        def leader() -> int | None:
            found = admin.list_topics(topic, timeout=30).topics[topic].partitions.get(partition)
            return found.leader if found is not None and found.leader >= 0 else None

        return eventually(f"a leader of {topic}-{partition}", leader)


@pytest.fixture(scope="module")
def referee(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaReferee]:
    properties = {"transaction.state.log.num.partitions": TRANSACTIONS_PARTITIONS}
    with running_kafka(tmp_path_factory.mktemp("kafka"), properties=properties) as kafka:
        yield KafkaReferee(kafka)


@pytest.mark.parametrize("name", [pytest.param(name, marks=CLIENTS[name].marks) for name in TRANSACTORS])
def test_a_client_does_its_tasks_of_transactions_on_apache_kafka(
    referee: KafkaReferee, name: str, tmp_path: Path
) -> None:
    with closing(CLIENTS[name].make(referee.cluster.bootstrap, tmp_path)) as client, ExitStack() as stack:

        def transactor(transactional_id: str) -> Transactor:
            made = TRANSACTORS[name](client, referee.cluster.bootstrap, transactional_id)
            stack.callback(made.close)
            return made

        for number, task in enumerate(_TASKS):
            task(client, referee, f"{name}.{number}", transactor)


@pytest.mark.parametrize("name", [pytest.param(name, marks=PROGRAMS[name][2]) for name in PROGRAMS])
def test_a_program_that_is_killed_and_comes_back_has_one_output_for_each_input_on_apache_kafka(
    referee: KafkaReferee, name: str, tmp_path: Path
) -> None:
    brokers, source, target = referee.cluster.bootstrap, f"{name}.orders", f"{name}.receipts"
    for topic in (source, target):
        referee.create_topic(topic, PARTITIONS)
    pipeline = Pipeline(program_command(name, tmp_path), brokers, source, target, tmp_path)
    with pipeline_at_work(pipeline, brokers, "one") as feeder:
        pipeline.kill("one")
        pipeline.start("one")
        pipeline.wait_more(50)
        check_each_input_has_one_output(pipeline, feeder, brokers)


@pytest.mark.parametrize("story", _TOOLS, ids=[story.__name__.removeprefix("test_") for story in _TOOLS])
def test_kafka_transactions_does_on_apache_kafka_what_it_does_on_raftka(referee: KafkaReferee, story: Any) -> None:
    story(referee)
