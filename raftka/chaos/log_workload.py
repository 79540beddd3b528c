"""The log workload: producers, consumers by assignment, and who asks for latest; half on librdkafka, half on the wire.

The linearizable object is the partition: an append at acks=all, and ListOffsets latest; a fetch is a prefix read.
"""

import asyncio
import random
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Protocol

from raftka.chaos.errors import ChaosError
from raftka.chaos.history import History
from raftka.chaos.interruption import join_thread, result_of
from raftka.chaos.leadership import LeadershipWatch
from raftka.chaos.librdkafka_clients import LibrdkafkaConsumer, LibrdkafkaProducer
from raftka.chaos.load import DELIVERY_SECONDS, Acks, Topics, addresses_of
from raftka.chaos.loop_thread import LoopThread
from raftka.chaos.pacing import Pacer
from raftka.chaos.wire_consumer import LatestAsker, WireConsumer, ask_offset
from raftka.chaos.wire_producer import WireProducer
from raftka.kafka import client as kafka_client
from raftka.kafka.wire.client import WireClient
from raftka.kafka.wire.record_batches import Producer
from raftka.kafka.wire.requests import LATEST

_TOPICS = ("chaos-a", "chaos-b")
_PARTITIONS = 3
_WIRE_PRODUCERS = 96
_LIBRDKAFKA_PRODUCERS = 2
_CONSUMERS = 2
_ASKERS = 2
_FINAL_READ_SECONDS = 600.0
_ASK_PAUSE = 0.25


class Task(Protocol):
    """A client on the event loop; `is_working` set to False ends `run` after what is at hand."""

    is_working: bool

    async def run(self) -> None:
        """Work until told to stop."""
        ...


class ClientThread(Protocol):
    """A client in a thread of its own."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """Begin nothing more."""
        ...

    def join(self, gives_up: threading.Event) -> None:
        """Wait for what is under way."""
        ...


class LogWorkload:
    """A context manager; `start`, then `stop`, then `read_finally`.

    `is_raftka`: the cluster is known to promise that high watermarks do not go back when a leader changes.

    Attributes:
        tasks: The clients on the event loop.
        threads: The clients in threads of their own.
        wire_consumers: Those of the tasks that do the final reads; there is at least one.
        consumers: Those of the threads that do.
    """

    model = "log"
    topic_names: tuple[str, ...] = _TOPICS
    config: Mapping[str, str] = {}

    def __init__(
        self, bootstrap: str, history: History, seed: int, rate: float, acks: Acks, replicas: int, *, is_raftka: bool
    ) -> None:
        self.bootstrap = bootstrap
        self.history = history
        self.topics = Topics(self.topic_names, _PARTITIONS, replicas)
        rng = random.Random(f"{seed} clients")
        addresses = addresses_of(bootstrap)
        self.client = WireClient(addresses, rng, "raftka-chaos")
        # A client of its own: what it waits for must not be what the load waits for.
        self.watch = LeadershipWatch(WireClient(addresses, rng, "raftka-chaos-watch"), self.topics)
        self.wire_consumers: list[WireConsumer] = []
        self.consumers: list[LibrdkafkaConsumer] = []
        self.tasks: list[Task] = []
        self.threads: list[ClientThread] = []
        self.make_clients(rng, Pacer(rate), seed, acks, is_raftka=is_raftka)
        self._running: list[Future[None]] = []
        self._stack = ExitStack()
        self._loop = LoopThread()

    def make_clients(self, rng: random.Random, pacer: Pacer, seed: int, acks: Acks, *, is_raftka: bool) -> None:
        """Make all clients."""
        may_be_idempotent = acks == "all"
        wire_producers = [
            WireProducer(
                self.client,
                self.history,
                rng,
                pacer,
                self.topics,
                acks,
                is_idempotent=may_be_idempotent and number % 2 == 0,
            )
            for number in range(_WIRE_PRODUCERS)
        ]
        producers = [
            LibrdkafkaProducer(
                self.bootstrap,
                self.history,
                random.Random(f"{seed} producer {number}"),
                pacer,
                self.topics,
                acks,
                is_idempotent=may_be_idempotent and number % 2 == 0,
            )
            for number in range(_LIBRDKAFKA_PRODUCERS)
        ]
        self.wire_consumers = [
            WireConsumer(self.client, self.history, rng, self.topics, names_epochs=is_raftka) for _ in range(_CONSUMERS)
        ]
        self.consumers = [LibrdkafkaConsumer(self.bootstrap, self.history, self.topics) for _ in range(_CONSUMERS)]
        askers = [LatestAsker(self.client, self.history, rng, self.topics) for _ in range(_ASKERS)]
        self.tasks = [*wire_producers, *self.wire_consumers, *askers]
        self.threads = [*producers, *self.consumers]

    def __enter__(self) -> "LogWorkload":
        self._stack.enter_context(self._loop)
        return self

    def __exit__(self, *_: object) -> None:
        # librdkafka's threads are told to stop whatever has happened; they are daemons.
        for thread in self.threads:
            thread.stop()
        self._stack.close()

    @property
    def epochs(self) -> dict[tuple[str, int], int]:
        """The epoch of each record that the final reads found, by (partition, offset)."""
        return self.wire_consumers[0].epochs

    @property
    def producers(self) -> dict[tuple[str, int], Producer]:
        """Who wrote each record that the final reads found, by (partition, offset); only idempotent producers."""
        return self.wire_consumers[0].producers

    def start(self) -> None:
        """Make the topics and begin.

        Raises:
            KafkaClientError: The topics cannot be made.
        """
        for name in self.topics.names:
            kafka_client.create_topic(self.bootstrap, name, self.topics.partitions, self.topics.replicas, self.config)
        self._loop.start(self.watch.run())
        self._running = [self._loop.start(task.run()) for task in self.tasks]
        for thread in self.threads:
            thread.start()

    def stop(self, gives_up: threading.Event) -> None:
        """Stop sending and reading, and wait for what is under way."""
        for task in self.tasks:
            task.is_working = False
        for thread in self.threads:
            thread.stop()
        for future in self._running:
            result_of(future, 4 * DELIVERY_SECONDS, "a wire client", gives_up)
        for thread in self.threads:
            thread.join(gives_up)

    def why_not_well(self, gives_up: threading.Event) -> str | None:
        """Return what keeps the final reads from being complete; None: nothing does."""
        return result_of(self._loop.start(self.watch.why_not_well()), DELIVERY_SECONDS, "metadata", gives_up)

    def read_finally(self, gives_up: threading.Event) -> None:
        """Let every consumer read every partition once more, from its beginning to its end."""
        ends = result_of(self._loop.start(self._ends()), _FINAL_READ_SECONDS, "the ends of the partitions", gives_up)
        stop = threading.Event()
        readers = [threading.Thread(target=each.read_all, args=(ends, stop), daemon=True) for each in self.consumers]
        for thread in readers:
            thread.start()
        try:
            for future in [self._loop.start(each.read_all(ends)) for each in self.wire_consumers]:
                result_of(future, _FINAL_READ_SECONDS, "the final reads of a wire client", gives_up)
            for thread in readers:
                if not join_thread(thread, _FINAL_READ_SECONDS, gives_up):
                    raise ChaosError(f"the final reads of librdkafka were not done in {_FINAL_READ_SECONDS:g} s")
        finally:
            stop.set()

    async def _ends(self) -> dict[tuple[str, int], int]:
        ends: dict[tuple[str, int], int] = {}
        for topic, partition in self.topics.all:
            end = await ask_offset(self.client, topic, partition, LATEST)
            while end is None:
                await asyncio.sleep(_ASK_PAUSE)
                end = await ask_offset(self.client, topic, partition, LATEST)
            ends[topic, partition] = end
        return ends
