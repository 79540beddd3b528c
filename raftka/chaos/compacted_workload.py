"""The compacted workload: a topic with cleanup.policy=compact, a bounded set of keys, and readers of whole tables.

Producers overwrite and delete the keys of each partition. Some readers read each partition from its first record to its
end, again and again; others read on. A history of `raftka check --model log` with `compact` lines.
"""

import random
from collections.abc import Mapping

from raftka.chaos.keyed_records import KeyedRecordMaker
from raftka.chaos.librdkafka_clients import LibrdkafkaConsumer, LibrdkafkaProducer
from raftka.chaos.load import Acks, tp_of
from raftka.chaos.log_workload import LogWorkload
from raftka.chaos.pacing import Pacer
from raftka.chaos.wire_consumer import LatestAsker, TableReader, WireConsumer
from raftka.chaos.wire_producer import WireProducer

# Tombstones go during a run of minutes, and a whole read takes less.
RETENTION_MS = 5_000
_CONFIG = {
    "cleanup.policy": "compact",
    "delete.retention.ms": str(RETENTION_MS),
    "min.cleanable.dirty.ratio": "0.01",
    # A segment is closed after so long, whatever its size, and then it can be compacted.
    "max.compaction.lag.ms": "2000",
    "segment.bytes": str(1024 * 1024),
}
# Of each partition. At the default rate each of the many keys rests for about 20 s.
_BUSY_KEYS, _KEYS = 6, 1_500
_DELETED = 0.3
VALUE_BYTES = 1_000
_WIRE_PRODUCERS = 24
_LIBRDKAFKA_PRODUCERS = 2
_TABLE_READERS = 3


class CompactedWorkload(LogWorkload):
    """A context manager; `start`, then `stop`, then `read_finally`."""

    topic_names: tuple[str, ...] = ("chaos-table",)
    config: Mapping[str, str] = _CONFIG

    def make_clients(self, rng: random.Random, pacer: Pacer, seed: int, acks: Acks, *, is_raftka: bool) -> None:
        """Make all clients. All producers are idempotent: another attempt's copy would be a later record of its key."""
        history, topics, client = self.history, self.topics, self.client

        def maker(name: str) -> KeyedRecordMaker:
            return KeyedRecordMaker(random.Random(f"{seed} keys {name}"), _BUSY_KEYS, _KEYS, _DELETED, VALUE_BYTES)

        wire_producers = [
            WireProducer(
                client, history, rng, pacer, topics, acks, is_idempotent=True, record_of=maker(f"wire {number}")
            )
            for number in range(_WIRE_PRODUCERS)
        ]
        producers = [
            LibrdkafkaProducer(
                self.bootstrap,
                history,
                random.Random(f"{seed} producer {number}"),
                pacer,
                topics,
                acks,
                is_idempotent=True,
                record_of=maker(f"librdkafka {number}"),
            )
            for number in range(_LIBRDKAFKA_PRODUCERS)
        ]
        self.wire_consumers = [WireConsumer(client, history, rng, topics, names_epochs=is_raftka)]
        self.wire_consumers += [
            TableReader(client, history, rng, topics, names_epochs=is_raftka) for _ in range(_TABLE_READERS)
        ]
        self.consumers = [LibrdkafkaConsumer(self.bootstrap, history, topics)]
        self.tasks = [*wire_producers, *self.wire_consumers, LatestAsker(client, history, rng, topics)]
        self.threads = [*producers, *self.consumers]

    def start(self) -> None:
        """Make the topic, note that it is compacted, and begin."""
        for each in self.topics.all:
            self.history.note("compact", tp=tp_of(*each), delete_retention_ms=RETENTION_MS)
        super().start()
