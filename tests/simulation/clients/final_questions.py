"""What partitions' leaders are asked after the last read: earliest, by timestamp, and where epochs ended.

The truth is what clients know, which values they have sent at which timestamps and read at which offsets, and what is
committed. Retention may still move a log's start, so an answer may be that of the moment before or after it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import ListOffsetsRequest, Message, OffsetForLeaderEpochRequest
from tests.simulation.clients.kafka_deleters import AnsweredDeletions
from tests.simulation.clients.kafka_wire import KafkaWire, LostError, NotSentError
from tests.simulation.clients.recorder import Recorder
from tests.simulation.world.cluster import TOPIC, SimCluster
from tests.simulation.world.replica_view import Ghost

_EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL = -2, -3, -4
_NONE = (-1, -1)
# Questions of a kind per partition.
_TIMES = 3
_EPOCHS = 4
# From this version on leaders are asked for all of these.
_LIST_VERSION = 8
_EPOCH_VERSION = 4

Answer = tuple[int, int]


class FinalQuestions:
    """One client process. `wrong` are the answers that are not true: the anomaly's name, and what was said."""

    def __init__(
        self, cluster: SimCluster, wire: KafkaWire, recorder: Recorder, deletions: AnsweredDeletions, rng: Random
    ) -> None:
        self._cluster = cluster
        self._deletions = deletions
        self._wire = wire
        self._rng = rng
        # Of each partition in the order of offsets: offset and timestamp.
        self._records: dict[str, dict[int, int]] = defaultdict(dict)
        for line in recorder.lines:
            if line["f"] == "poll" and line["final"] and line["type"] == "ok":
                self._records[line["tp"]].update((offset, recorder.timestamps[value]) for offset, value in line["recs"])
        self.wrong: dict[str, list[str]] = defaultdict(list)

    async def run(self) -> None:
        """Ask each partition's leader everything, until it answers."""
        for partition in range(self._cluster.options.partitions):
            await self._ask_earliest(partition)
            # Markers and what was aborted have timestamps, too, and no client knows them.
            if not self._cluster.options.transactions_level:
                await self._ask_by_timestamp(partition)
            await self._ask_for_epochs(partition)

    async def _ask_earliest(self, partition: int) -> None:
        for timestamp in (_EARLIEST, _EARLIEST_LOCAL):
            await self._compare(
                "wrong-earliest",
                f"the earliest offset ({timestamp}) of partition {partition}",
                lambda timestamp=timestamp: self._list_offsets(partition, timestamp),  # type: ignore[misc]
                lambda: (self._earliest(partition), -1),
            )

    def _earliest(self, partition: int) -> int:
        """Return where a partition begins; never before what a client was told that it had deleted."""
        return max(_start(self._committed(partition))[1], self._deletions.bound(partition))

    async def _ask_by_timestamp(self, partition: int) -> None:
        times = sorted(self._records[f"{TOPIC}-{partition}"].values())
        if not times:
            return
        asked = [self._rng.choice(times) + self._rng.choice([-1, 0, 0, 1]) for _ in range(_TIMES)]
        for time in [*asked, times[-1] + 1, _MAX_TIMESTAMP]:
            await self._compare(
                "wrong-offset-of-timestamp",
                f"the first offset of partition {partition} at {time}",
                lambda time=time: self._list_offsets(partition, time),  # type: ignore[misc]
                lambda time=time: self._first_at(partition, time),  # type: ignore[misc]
            )

    async def _ask_for_epochs(self, partition: int) -> None:
        newest = self._committed(partition)[-1].term
        some = sorted(self._rng.sample(range(newest + 2), min(newest + 2, _EPOCHS)))
        for epoch in some:
            await self._compare(
                "wrong-epoch-end",
                f"where epoch {epoch} of partition {partition} ended",
                lambda epoch=epoch: self._epoch_end(partition, epoch),  # type: ignore[misc]
                lambda epoch=epoch: _epoch_end(self._committed(partition), epoch),  # type: ignore[misc]
            )

    async def _compare(self, name: str, what: str, ask: Callable[[], Any], truth: Callable[[], Answer]) -> None:
        before = truth()
        while (told := await ask()) is None:
            await asyncio.sleep(0.1)
        if told not in (before, truth()):
            self.wrong[name].append(f"{what} was answered with {told}, and is {truth()}")

    # -- what is true -------------------------------------------------------------------------------------------

    def _committed(self, partition: int) -> list[Ghost]:
        return self._cluster.history.committed_in(self._cluster.data_groups()[partition])

    def _first_at(self, partition: int, time: int) -> Answer:
        """Return offset and timestamp of the first record that is not older."""
        _, start = _start(self._committed(partition))
        left = {offset: at for offset, at in self._records[f"{TOPIC}-{partition}"].items() if offset >= start}
        wanted = max(left.values(), default=0) if time == _MAX_TIMESTAMP else time
        return min(((offset, at) for offset, at in left.items() if at >= wanted), default=_NONE)

    # -- what is told -------------------------------------------------------------------------------------------

    async def _list_offsets(self, partition: int, timestamp: int) -> Answer | None:
        asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        topic = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = await self._call(partition, ApiKey.LIST_OFFSETS, _LIST_VERSION, request)
        if answer is None or answer.topics[0].partitions[0].error_code:
            self._wire.forget(TOPIC, partition)
            return None
        told = answer.topics[0].partitions[0]
        return told.offset, told.timestamp

    async def _epoch_end(self, partition: int, epoch: int) -> Answer | None:
        asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=-1, leader_epoch=epoch
        )
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
        answer = await self._call(partition, ApiKey.OFFSET_FOR_LEADER_EPOCH, _EPOCH_VERSION, request)
        if answer is None or answer.topics[0].partitions[0].error_code:
            self._wire.forget(TOPIC, partition)
            return None
        told = answer.topics[0].partitions[0]
        return told.leader_epoch, told.end_offset

    async def _call(self, partition: int, key: ApiKey, version: int, request: Message) -> Any:
        try:
            address, _ = await self._wire.leader(TOPIC, partition)
            return await self._wire.call(address, key, version, request)
        except (NotSentError, LostError):
            return None


def _start(committed: list[Ghost]) -> Answer:
    """Return index and offset at which a log begins."""
    starts = [(ghost.start.offset, ghost.start.index) for ghost in committed if ghost.start is not None]
    offset, index = max(starts, default=(0, 1))
    return index, offset


def _epoch_end(committed: list[Ghost], epoch: int) -> Answer:
    """Return the largest epoch at or below `epoch`, and the offset behind it, as KIP-320 has it.

    One that ended before the log's start is said to have ended there.
    """
    if epoch > committed[-1].term:
        return _NONE
    index, start = _start(committed)
    last = max((ghost for ghost in committed if ghost.term <= epoch), default=None, key=lambda ghost: ghost.index)
    if last is None or last.index < index:
        return epoch, start
    return last.term, max(start, last.base_offset + last.record_count)
