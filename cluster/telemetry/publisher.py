"""Once a second: reads every replica of this broker, and sends what it read to where `__raftka_telemetry` is led.

    read all replicas -> batches by partition of the topic -> of each partition one after the other, each is answered

A batch that is not taken is sent again, as it is, with those of the next seconds behind it: who leads the topic may be
the very leader whose loss is to be told of. After KEPT_SECONDS it is dropped, and what its replicas did goes into their
next records. A batch whose answer was lost may be there twice then, but no figure is lost while this broker lives.
"""

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass

import msgspec

from cluster.admin_messages import CreateTopicRequest
from cluster.admin_requests import AdminRequests
from cluster.controller import Controller
from cluster.errors import ClusterError, TopicExistsError
from cluster.partition import Partition
from cluster.partition_manager import PartitionManager
from cluster.telemetry.outbox import Outbox
from cluster.telemetry.telemetry_batch import Sample
from cluster.telemetry.telemetry_record import FarOffsets, Moment, is_told_of, read_replica, record_key
from cluster.telemetry.telemetry_relay import TelemetryError, TelemetryRelay
from cluster.telemetry.telemetry_topic import (
    TELEMETRY_PARTITIONS,
    TELEMETRY_TOPIC,
    TELEMETRY_TOPIC_CONFIGS,
    telemetry_partition,
)
from model.ids import GroupId, NodeId
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
        controller: Controller,
        admin: AdminRequests,
        partitions: PartitionManager,
        relay: TelemetryRelay,
    ) -> None:
        self._env = env
        self._node_id = node_id
        self._controller = controller
        self._admin = admin
        self._partitions = partitions
        self._relay = relay
        self._boot = env.rng.randbytes(_BOOT_BYTES).hex()
        self._far = FarOffsets()
        self._outboxes: dict[int, Outbox] = defaultdict(Outbox)
        # Partitions of the topic whose last batch was not taken.
        self._failing: set[int] = set()
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
                        "reading all replicas took longer than its second: the next is left out; more of them are only"
                        " counted"
                    )
                self.counts.seconds_skipped += skipped

    async def _publish(self) -> None:
        topic = self._controller.topics.get(TELEMETRY_TOPIC)
        if topic is None:
            await self._create()
            return
        at_ms, now = self._env.wall_clock.now_ms(), asyncio.get_running_loop().time()
        for number, samples in (await self._read_all(len(topic.replicas), at_ms)).items():
            self._outboxes[number].add(samples, at_ms, now)
        for number, outbox in self._outboxes.items():
            if outbox and not outbox.is_busy:
                outbox.is_busy = True
                # A leader that stands still holds up its own partition, and neither the others nor the next reading.
                self._gate.spawn(self._send_all(number, outbox), name=f"send-{number}")

    async def _create(self) -> None:
        request = CreateTopicRequest(
            TELEMETRY_TOPIC,
            TELEMETRY_PARTITIONS,
            min(_REPLICAS_MAX, self._controller.members.lasting_count()),
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
        figures = partition.figures
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

    async def _send_all(self, number: int, outbox: Outbox) -> None:
        """Send what one partition has not taken yet, until that is all or one batch fails: the next second tries it."""
        try:
            while (part := outbox.first(asyncio.get_running_loop().time())) is not None:
                batch = encode_key_values([sample.record for sample in part.samples], part.at_ms)
                try:
                    await self._relay.send(self._group(number), batch, _SEND_TIMEOUT)
                except TelemetryError as error:
                    self._failing.add(number)
                    self._say(f"{TELEMETRY_TOPIC}-{number}: {error}")
                    self.counts.batches_failed += 1
                    return
                outbox.drop_first()
                self.counts.batches_published += 1
                self.counts.records_published += len(part.samples)
        finally:
            outbox.is_busy = False
        self._failing.discard(number)
        if self._trouble and not self._failing:
            _logger.info("every replica's figures are published again")
            self._trouble = ""

    def _group(self, number: int) -> GroupId:
        """Return the group of a partition of the topic, which may have been deleted, or made again, meanwhile.

        Raises:
            TelemetryError: There is none.
        """
        topic = self._controller.topics.get(TELEMETRY_TOPIC)
        if topic is None or number >= len(topic.replicas):
            raise TelemetryError("there is no such partition")
        return topic.group(number)

    def _say(self, trouble: str) -> None:
        """Say what is wrong once, until all is well again: a leader that is gone is missed every second."""
        if not self._trouble:
            _logger.warning("not published, and tried again each second: %s", trouble)
        self._trouble = trouble
