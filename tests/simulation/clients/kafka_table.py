"""A compacted topic as a table: its keys are overwritten and deleted, and read from the first record to the last.

Each key has one writer, which waits for each answer. What it was not answered may still come, and count: a request may
lie before a broker that stands still. So a reader must find for each key one of these:

    the newest write that was acknowledged before the read began, or one that was begun since
    any write that nobody knows the outcome of
    nothing, where one of these deletes the key
"""

import asyncio
import re
from collections import Counter
from random import Random
from typing import NamedTuple

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import FetchRequest, ProduceRequest
from model.record_batch import MalformedBatchError, read_header
from model.record_codec import unpack_records
from model.record_filter import keyed_records
from tests.simulation.clients.kafka_consumers import EARLIEST, LATEST, ask_offset
from tests.simulation.clients.kafka_producers import NOT_APPENDED
from tests.simulation.clients.kafka_wire import KafkaWire, LostError, NotSentError
from tests.simulation.world.cluster import TABLE
from tests.simulation.world.replica_view import content_key
from tests.unit.model.record_batches import build_batch, varint

_KEYS = 6
_VERSION, _LIST_VERSION = 9, 5
_TIMEOUT_MS = 4_000
_BYTES_MAX = 64 * 1024
_DELETED = 0.25
_VALUE = re.compile(rb"#(\d+)#")


class _Write(NamedTuple):
    number: int
    deletes: bool


class TableState:
    """What writers know of each key."""

    def __init__(self, counts: Counter[str]) -> None:
        self.acknowledged: dict[bytes, _Write] = {}
        self.unknown: dict[bytes, list[_Write]] = {}
        # All that were begun, and not certainly refused.
        self.begun: dict[bytes, list[_Write]] = {}
        self.counts = counts
        self.wrong: list[str] = []

    def judge(self, floor: dict[bytes, _Write], found: dict[bytes, int]) -> None:
        """Compare what a whole read has found, by key, with what was acknowledged before it began."""
        self.counts["tables read"] += 1
        for key, least in floor.items():
            allowed = [least, *self.unknown.get(key, [])]
            allowed += [each for each in self.begun.get(key, []) if each.number > least.number]
            number = found.get(key)
            if number is None:
                is_right = any(each.deletes for each in allowed)
            else:
                is_right = any(each.number == number for each in allowed)
            if not is_right:
                what = "nothing" if number is None else f"write {number}"
                self.wrong.append(f"{key.decode()}: {what} was read, and {least} was acknowledged before")


class SimTableWriter:
    """Overwrites and deletes keys of its own; `is_working` set to False ends it."""

    def __init__(self, wire: KafkaWire, rng: Random, state: TableState, sent: set[bytes], name: str) -> None:
        self._wire, self._rng, self._state, self._sent = wire, rng, state, sent
        self._keys = [f"{name}/{number}".encode() for number in range(_KEYS)]
        self._pause = rng.choice([0.1, 0.3])
        self._number = 0
        self.is_working = True
        self._is_sending = False

    @property
    def has_ended(self) -> bool:
        """Whether it was told to stop, and sends nothing any more."""
        return not self.is_working and not self._is_sending

    async def run(self) -> None:
        """Write until told to stop."""
        while self.is_working:
            await asyncio.sleep(self._rng.expovariate(1 / self._pause))
            if self.is_working:
                self._is_sending = True
                await self._write(self._rng.choice(self._keys))
                self._is_sending = False

    async def _write(self, key: bytes) -> None:
        self._number += 1
        write = _Write(self._number, self._rng.random() < _DELETED)
        value = None if write.deletes else b"#%d#" % write.number + b" " * self._rng.choice([0, 300])
        batch = build_batch(b"", payload=_record(key, value), timestamps=[1_000_000 + self._number])
        self._sent.add(content_key(batch))
        begun = self._state.begun.setdefault(key, [])
        begun.append(write)
        outcome = await self._send(batch)
        self._state.counts[f"table write {outcome}"] += 1
        if outcome == "ok":
            self._state.acknowledged[key] = write
        elif outcome == "fail":
            begun.remove(write)
        else:
            self._state.unknown.setdefault(key, []).append(write)

    async def _send(self, batch: bytes) -> str:
        data = ProduceRequest.TopicProduceData(
            name=TABLE, partition_data=[ProduceRequest.PartitionProduceData(index=0, records=batch)]
        )
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[data])
        address = None
        try:
            address, _ = await self._wire.leader(TABLE, 0)
            answer = await self._wire.call(address, ApiKey.PRODUCE, _VERSION, request)
        except (NotSentError, LostError) as error:
            self._wire.forget(TABLE, 0)
            return "info" if isinstance(error, LostError) and address is not None else "fail"
        error = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if error is ErrorCode.NONE:
            return "ok"
        self._wire.forget(TABLE, 0)
        return "fail" if error in NOT_APPENDED else "info"


class SimTableReader:
    """Reads the table from its first record to its end, again and again, and judges what it has found."""

    def __init__(self, wire: KafkaWire, rng: Random, state: TableState) -> None:
        self._wire, self._rng, self._state = wire, rng, state
        self._pause = rng.choice([1.0, 4.0])
        self.is_working = True

    async def run(self) -> None:
        """Do so until told to stop."""
        while self.is_working:
            await asyncio.sleep(self._rng.expovariate(1 / self._pause))
            if self.is_working:
                await self.read()

    async def read_finally(self) -> None:
        """Read until it has been read once."""
        while not await self.read():
            # Virtual time: without it a reader that is refused would ask again within the same instant.
            await asyncio.sleep(0.1)

    async def read(self) -> bool:
        """Read once; return whether that came to the end, and was judged."""
        floor = dict(self._state.acknowledged)
        end = await ask_offset(self._wire, _LIST_VERSION, TABLE, 0, LATEST)
        position = await ask_offset(self._wire, _LIST_VERSION, TABLE, 0, EARLIEST)
        if end is None or position is None:
            return False
        found: dict[bytes, int] = {}
        while position < end:
            data = await self._fetch(position)
            if data is None:
                return False
            try:
                position = _take(data, position, found)
            except MalformedBatchError:
                return False
        self._state.judge(floor, found)
        return True

    async def _fetch(self, position: int) -> bytes | None:
        asked = FetchRequest.FetchPartition(partition=0, fetch_offset=position, partition_max_bytes=_BYTES_MAX)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            topics=[FetchRequest.FetchTopic(topic=TABLE, partitions=[asked])],
        )
        try:
            address, _ = await self._wire.leader(TABLE, 0)
            answer = await self._wire.call(address, ApiKey.FETCH, _VERSION, request)
        except (NotSentError, LostError):
            self._wire.forget(TABLE, 0)
            return None
        told = answer.responses[0].partitions[0]
        if told.error_code or not told.records:
            self._wire.forget(TABLE, 0)
            return None
        return bytes(told.records)


def _take(data: bytes, position: int, found: dict[bytes, int]) -> int:
    """Take the records of batches from an offset on into a table; return the offset behind them."""
    at = 0
    while at < len(data):
        header = read_header(data, at)
        batch = memoryview(data)[at : at + header.size]
        at += header.size
        unpacked = unpack_records(batch)
        for record in keyed_records(header, unpacked):
            if header.base_offset + record.offset_delta >= position:
                _put(found, record.key or b"", record.deletes, unpacked[record.begin : record.end])
        position = max(position, header.base_offset + header.last_offset_delta + 1)
    return position


def _put(found: dict[bytes, int], key: bytes, deletes: bool, record: bytes) -> None:
    if deletes:
        found.pop(key, None)
    else:
        match = _VALUE.search(record)
        assert match is not None, "a value that nobody has written"
        found[key] = int(match[1])


def _record(key: bytes, value: bytes | None) -> bytes:
    size = varint(-1) if value is None else varint(len(value)) + value
    body = b"\0" + varint(0) + varint(0) + varint(len(key)) + key + size + varint(0)
    return varint(len(body)) + body
