"""Once a second: reads every replica of this broker, and sends what it read to where `__raftka_telemetry` is led.

    read all replicas -> batches by partition of the topic -> one after the other, each waits for its answer

Nothing is queued. A batch that is not taken is dropped, and what its replicas did goes into their next records; so does
what was not answered, and a figure may be told twice then, but never be lost while this broker lives. A second whose
turn comes while the former one is still being sent is left out.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from cluster.admin_requests import AdminRequests, CreateTopicRequest
from cluster.controller import Controller
from cluster.errors import ClusterError, TopicExistsError
from cluster.partition import Partition
from cluster.partition_manager import PartitionManager
from cluster.telemetry.telemetry_batch import Sample, batches
from cluster.telemetry.telemetry_record import FarOffsets, Moment, is_told_of, read_replica, record_key
from cluster.telemetry.telemetry_relay import TelemetryError, TelemetryRelay
from cluster.telemetry.telemetry_topic import (
    TELEMETRY_PARTITIONS,
    TELEMETRY_TOPIC,
    TELEMETRY_TOPIC_CONFIGS,
    telemetry_partition,
)
from cluster.topic_table import Topic
from model.ids import NodeId
from model.key_value_batch import KeyValue, encode_key_values
from runtime.environment import Environment
from runtime.gate import Gate
from storage.errors import StorageError

_logger = logging.getLogger("telemetry")

INTERVAL = 1.0
_REPLICAS_MAX = 3
_CREATE_TIMEOUT = 2.0
_SEND_TIMEOUT = 2.0
# Reading and writing down one replica takes some 30 us: other tasks run after about a millisecond.
_READ_AT_ONCE = 32
_BOOT_BYTES = 6


@dataclass(slots=True)
class TelemetryCounts:
    """Monotone counts since the start."""

    records_published: int = 0
    batches_published: int = 0
    batches_failed: int = 0
    seconds_skipped: int = 0


class TelemetryPublisher:
    """One per broker that publishes; `start` once this node is registered with raft0."""

    def __init__(
        self,
        env: Environment,
        node_id: NodeId,
        brokers: int,
        controller: Controller,
        admin: AdminRequests,
        partitions: PartitionManager,
        relay: TelemetryRelay,
    ) -> None:
        self._env = env
        self._node_id = node_id
        self._brokers = brokers
        self._controller = controller
        self._admin = admin
        self._partitions = partitions
        self._relay = relay
        self._boot = env.rng.randbytes(_BOOT_BYTES).hex()
        self._far = FarOffsets()
        # Partitions of the topic whose last batch was not taken: they come last, for they may take their time again.
        self._failing: dict[int, None] = {}
        self._trouble = ""
        self._gate = Gate("telemetry")
        self.counts = TelemetryCounts()

    def start(self, registered: asyncio.Event) -> None:
        """Begin to publish, once `registered` is set: before that it is not known what topics there are."""
        self._gate.spawn(self._run(registered), name="publish")

    async def stop(self) -> None:
        """Publish nothing more."""
        await self._gate.close()

    async def _run(self, registered: asyncio.Event) -> None:
        await registered.wait()
        loop = asyncio.get_running_loop()
        due = loop.time() + INTERVAL
        while True:
            await asyncio.sleep(max(due - loop.time(), 0.0))
            await self._publish()
            due += INTERVAL
            late = loop.time() - due
            if late > 0:
                skipped = int(late / INTERVAL) + 1
                due += skipped * INTERVAL
                if self.counts.seconds_skipped == 0:
                    _logger.warning(
                        "a publication took longer than its second: the next is left out; more of them are only counted"
                    )
                self.counts.seconds_skipped += skipped

    async def _publish(self) -> None:
        topic = self._controller.topics.get(TELEMETRY_TOPIC)
        if topic is None:
            self._failing.clear()
            await self._create()
            return
        at_ms = self._env.wall_clock.now_ms()
        by_partition = await self._read_all(len(topic.replicas), at_ms)
        failed = 0
        for number in sorted(by_partition, key=lambda number: (number in self._failing, number)):
            self._failing.pop(number, None)
            failed += await self._send_all(topic, number, by_partition[number], at_ms)
        if self._trouble and not failed:
            _logger.info("every replica's figures are published again")
            self._trouble = ""

    async def _create(self) -> None:
        request = CreateTopicRequest(
            TELEMETRY_TOPIC,
            TELEMETRY_PARTITIONS,
            min(_REPLICAS_MAX, self._brokers),
            [],
            dict(TELEMETRY_TOPIC_CONFIGS),
            False,
            _CREATE_TIMEOUT,
        )
        try:
            await self._admin.create_topic(request)
            _logger.info("created %s", TELEMETRY_TOPIC)
        except TopicExistsError:
            pass  # Another broker was first, and this one's table is behind.
        except ClusterError as error:
            self._say(f"{TELEMETRY_TOPIC} was not created: {error}")

    async def _read_all(self, partitions: int, at_ms: int) -> dict[int, list[Sample]]:
        """Return what every replica here has to tell, by partition of the topic."""
        by_partition: dict[int, list[Sample]] = defaultdict(list)
        self._far.begin_round()
        moment = Moment(self._node_id, self._boot, at_ms, asyncio.get_running_loop().time())
        for number, partition in enumerate(self._partitions):
            if number % _READ_AT_ONCE == _READ_AT_ONCE - 1:
                await asyncio.sleep(0)
            sample = await self._read(partition, moment)
            if sample is not None:
                by_partition[telemetry_partition(sample.record.key, partitions)].append(sample)
        return by_partition

    async def _read(self, partition: Partition, moment: Moment) -> Sample | None:
        figures = partition.consensus.figures
        if figures is None or not is_told_of(partition):
            return None
        taken = figures.take(moment.now)
        try:
            record = await read_replica(partition, moment, taken, self._far)
        except StorageError:
            # It is being closed, cut or opened again; what it did is told by its next record.
            record = None
        if record is None:
            figures.put_back(taken)
            return None
        return Sample(partition, taken, KeyValue(record_key(partition), msgspec.json.encode(record)))

    async def _send_all(self, topic: Topic, number: int, samples: Sequence[Sample], at_ms: int) -> int:
        """Send one partition's batches; return how many failed. After one that fails the others are not tried."""
        parts = list(batches(samples))
        for position, part in enumerate(parts):
            batch = encode_key_values([sample.record for sample in part], at_ms)
            try:
                await self._relay.send(topic.group(number), batch, _SEND_TIMEOUT)
            except TelemetryError as error:
                self._failing[number] = None
                self._say(f"{TELEMETRY_TOPIC}-{number}: {error}")
                left = parts[position:]
                for sample in (sample for batch_left in left for sample in batch_left):
                    sample.put_back()
                self.counts.batches_failed += len(left)
                return len(left)
            self.counts.batches_published += 1
            self.counts.records_published += len(part)
        return 0

    def _say(self, trouble: str) -> None:
        """Say what is wrong once, until all is well again: a leader that is gone is missed every second."""
        if not self._trouble:
            _logger.warning("not published, and tried again each second: %s", trouble)
        self._trouble = trouble
