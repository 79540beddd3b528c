"""The load: orders of which some are no JSON, at acks=all, with a history of all that its clients saw."""

import json
import random
import threading
from pathlib import Path
from types import TracebackType

from raftka.chaos.history import History
from raftka.chaos.keyed_records import OutgoingRecord
from raftka.chaos.librdkafka_clients import LibrdkafkaConsumer, LibrdkafkaProducer
from raftka.chaos.load import Topics, stripped
from raftka.chaos.pacing import Pacer
from raftka.kafka import client as kafka_client
from raftka.kafka import offsets as kafka_offsets
from raftka.pipeline.story.waiting import StoryError

TOPICS = Topics(("orders",), 2, 3)
TOPIC = TOPICS.names[0]
SCHEMA = "id BIGINT, item STRING, amount DOUBLE"
ITEMS = ("tea", "coffee", "sugar", "milk", "bread")
_PER_SECOND = 400.0
_PRODUCERS = 2
_CONSUMERS = 2
# Of so many orders one is cut off, and one is not even meant to be JSON.
_BROKEN_EVERY = 40
# Ids of one producer; it does not send that many.
_IDS = 1_000_000_000
_FINAL_READ_SECONDS = 120.0


def order(producer: int, number: int) -> bytes:
    """Return the value of a producer's order of a number: mostly JSON of `SCHEMA`."""
    item = ITEMS[number % len(ITEMS)]
    text = json.dumps({"id": producer * _IDS + number, "item": item, "amount": 0.25 * (number % 400)})
    if number % _BROKEN_EVERY == 0:
        # As a program writes it that dies in the middle; the id is there, so no two are alike.
        text = text[: text.index('"amount"') + 4]
    elif number % _BROKEN_EVERY == _BROKEN_EVERY // 2:
        text = f"order {producer * _IDS + number}: {item}"
    return text.encode()


def _order_record(producer: int, number: int) -> OutgoingRecord:
    value = order(producer, number)
    return OutgoingRecord(stripped(value), value)


def is_order(value: str) -> bool:
    """Return whether a value is a JSON object."""
    try:
        return isinstance(json.loads(value), dict)
    except ValueError:
        return False


class Load:
    """Producers and consumers, each a thread. A context manager: its end tells all of them to stop and waits for none.

    Attributes:
        history: What they saw.
    """

    def __init__(self, brokers: str, path: Path) -> None:
        self._brokers = brokers
        self.history = History(path)
        self._gives_up = threading.Event()
        pacer = Pacer(_PER_SECOND)
        producers = [
            LibrdkafkaProducer(
                brokers,
                self.history,
                random.Random(number),
                pacer,
                TOPICS,
                "all",
                is_idempotent=True,
                record_of=_order_record,
            )
            for number in range(_PRODUCERS)
        ]
        self._consumers = [LibrdkafkaConsumer(brokers, self.history, TOPICS) for _ in range(_CONSUMERS)]
        self._clients: list[LibrdkafkaProducer | LibrdkafkaConsumer] = [*producers, *self._consumers]

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for client in self._clients:
            client.stop()
        self._gives_up.set()
        self.history.__exit__(kind, error, at)

    def start(self) -> None:
        """Begin to write and to read."""
        for client in self._clients:
            client.start()

    def stop(self) -> None:
        """Write and read no more; every record has an outcome then.

        Raises:
            StoryError: Not every record was acknowledged.
        """
        for client in self._clients:
            client.stop()
        for client in self._clients:
            client.join(self._gives_up)
        counts = self.history.counts
        lost = {name: counts[name] for name in ("send info", "send fail") if counts[name]}
        if lost or not counts["send ok"]:
            raise StoryError(f"not every order was acknowledged: {dict(counts)}, {dict(self.history.errors)}")

    def read_finally(self) -> int:
        """Read every partition from its beginning to its end, and close the history; returns how many orders there are.

        Raises:
            StoryError: It was not done in time.
            KafkaClientError: The ends of the partitions are not told.
        """
        ends = kafka_offsets.end_offsets(self._brokers, TOPICS.all)
        stop = threading.Event()
        readers = [
            threading.Thread(target=each.read_all, args=(ends, stop), daemon=True, name="final reads")
            for each in self._consumers
        ]
        for reader in readers:
            reader.start()
        try:
            for reader in readers:
                reader.join(_FINAL_READ_SECONDS)
                if reader.is_alive():
                    raise StoryError(f"the orders could not be read to their end within {_FINAL_READ_SECONDS:.0f} s")
        finally:
            stop.set()
        self.history.__exit__(None, None, None)
        return sum(ends.values())


def make_topic(brokers: str) -> None:
    """Make the topic of the orders.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    kafka_client.create_topic(brokers, TOPIC, TOPICS.partitions, TOPICS.replicas)
