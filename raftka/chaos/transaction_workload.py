"""The transaction workload: partitions as lists, to which transactions append, and which they read at read_committed.

A history of `raftka check --model append`. Two clients share a transactional id, so each begins by fencing the other.
"""

import random
import threading
from contextlib import ExitStack

from raftka.chaos.errors import ChaosError
from raftka.chaos.history import History
from raftka.chaos.interruption import join_thread, result_of
from raftka.chaos.leadership import LeadershipWatch
from raftka.chaos.load import DELIVERY_SECONDS, Topics, addresses_of, tp_of
from raftka.chaos.loop_thread import LoopThread
from raftka.chaos.pacing import Pacer
from raftka.chaos.transactors import KeyReader, Transactor
from raftka.chaos.wire_consumer import ask_offset
from raftka.kafka import client as kafka_client
from raftka.kafka.wire.client import WireClient
from raftka.kafka.wire.record_batches import Producer
from raftka.kafka.wire.requests import LATEST

_TOPICS = ("chaos-a", "chaos-b")
_PARTITIONS = 3
_IDS = ("chaos-0", "chaos-1", "chaos-2", "chaos-3", "chaos-4", "chaos-5", "chaos-shared", "chaos-shared")
_FINAL_READERS = 2
_FINAL_READ_SECONDS = 600.0


class TransactionWorkload:
    """A context manager; `start`, then `stop`, then `read_finally`."""

    model = "append"

    def __init__(self, bootstrap: str, history: History, seed: int, rate: float, replicas: int) -> None:
        self._bootstrap = bootstrap
        self._history = history
        self.topics = Topics(_TOPICS, _PARTITIONS, replicas)
        rng = random.Random(f"{seed} clients")
        addresses = addresses_of(bootstrap)
        self._client = WireClient(addresses, rng, "raftka-chaos")
        self.watch = LeadershipWatch(WireClient(addresses, rng, "raftka-chaos-watch"), self.topics)
        pacer = Pacer(rate)
        self._transactors = [
            Transactor(bootstrap, history, random.Random(f"{seed} transactor {number}"), pacer, self.topics, identity)
            for number, identity in enumerate(_IDS)
        ]
        self._stack = ExitStack()
        self._loop = LoopThread()

    def __enter__(self) -> "TransactionWorkload":
        self._stack.enter_context(self._loop)
        return self

    def __exit__(self, *_: object) -> None:
        # The threads are told to stop whatever has happened; they are daemons.
        for each in self._transactors:
            each.stop()
        self._stack.close()

    @property
    def epochs(self) -> dict[tuple[str, int], int]:
        """Lists have none."""
        return {}

    @property
    def producers(self) -> dict[tuple[str, int], Producer]:
        """Lists have none."""
        return {}

    def start(self) -> None:
        """Make the topics and begin.

        Raises:
            KafkaClientError: The topics cannot be made.
        """
        for name in self.topics.names:
            kafka_client.create_topic(self._bootstrap, name, self.topics.partitions, self.topics.replicas)
        self._loop.start(self.watch.run())
        for each in self._transactors:
            each.start()

    def stop(self, gives_up: threading.Event) -> None:
        """Begin no transaction more, and wait for those that are under way."""
        for each in self._transactors:
            each.stop()
        for each in self._transactors:
            each.join(gives_up)

    def why_not_well(self, gives_up: threading.Event) -> str | None:
        """Return what keeps the final reads from being complete; None: nothing does."""
        why = result_of(self._loop.start(self.watch.why_not_well()), DELIVERY_SECONDS, "metadata", gives_up)
        return why or result_of(self._loop.start(self._why_open()), DELIVERY_SECONDS, "offsets", gives_up)

    async def _why_open(self) -> str | None:
        """Return which partition has a transaction that has not ended: its client left it, and it has a time-out."""
        for topic, partition in self.topics.all:
            ends = [
                await ask_offset(self._client, topic, partition, LATEST, is_committed=each) for each in (True, False)
            ]
            if None in ends:
                return f"nobody tells the end of {tp_of(topic, partition)}"
            if ends[0] != ends[1]:
                return f"a transaction is open in {tp_of(topic, partition)}"
        return None

    def read_finally(self, gives_up: threading.Event) -> None:
        """Let readers read every partition once more, from its beginning to its end."""
        ends = result_of(self._loop.start(self._ends()), _FINAL_READ_SECONDS, "the ends of the partitions", gives_up)
        stop = threading.Event()
        threads = [
            threading.Thread(target=self._read_all, args=(ends, stop), name=f"reader-{number}", daemon=True)
            for number in range(_FINAL_READERS)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                if not join_thread(thread, _FINAL_READ_SECONDS, gives_up):
                    raise ChaosError(f"the final reads were not done in {_FINAL_READ_SECONDS:g} s")
        finally:
            stop.set()

    async def _ends(self) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        for topic, partition in self.topics.all:
            end = await ask_offset(self._client, topic, partition, LATEST, is_committed=True)
            if end is None:
                raise ChaosError(f"nobody tells the end of {tp_of(topic, partition)}")
            found[topic, partition] = end
        return found

    def _read_all(self, ends: dict[tuple[str, int], int], stop: threading.Event) -> None:
        """Read all of it in one transaction of reads; one that is given up leaves no line that would be judged."""
        line = self._history.begin("txn", self._history.process(), ops=[], final=True)
        reader = KeyReader(self._bootstrap)
        try:
            operations = []
            for (topic, partition), end in ends.items():
                records = reader.read_all(topic, partition, end, stop.is_set)
                operations.append(["read", tp_of(topic, partition), [list(each) for each in records]])
        finally:
            reader.close()
        if not stop.is_set():
            self._history.end(line, "ok", ops=operations)
