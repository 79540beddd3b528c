"""Consumers of a simulated run, on the wire: by assignment, and the complete re-read at the end; who asks for latest."""

import asyncio
from random import Random

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import FetchRequest, ListOffsetsRequest
from model.record_batch import read_header
from model.record_codec import unpack_records
from tests.simulation.kafka_wire import KafkaWire, LostError, NotSentError
from tests.simulation.recorder import Recorder

_LATEST, _EARLIEST = -1, -2
_BYTES_MAX = 64 * 1024


def records_of(data: bytes) -> list[tuple[int, str]]:
    """Return offset and value, as it was before it was padded, of every record of several batches."""
    found, position = [], 0
    while position < len(data):
        header = read_header(data, position)
        payload = unpack_records(memoryview(data)[position : position + header.size])
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
        position += header.size
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[position]
        raw |= (byte & 0x7F) << shift
        shift, position = shift + 7, position + 1
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position


class SimConsumer:
    """One process that reads all partitions of a topic, each from its earliest record on."""

    def __init__(self, wire: KafkaWire, recorder: Recorder, rng: Random, topic: str, partitions: int) -> None:
        self._wire = wire
        self._recorder = recorder
        self._rng = rng
        self._topic = topic
        self._partitions = partitions
        self._process = recorder.process()
        self._version = rng.randrange(4, 13)
        self._list_version = rng.randrange(1, 10)
        self._pause = rng.choice([0.2, 1.0])
        self._wait_ms = rng.choice([0, 0, 200])
        self.positions: dict[int, int] = {}

    async def run(self) -> None:
        """Read for ever."""
        self._recorder.note("assign", proc=self._process, tps=[f"{self._topic}-{n}" for n in range(self._partitions)])
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / self._pause))
            partition = self._rng.randrange(self._partitions)
            if partition not in self.positions or self._rng.random() < 0.02:
                await self._seek(partition)
            else:
                await self._poll(partition)

    async def read_all(self, ends: dict[int, int]) -> None:
        """Read every partition to its end once more: the final polls. Nothing may refuse for long any more.

        The pauses are of virtual time: without them, one that is refused would ask again within the same instant.
        """
        for partition, end in ends.items():
            while not await self._seek(partition):
                await asyncio.sleep(0.1)
            is_first = True
            while is_first or self.positions[partition] < end:
                is_first = False
                if not await self._poll(partition, final=True):
                    await asyncio.sleep(0.1)

    async def _seek(self, partition: int) -> bool:
        offset = await ask_offset(self._wire, self._list_version, self._topic, partition, _EARLIEST)
        if offset is None:
            return False
        self._recorder.note("seek", proc=self._process, tp=f"{self._topic}-{partition}", off=offset)
        self.positions[partition] = offset
        return True

    async def _poll(self, partition: int, *, final: bool = False) -> bool:
        position = self.positions[partition]
        line = self._recorder.begin(
            "poll", self._process, tp=f"{self._topic}-{partition}", recs=[], hw=None, final=final
        )
        try:
            told = await self._fetch(partition, position)
        except (NotSentError, LostError):
            self._wire.forget(self._topic, partition)
            self._recorder.end(line, "info")
            return False
        if told.error_code:
            self._recorder.end(line, "info")
            self._recorder.counts[f"fetch {ErrorCode(told.error_code).name}"] += 1
            self._wire.forget(self._topic, partition)
            if told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                del self.positions[partition]
                return await self._seek(partition)
            return False
        records = [each for each in records_of(bytes(told.records or b"")) if each[0] >= position]
        if records:
            self.positions[partition] = records[-1][0] + 1
        self._recorder.end(line, "ok", recs=records, hw=told.high_watermark)
        return True

    async def _fetch(self, partition: int, position: int) -> FetchRequest:
        address, epoch = await self._wire.leader(self._topic, partition)
        asked = FetchRequest.FetchPartition(
            partition=partition,
            current_leader_epoch=epoch if self._version >= 9 else -1,
            fetch_offset=position,
            partition_max_bytes=_BYTES_MAX,
        )
        request = FetchRequest(
            max_wait_ms=self._wait_ms,
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            topics=[FetchRequest.FetchTopic(topic=self._topic, partitions=[asked])],
        )
        answer = await self._wire.call(address, ApiKey.FETCH, self._version, request)
        return answer.responses[0].partitions[0]


class SimAsker:
    """One process that asks for the latest offset: the linearizable question."""

    def __init__(self, wire: KafkaWire, recorder: Recorder, rng: Random, topic: str, partitions: int) -> None:
        self._wire = wire
        self._recorder = recorder
        self._rng = rng
        self._topic = topic
        self._partitions = partitions
        self._process = recorder.process()
        self._version = rng.randrange(1, 10)

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            await asyncio.sleep(self._rng.expovariate(2))
            partition = self._rng.randrange(self._partitions)
            line = self._recorder.begin("latest", self._process, tp=f"{self._topic}-{partition}", off=None)
            offset = await ask_offset(self._wire, self._version, self._topic, partition, _LATEST)
            self._recorder.end(line, "fail" if offset is None else "ok", off=offset)


async def ask_offset(wire: KafkaWire, version: int, topic: str, partition: int, timestamp: int) -> int | None:
    """Return what ListOffsets says; None: nobody does, or not now."""
    asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    try:
        address, _ = await wire.leader(topic, partition)
        answer = await wire.call(address, ApiKey.LIST_OFFSETS, version, request)
    except (NotSentError, LostError):
        wire.forget(topic, partition)
        return None
    told = answer.topics[0].partitions[0]
    if told.error_code:
        wire.forget(topic, partition)
        return None
    return told.offset
