"""Consumers of a simulated run, on the wire: by assignment, and the complete re-read at the end; who asks for latest."""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import FetchRequest, ListOffsetsRequest
from model.record_batch import MalformedBatchError, check_batch, read_header
from model.record_codec import unpack_records
from tests.simulation.clients.kafka_wire import Address, KafkaWire, LostError, NotSentError
from tests.simulation.clients.recorder import Recorder
from tests.simulation.clients.told_ends import ToldEnds

LATEST, EARLIEST = -1, -2
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
# Fetch tells the broker the epoch of the leader that is meant since this version (KIP-320).
_NAMES_EPOCHS_SINCE = 9
_BYTES_MAX = 64 * 1024


class Fetched(NamedTuple):
    """What is in the batches of an answer: records that a reader gets, and from where to where the batches reach."""

    records: list[tuple[int, str]]
    spans: list[tuple[int, int]]


def records_of(data: bytes, aborted: Iterable[tuple[int, int]] = ()) -> Fetched:
    """Return offset and value, as it was before it was padded, of every record of several batches.

    Args:
        data: The batches.
        aborted: Producer ids, and offsets from which on their records are left out up to the next marker (KIP-98).

    Raises:
        MalformedBatchError: A bit has flipped since its producer has made a batch.
    """
    found: list[tuple[int, str]] = []
    spans: list[tuple[int, int]] = []
    position, waiting, hidden = 0, sorted(aborted, key=lambda each: each[1]), set[int]()
    while position < len(data):
        header = read_header(data, position)
        check_batch(data[position : position + header.size])
        batch = memoryview(data)[position : position + header.size]
        position += header.size
        spans.append((header.base_offset, header.base_offset + header.last_offset_delta + 1))
        while waiting and waiting[0][1] <= header.base_offset:
            hidden.add(waiting.pop(0)[0])
        if header.is_control:
            hidden.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in hidden:
            continue
        payload = unpack_records(batch)
        at = 0
        for _ in range(header.record_count):
            length, at = _varint(payload, at)
            end = at + length
            _, at = _varint(payload, at + 1)
            delta, at = _varint(payload, at)
            key_length, at = _varint(payload, at)
            value_length, at = _varint(payload, at + max(0, key_length))
            value = payload[at : at + max(0, value_length)]
            found.append((header.base_offset + delta, value.rstrip(b" ").decode()))
            at = end
    return Fetched(found, spans)


def _follow(spans: list[tuple[int, int]], position: int, *, has_gaps: bool) -> bool:
    """Whether the offsets of batches are those from `position` on; a compacted log may lack some."""
    for begin, end in spans:
        if position >= end or (begin > position and not has_gaps):
            return False
        position = end
    return True


def _varint(data: bytes, position: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[position]
        raw |= (byte & 0x7F) << shift
        shift, position = shift + 7, position + 1
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position


class SimConsumer:
    """Reads partitions of a topic, each from its earliest record on.

    Each partition is a process of its own in the history: several are polled in one request, at the same time.
    """

    def __init__(
        self,
        wire: KafkaWire,
        recorder: Recorder,
        rng: Random,
        topic: str,
        partitions: int,
        *,
        ends: ToldEnds,
        isolation: str | None = None,
    ) -> None:
        self._wire = wire
        self.ends = ends
        self._recorder = recorder
        self._stream = self._rng = rng
        self._topic = topic
        self._partitions = partitions
        # None where no transactions are: nothing is said of it.
        self._isolation = isolation
        self.processes = [recorder.process() for _ in range(partitions)]
        self._version = rng.randrange(4, 13)
        self._list_version = rng.randrange(1, 10)
        self._pause = rng.choice([0.8, 1.6])
        self._wait_ms = rng.choice([0, 0, 200])
        self.positions: dict[int, int] = {}
        # The epoch that was last named and answered, by partition.
        self._read_epochs: dict[int, int] = {}

    async def run(self) -> None:
        """Read for ever."""
        for partition, process in enumerate(self.processes):
            self._recorder.note("assign", proc=process, tps=[f"{self._topic}-{partition}"])
        while True:
            await asyncio.sleep(self._stream.expovariate(1 / self._pause))
            self._rng = Random(self._stream.getrandbits(64))
            if not self._recorder.wants(self.processes[0]):
                continue
            count = 1 if self._rng.random() < 0.5 else self._partitions
            some = self._rng.sample(range(self._partitions), count)
            unknown = [partition for partition in some if partition not in self.positions]
            if unknown or self._rng.random() < 0.02:
                await self.seek((unknown or some)[0])
            else:
                await self.poll(some)

    async def read_all(self, ends: dict[int, int], *, final: bool = True) -> None:
        """Read every partition to its end once more: the final polls. Nothing may refuse for long any more.

        The pauses are of virtual time: without them, one that is refused would ask again within the same instant.
        """
        for partition, end in ends.items():
            while not await self.seek(partition):
                await asyncio.sleep(0.1)
            is_first = True
            while is_first or self.positions[partition] < end:
                is_first = False
                if not await self.poll([partition], final=final):
                    await asyncio.sleep(0.1)

    async def seek(self, partition: int) -> bool:
        """Go to the earliest record; return whether it could be asked for."""
        offset = await ask_offset(self._wire, self._list_version, self._topic, partition, EARLIEST)
        if offset is None:
            return False
        self._recorder.note("seek", proc=self.processes[partition], tp=f"{self._topic}-{partition}", off=offset)
        self.positions[partition] = offset
        return True

    async def poll(self, partitions: list[int], *, final: bool = False) -> bool:
        """Poll those that the first one's leader leads, in one request; return whether all of them were answered."""
        try:
            leaders = {each: await self._wire.leader(self._topic, each) for each in partitions}
        except (NotSentError, LostError):
            return False
        address, _ = leaders[partitions[0]]
        led = [each for each in partitions if leaders[each][0] == address]
        # Named in the fetch, so that only the leader of that epoch answers it.
        epochs = {each: leaders[each][1] if self._version >= _NAMES_EPOCHS_SINCE else -1 for each in led}
        lines = {each: self._begin(each, None if final else epochs[each], final=final) for each in led}
        try:
            answer = await self._wire.call(address, ApiKey.FETCH, self._version, self._request(epochs))
        except (NotSentError, LostError):
            for partition, line in lines.items():
                self._wire.forget(self._topic, partition)
                self._recorder.end(line, "info")
            return False
        told = {each.partition_index: each for topic in answer.responses for each in topic.partitions}
        assert set(told) == set(led), f"asked for {led}, told of {sorted(told)}"
        return all([await self._take(each, lines[each], told[each], address) for each in led])

    def _begin(self, partition: int, epoch: int | None, *, final: bool) -> dict[str, Any]:
        fields = {"tp": f"{self._topic}-{partition}", "recs": [], "hw": None, "epoch": epoch, "final": final}
        if self._isolation is not None:
            fields |= {"iso": self._isolation, "lso": None}
        return self._recorder.begin("poll", self.processes[partition], **fields)

    async def _take(self, partition: int, line: dict[str, Any], told: Any, address: Address) -> bool:
        position = self.positions[partition]
        if told.error_code:
            self._recorder.end(line, "info")
            self._recorder.counts[f"fetch {ErrorCode(told.error_code).name}"] += 1
            self._wire.forget(self._topic, partition)
            if told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                del self.positions[partition]
                return await self.seek(partition)
            return False
        try:
            aborted = [(each.producer_id, each.first_offset) for each in told.aborted_transactions or ()]
            found = records_of(bytes(told.records or b""), aborted)
        except MalformedBatchError as error:
            self._recorder.end(line, "info")
            self.ends.damaged(partition, address[0], str(error))
            return False
        records = [each for each in found.records if each[0] >= position]
        # No CRC covers the base offset of a batch.
        has_gaps = self._recorder.has_keys
        if not _follow(found.spans, position, has_gaps=has_gaps) and self.ends.has_rotted(address[0]):
            self._recorder.end(line, "info")
            return False
        if found.spans:
            self.positions[partition] = found.spans[-1][1]
        self._count_leader(partition, line["epoch"])
        fields = {} if self._isolation is None else {"lso": told.last_stable_offset}
        # Markers may be behind the last record that final reads get.
        is_final = self._isolation is not None and line["final"]
        self._recorder.end(line, "ok", recs=records, hw=None if is_final else told.high_watermark, **fields)
        self.ends.high_watermark(partition, told.high_watermark)
        return True

    def _count_leader(self, partition: int, epoch: int | None) -> None:
        if epoch is not None and epoch >= 0:
            if epoch > self._read_epochs.get(partition, epoch):
                self._recorder.counts["high watermark of a newer leader"] += 1
            self._read_epochs[partition] = epoch

    def _request(self, epochs: dict[int, int]) -> FetchRequest:
        asked = [
            FetchRequest.FetchPartition(
                partition=partition,
                current_leader_epoch=epoch,
                fetch_offset=self.positions[partition],
                partition_max_bytes=_BYTES_MAX,
            )
            for partition, epoch in epochs.items()
        ]
        return FetchRequest(
            max_wait_ms=self._wait_ms,
            isolation_level=int(self._isolation == READ_COMMITTED),
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            topics=[FetchRequest.FetchTopic(topic=self._topic, partitions=asked)],
        )


class SimAsker:
    """One process that asks for the latest offset: the linearizable question.

    Impatient ones ask whom they know again when there is no answer: a leader that hangs, or is cut off from the others,
    is still asked after another one has been elected.
    """

    def __init__(
        self, wire: KafkaWire, recorder: Recorder, rng: Random, topic: str, partitions: int, *, ends: ToldEnds
    ) -> None:
        self._wire = wire
        self.ends = ends
        self._recorder = recorder
        self._stream = self._rng = rng
        self._topic = topic
        self._partitions = partitions
        self._process = recorder.process()
        self._version = rng.randrange(1, 10)
        self._patience = rng.choice([0.4, 1.0, 5.0])
        self._pause = rng.choice([0.8, 2.0])

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / self._pause))
            partition = self._rng.randrange(self._partitions)
            if not self._recorder.wants(self._process):
                continue
            await self._ask(partition)

    async def _ask(self, partition: int) -> None:
        line = self._recorder.begin("latest", self._process, tp=f"{self._topic}-{partition}", off=None)
        committed = self.ends.committed(partition)
        stays = self._rng.random() < 0.7
        offset = await ask_offset(
            self._wire, self._version, self._topic, partition, LATEST, timeout=self._patience, stays=stays
        )
        self._recorder.end(line, "fail" if offset is None else "ok", off=offset)
        if offset is not None:
            self.ends.latest(partition, committed, offset)


async def ask_offset(
    wire: KafkaWire,
    version: int,
    topic: str,
    partition: int,
    timestamp: int,
    *,
    timeout: float = 5.0,
    stays: bool = False,
) -> int | None:
    """Return what ListOffsets says; None: nobody does, or not now.

    `stays`: who does not answer is asked again the next time.
    """
    asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    try:
        address, _ = await wire.leader(topic, partition)
        answer = await wire.call(address, ApiKey.LIST_OFFSETS, version, request, timeout)
    except (NotSentError, LostError) as error:
        if not (stays and isinstance(error, LostError)):
            wire.forget(topic, partition)
        return None
    told = answer.topics[0].partitions[0]
    if told.error_code:
        wire.forget(topic, partition)
        return None
    return told.offset
