"""Who deletes records, and what must hold of the answers: an answered deletion is committed, and stays."""

import asyncio
from collections import defaultdict
from random import Random

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import DeleteRecordsRequest
from tests.simulation.clients.kafka_consumers import LATEST, ask_offset
from tests.simulation.clients.kafka_wire import KafkaWire, LostError, NotSentError
from tests.simulation.world.cluster import TOPIC, SimCluster

_LIST_VERSION = 6
_DELETE_VERSION = 1
_HIGH_WATERMARK = -1


class AnsweredDeletions:
    """What DeleteRecords was answered with. `wrong` are the answers that were not true, in words.

    A low watermark is where some committed entry lets the log begin, when the client hears of it: a leader that says so
    earlier may lose the entry. Earliest is asked for once more after the last read.
    """

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._bounds: defaultdict[int, int] = defaultdict(int)
        self.wrong: list[str] = []

    def bound(self, partition: int) -> int:
        """Return the offset at or behind which a partition begins, for all that clients were told."""
        return self._bounds[partition]

    def answered(self, partition: int, asked: int, low_watermark: int) -> None:
        """A deletion of all records before `asked` was answered with success."""
        self._cluster.history.counts["deletions answered"] += 1
        what = f"DeleteRecords of {TOPIC}-{partition} before {asked} was answered with {low_watermark}"
        if low_watermark < asked:
            self.wrong.append(f"{what}, which is less")
        begins = self._begins(partition)
        if begins < low_watermark:
            self.wrong.append(f"{what}, while no entry was committed that lets it begin behind {begins}")
        self._bounds[partition] = max(self._bounds[partition], asked, low_watermark)

    def _begins(self, partition: int) -> int:
        committed = self._cluster.history.committed_in(self._cluster.data_groups()[partition])
        return max((ghost.start.offset for ghost in committed if ghost.start is not None), default=0)


class SimDeleter:
    """One process that deletes the oldest records of a partition every few seconds."""

    def __init__(self, wire: KafkaWire, rng: Random, partitions: int, pause: float, answers: AnsweredDeletions) -> None:
        self._wire = wire
        self._rng = rng
        self._partitions = partitions
        self._pause = pause
        self._answers = answers
        self.is_working = True

    async def run(self) -> None:
        """Do so until told to stop."""
        while self.is_working:
            await asyncio.sleep(self._rng.expovariate(1 / self._pause))
            partition = self._rng.randrange(self._partitions)
            latest = await ask_offset(self._wire, _LIST_VERSION, TOPIC, partition, LATEST)
            # It may have been told to stop meanwhile: where logs begin is settled when the last reads do.
            if latest is not None and self.is_working:
                # Anywhere, in the midst of a batch too; or all there is.
                offsets = [_HIGH_WATERMARK, *(self._rng.randrange(latest + 2) for _ in range(3))]
                await self._delete(partition, self._rng.choice(offsets))

    async def _delete(self, partition: int, offset: int) -> None:
        asked = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=partition, offset=offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=TOPIC, partitions=[asked])
        try:
            address, _ = await self._wire.leader(TOPIC, partition)
            request = DeleteRecordsRequest(topics=[topic], timeout_ms=3000)
            answer = await self._wire.call(address, ApiKey.DELETE_RECORDS, _DELETE_VERSION, request)
        except (NotSentError, LostError):
            self._wire.forget(TOPIC, partition)
            return
        result = answer.topics[0].partitions[0]
        if result.error_code:
            self._wire.forget(TOPIC, partition)
            return
        self._answers.answered(partition, max(offset, 0), result.low_watermark)
