"""A consumer on the wire client: by assignment, from the beginning; and who asks for latest."""

import asyncio
import random

from raftka.chaos.history import History
from raftka.chaos.keyed_records import name_of
from raftka.chaos.load import Topics, tp_of
from raftka.kafka.wire.client import LostError, NotSentError, WireClient
from raftka.kafka.wire.error_codes import NONE, OFFSET_OUT_OF_RANGE
from raftka.kafka.wire.fields import AnswerError
from raftka.kafka.wire.record_batches import Producer, ReadRecord, read_records
from raftka.kafka.wire.requests import EARLIEST, LATEST, fetch, list_offsets

_ROUND_SECONDS = 0.25
_WAIT_MS = 10
_BYTES_MAX = 256 * 1024
_ASK_SECONDS = 0.2
# How likely a poll is to begin anew with the oldest record: what is on disk is to be read, not only what is in memory.
_AGAIN = 1 / 2_000
# Between two reads of a whole partition, on average.
_TABLE_PAUSE_SECONDS = 0.3
# How likely a poll is at read_committed: the last stable offset is judged of all, what is beyond it of these only.
_COMMITTED = 0.5


class WireConsumer:
    """One process. `is_working` set to False ends `run` after the round at hand.

    With `names_epochs` its fetches name the leader epoch, and high watermarks are judged across leaders.
    """

    def __init__(
        self, client: WireClient, history: History, rng: random.Random, topics: Topics, *, names_epochs: bool
    ) -> None:
        self._client = client
        self._history = history
        self._rng = rng
        self._topics = topics
        self._names_epochs = names_epochs
        self._process = history.process()
        self._positions: dict[tuple[str, int], int] = {}
        # What the newest answered poll said of its partition's end.
        self._high_watermarks: dict[tuple[str, int], int] = {}
        # The epoch of the leader that took a record, by (partition, offset): only of the final reads.
        self.epochs: dict[tuple[str, int], int] = {}
        # Likewise, who wrote it; only idempotent producers.
        self.producers: dict[tuple[str, int], Producer] = {}
        self.is_working = True

    async def run(self) -> None:
        """Read round after round until told to stop."""
        self._history.note("assign", proc=self._process, tps=[tp_of(*each) for each in self._topics.all])
        while self.is_working:
            for topic, partition in self._topics.all:
                if (topic, partition) not in self._positions or self._rng.random() < _AGAIN:
                    await self._seek(topic, partition)
                else:
                    await self._poll(topic, partition, final=False)
            await asyncio.sleep(_ROUND_SECONDS)

    async def read_all(self, ends: dict[tuple[str, int], int]) -> None:
        """Read every partition from its beginning to its end once more: the final polls.

        Beyond `ends` too, as far as the answers say that there is more: what became visible after they were asked for.
        """
        for (topic, partition), end in ends.items():
            # At least one poll of each: also that a partition is empty has to be seen.
            is_seen = False
            is_placed = await self._seek(topic, partition)
            while not is_seen or self._positions[topic, partition] < max(end, self._high_watermarks[topic, partition]):
                if is_placed:
                    is_seen = is_worked = await self._poll(topic, partition, final=True)
                else:
                    is_placed = is_worked = await self._seek(topic, partition)
                if not is_worked:
                    await asyncio.sleep(_ROUND_SECONDS)

    async def _seek(self, topic: str, partition: int) -> bool:
        offset = await ask_offset(self._client, topic, partition, EARLIEST)
        if offset is None:
            return False
        self._history.note("seek", proc=self._process, tp=tp_of(topic, partition), off=offset)
        self._positions[topic, partition] = offset
        return True

    async def _poll(self, topic: str, partition: int, *, final: bool) -> bool:
        position = self._positions[topic, partition]
        tp = tp_of(topic, partition)
        is_committed = not final and self._rng.random() < _COMMITTED
        isolation = "read_committed" if is_committed else "read_uncommitted"
        line = self._history.begin("poll", self._process, tp=tp, recs=[], hw=None, epoch=-1, iso=isolation, final=final)
        try:
            _, address = await self._client.leader(topic, partition)
            epoch = self._client.epoch(topic, partition) if self._names_epochs else -1
            asked = fetch(topic, partition, position, _WAIT_MS, _BYTES_MAX, epoch=epoch, is_committed=is_committed)
            told = await self._client.call(address, asked)
            records = [each for each in read_records(told.batches) if each.offset >= position]
        except (NotSentError, LostError, AnswerError) as error:
            self._client.forget(topic, partition)
            self._history.end(line, "info", err=str(error))
            return False
        if told.error != NONE:
            self._client.forget(topic, partition)
            self._history.end(line, "info", err=f"error {told.error}")
            if told.error == OFFSET_OUT_OF_RANGE:
                await self._seek(topic, partition)
            return False
        if records:
            self._positions[topic, partition] = records[-1].offset + 1
        self._high_watermarks[topic, partition] = told.high_watermark
        if final:
            self.epochs |= {(tp, each.offset): each.epoch for each in records}
            self.producers |= {(tp, each.offset): each.producer for each in records if each.producer is not None}
        recs = [(each.offset, _name_of(each)) for each in records]
        high_watermark = told.high_watermark if told.high_watermark >= 0 else None
        stable = {"lso": told.last_stable} if told.last_stable >= 0 else {}
        self._history.end(line, "ok", recs=recs, hw=high_watermark, epoch=epoch, **stable)
        return True


def _name_of(record: ReadRecord) -> str:
    return name_of(record.key, None if record.is_tombstone else record.value, record.headers)


class TableReader(WireConsumer):
    """A process that reads whole partitions, each from its first record to its end, one after the other."""

    async def run(self) -> None:
        """Read until told to stop."""
        self._history.note("assign", proc=self._process, tps=[tp_of(*each) for each in self._topics.all])
        while self.is_working:
            await self._read_once(*self._rng.choice(self._topics.all))
            await asyncio.sleep(self._rng.expovariate(1 / _TABLE_PAUSE_SECONDS))

    async def _read_once(self, topic: str, partition: int) -> None:
        """Read to the high watermark of the last answer, or until an answer fails or brings nothing new."""
        is_read = await self._seek(topic, partition)
        while is_read and self.is_working:
            before = self._positions[topic, partition]
            is_read = await self._poll(topic, partition, final=False)
            position = self._positions[topic, partition]
            is_read &= before < position < self._high_watermarks.get((topic, partition), 0)


class LatestAsker:
    """One process that asks for the latest offset: the linearizable question."""

    def __init__(self, client: WireClient, history: History, rng: random.Random, topics: Topics) -> None:
        self._client = client
        self._history = history
        self._rng = rng
        self._topics = topics
        self._process = history.process()
        self.is_working = True

    async def run(self) -> None:
        """Ask until told to stop."""
        while self.is_working:
            await asyncio.sleep(self._rng.expovariate(1 / _ASK_SECONDS))
            topic, partition = self._rng.choice(self._topics.all)
            line = self._history.begin("latest", self._process, tp=tp_of(topic, partition), off=None, err=None)
            offset = await ask_offset(self._client, topic, partition, LATEST)
            self._history.end(line, "fail" if offset is None else "ok", off=offset)


async def ask_offset(
    client: WireClient, topic: str, partition: int, timestamp: int, *, is_committed: bool = False
) -> int | None:
    """Return what ListOffsets says, at read_committed if so; None: nobody does, or not now."""
    try:
        _, address = await client.leader(topic, partition)
        told = await client.call(address, list_offsets(topic, partition, timestamp, is_committed=is_committed))
    except (NotSentError, LostError):
        client.forget(topic, partition)
        return None
    if told.error != NONE:
        client.forget(topic, partition)
        return None
    return told.offset
