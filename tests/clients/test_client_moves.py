"""librdkafka, Java and aiokafka write and read through every kind of move.

No send fails, no record is lost, is there twice or in another order, and what the brokers refuse may be tried again.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.all_clients import CLIENTS
from tests.clients.client import DEADLINE_SECONDS, Client, Member, values_only
from tests.clients.referee import Referee, answered_errors
from tests.process.broker_processes import BrokerCluster, eventually
from tests.process.partition_moves import await_moved, cancel_move, move_of, replicas_of, start_move, throttled

pytestmark = pytest.mark.process

NAMES = ("confluent-kafka", "Java", "aiokafka")

# A producer has several batches of them on the way.
ROUND = 300
# A few thousand records a second are load enough.
_BREAK_SECONDS = 0.05
# Who reads and writes at a moved partition asks these.
APIS = {"Produce", "Fetch", "ListOffsets", "Metadata", "InitProducerId", "OffsetForLeaderEpoch"}
# Subclasses of RetriableException in org.apache.kafka.common.errors that these APIs may have.
RETRIABLE = {
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
    "REPLICA_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "FETCH_SESSION_ID_NOT_FOUND",
    "INVALID_FETCH_SESSION_EPOCH",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_ID",
}


class _Writer:
    """Writes numbered values with an idempotent producer, round after round, in a thread; close it."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self.values: list[str] = []
        self.offsets: list[int] = []
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                first = len(self.values)
                values = [f"{number:07d} {'x' * 100}" for number in range(first, first + ROUND)]
                self.offsets += self._client.produce(self._topic, values_only(values), idempotent=True)
                self.values += values
                self._is_over.wait(_BREAK_SECONDS)
        except BaseException as failure:  # noqa: BLE001 - raised again where somebody waits
            self._failure = failure

    def wait_written(self, rounds: int) -> None:
        """Wait until so many more rounds have been written as a whole; raises what went wrong."""
        goal = len(self.values) + rounds * ROUND

        def is_written() -> bool:
            if self._failure is not None:
                raise self._failure
            return len(self.values) >= goal

        eventually(f"{goal} records are written", is_written)

    def finish(self) -> None:
        """End after the round that is being written."""
        self.close()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(DEADLINE_SECONDS + 10.0)
        assert not self._thread.is_alive(), "a round was never answered"


@pytest.fixture(params=[pytest.param(name, marks=CLIENTS[name].marks) for name in NAMES])
def living_client(living: BrokerCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Client]:
    client = CLIENTS[request.param].make(living.bootstrap, tmp_path)
    with closing(client):
        yield client


@dataclass(frozen=True, slots=True)
class _Load:
    """What a client does while a topic is moved: one writes, and a member of a group reads."""

    cluster: BrokerCluster
    topic: str
    writer: _Writer
    member: Member

    def move(self, target: list[int]) -> None:
        """Move the topic to other brokers; records are written before and after the end of the move."""
        start_move(self.cluster, self.topic, target)
        self.writer.wait_written(1)
        await_moved(self.cluster, self.topic, target)
        self.writer.wait_written(1)
        self.read()

    def give_up_a_move(self, target: list[int]) -> None:
        """Begin a move that cannot end, because more is written than it may copy, and cancel it."""
        before = replicas_of(self.cluster, self.topic)
        with throttled(self.cluster, self.topic):
            start_move(self.cluster, self.topic, target)
            self.writer.wait_written(2)
            row = move_of(self.cluster, self.topic)
            assert row is not None
            assert row["state"] in ("preparing", "copying"), row
            cancel_move(self.cluster, self.topic)
            await_moved(self.cluster, self.topic, before)
        self.writer.wait_written(1)
        self.read()

    def read(self) -> list[tuple[int, str | None]]:
        """Return offsets and values that were read, once there are as many as have been written now."""
        count = len(self.writer.values)
        eventually(f"{count} records are read", lambda: len(self.member.look().records) >= count)
        return [(record.offset, record.value) for record in self.member.look().records]


def test_a_client_writes_and_reads_each_record_once_through_every_kind_of_move(
    living: BrokerCluster, living_client: Client
) -> None:
    topic = f"client-moves.{living_client.name}"
    referee = Referee(living)
    referee.create_topic(topic, replicas=3)
    a, b, c = replicas_of(living, topic)
    d, e, f = sorted(living.brokers.keys() - {a, b, c})[:3]
    before = answered_errors(living)
    with ExitStack() as stack:
        member = stack.enter_context(closing(living_client.join(topic, topic)))
        eventually("the consumer has its partition", lambda: member.look().owned == {0})
        writer = stack.enter_context(closing(_Writer(living_client, topic)))
        load = _Load(living, topic, writer, member)
        writer.wait_written(1)
        load.move([a, b, d])  # One replica is replaced,
        load.move([c, e, f])  # and all of them.
        load.move([c, e])  # Three become two,
        load.move([c, e, a])  # and three again.
        load.give_up_a_move([b, d, f])
        load.move([e])  # One is left,
        load.move([b])  # is on another broker,
        load.move([b, c, d])  # and there are three.
        writer.finish()
        seen = load.read()
    wanted = list(enumerate(writer.values))
    # A duplicate that is older than the last five batches is acknowledged without its offset.
    assert [(offset, place) for place, offset in enumerate(writer.offsets) if offset not in (place, -1)] == []
    assert seen == wanted
    assert [(record.offset, record.value) for record in referee.read(topic, len(wanted))] == wanted
    refused = {each for each, count in answered_errors(living).items() if count > before[each] and each[0] in APIS}
    assert {code for _, code in refused} <= RETRIABLE, refused
