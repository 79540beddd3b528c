"""What readers at read_committed get of partitions."""

import threading
from collections import Counter
from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition

from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, eventually

END = "end"


def _consumer(bootstrap: str, topic: str, partitions: Sequence[int]) -> Consumer:
    options = {"isolation.level": "read_committed", "enable.auto.commit": False, "auto.offset.reset": "error"}
    basics = {"bootstrap.servers": bootstrap, "group.id": "by-hand", "reconnect.backoff.max.ms": 500}
    consumer = Consumer({**basics, **options, "logger": quiet_logger()})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    return consumer


def read_committed(bootstrap: str, topic: str, partition: int) -> list[str]:
    """Return the values of a partition at read_committed from its beginning, up to the value `END` and with it."""
    values: list[str] = []

    def has_ended() -> bool:
        messages = consumer.consume(500, 0.2)
        values.extend((message.value() or b"").decode() for message in messages if message.error() is None)
        return values[-1:] == [END]

    consumer = _consumer(bootstrap, topic, [partition])
    try:
        eventually(lambda: f"{len(values)} values of {topic}-{partition}", has_ended)
    finally:
        consumer.close()
    return values


class CommittedReader:
    """Reads partitions at read_committed in a thread, from their beginnings; close it.

    Attributes:
        counts: How often each value was read; only ever more.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: Sequence[int]) -> None:
        self.counts: Counter[str] = Counter()
        self._consumer = _consumer(bootstrap, topic, partitions)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="committed reader", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self.counts[(message.value() or b"").decode()] += 1

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive(), "a reader does not end"
        self._consumer.close()
