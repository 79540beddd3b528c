"""Consume, transform and produce in a simulated run, exactly once (KIP-447): offsets are committed in transactions.

A transformer reads a partition at read_committed from the offset that its group has committed, writes an output for each
input, and commits both together. It commits as no member of its group: what keeps two of them apart is their
transactional id, by which the one that began later fences the other. `kafka_working_members` has those that are members.
"""

import asyncio

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    AddOffsetsToTxnRequest,
    FetchRequest,
    FindCoordinatorRequest,
    Message,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from model.record_batch import MalformedBatchError
from tests.simulation.clients.kafka_consumers import EARLIEST, READ_COMMITTED, ask_offset, records_of
from tests.simulation.clients.kafka_transactors import (
    AWAY,
    RETRY_SECONDS,
    STEP_SECONDS,
    LostIdentityError,
    SimTransactor,
)
from tests.simulation.clients.kafka_wire import Address, LostError, NotSentError

_GROUP = "transform"
_GROUP_KEY = 0
_FIND_VERSION, _FETCH_VERSION, _OFFSETS_VERSION, _LIST_VERSION = 3, 11, 7, 5
_ADD_VERSION, _COMMIT_VERSION, _PLAIN_VERSION = 3, 3, 7
_INPUTS_MAX = 4
_BYTES_MAX = 16 * 1024


class SimTransformer(SimTransactor):
    """One process: `source` and `sink` are partitions of the topic; its offsets are those of `group`."""

    def __init__(self, *arguments, source: int, sink: int, group: str = _GROUP, **shared) -> None:
        super().__init__(*arguments, **shared)
        self._group = group
        self._source = source
        self._sink = sink
        self._reader = self.recorder.process()
        self._group_coordinator: Address | None = None
        # As whom it commits: as nobody.
        self.member_id, self.generation = "", -1

    async def _transaction(self) -> None:
        position = await self.committed()
        records, after = await self._read(position)
        if not records:
            return
        name = self.begin_line()
        if not self.is_raising:
            await self.add(self._sink)
        extra = {"of": None, "group": self._group}
        for offset, _ in records:
            extra["of"] = [f"{self.topic}-{self._source}", offset]
            if not await self.append(name, self._sink, 1, extra):
                await self.end(name, is_commit=False)
                raise LostIdentityError
        if not await self.commit_offset(after):
            await self.end(name, is_commit=False)
            return
        offsets = {f"{self.topic}-{self._source}": after}
        await self.end(name, is_commit=self.rng.random() < 0.9, offsets=offsets, group=self._group)
        self.recorder.counts["transformed"] += 1

    async def committed(self) -> int:
        """Return where the group goes on.

        Raises:
            LostIdentityError: Nobody says.
        """
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=self.topic, partition_indexes=[self._source])
        request = OffsetFetchRequest(group_id=self._group, topics=[topic], require_stable=True)
        answer = await self._ask_group(ApiKey.OFFSET_FETCH, _OFFSETS_VERSION, request, _offset_code)
        if answer is None or _offset_code(answer) is not ErrorCode.NONE:
            raise LostIdentityError
        offset = answer.topics[0].partitions[0].committed_offset
        if offset >= 0:
            return int(offset)
        earliest = await ask_offset(self.wire, _LIST_VERSION, self.topic, self._source, EARLIEST)
        if earliest is None:
            raise LostIdentityError
        return earliest

    async def _read(self, position: int) -> tuple[list[tuple[int, str]], int]:
        """Return a few records at read_committed from an offset on, and the offset behind them; none: not now."""
        asked = FetchRequest.FetchPartition(
            partition=self._source, fetch_offset=position, partition_max_bytes=_BYTES_MAX
        )
        request = FetchRequest(
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            isolation_level=1,
            topics=[FetchRequest.FetchTopic(topic=self.topic, partitions=[asked])],
        )
        tp = f"{self.topic}-{self._source}"
        self.recorder.note("seek", proc=self._reader, tp=tp, off=position)
        line = self.recorder.begin("poll", self._reader, tp=tp, recs=[], hw=None, final=False, iso=READ_COMMITTED)
        try:
            address, _ = await self.wire.leader(self.topic, self._source)
            answer = await self.wire.call(address, ApiKey.FETCH, _FETCH_VERSION, request)
            told = answer.responses[0].partitions[0]
            if told.error_code:
                raise NotSentError(ErrorCode(told.error_code).name)
            aborted = [(each.producer_id, each.first_offset) for each in told.aborted_transactions or ()]
            found = records_of(bytes(told.records or b""), aborted)
        except (NotSentError, LostError, MalformedBatchError):
            self.wire.forget(self.topic, self._source)
            self.recorder.end(line, "info")
            return [], position
        records = [each for each in found.records if each[0] >= position][:_INPUTS_MAX]
        self.recorder.end(line, "ok", recs=records)
        if records:
            return records, records[-1][0] + 1
        return [], position

    async def commit_plainly(self, offset: int) -> bool:
        """Commit the group's offset outside of the transaction; return whether it is committed."""
        place = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=self._source, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=None
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=self.topic, partitions=[place])
        request = OffsetCommitRequest(group_id=self._group, topics=[topic])
        answer = await self._ask_group(ApiKey.OFFSET_COMMIT, _PLAIN_VERSION, request, _offset_code)
        return answer is not None and _offset_code(answer) is ErrorCode.NONE

    async def commit_offset(self, offset: int) -> bool:
        """Commit the group's offset in the transaction; return whether it may be committed.

        Raises:
            LostIdentityError: This producer is fenced.
        """
        if not self.is_raising:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.identity,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=self._group,
            )
            answer = await self.asked(ApiKey.ADD_OFFSETS_TO_TXN, _ADD_VERSION, request, [])
            if answer is None or answer.error_code:
                return False
        place = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=self._source, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=None
        )
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=self.topic, partitions=[place])
        request = TxnOffsetCommitRequest(
            transactional_id=self.identity,
            group_id=self._group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            topics=[topic],
        )
        version = 5 if self.is_raising else _COMMIT_VERSION
        answer = await self._ask_group(ApiKey.TXN_OFFSET_COMMIT, version, request, _offset_code)
        if answer is None:
            return False
        if _offset_code(answer) is not ErrorCode.NONE:
            self.on_offsets_refused(_offset_code(answer))
        return _offset_code(answer) is ErrorCode.NONE

    def on_offsets_refused(self, code: ErrorCode) -> None:
        """The group's coordinator does not take offsets in a transaction."""

    async def _ask_group(self, key: ApiKey, version: int, request: Message, code_of) -> Message | None:
        """Ask the group's coordinator until it says more than "not now"; None: nobody has answered in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STEP_SECONDS
        answer: Message | None = None
        while True:
            try:
                address = self._group_coordinator or await self._find_group()
                answer = await self.wire.call(address, key, version, request)
                if code_of(answer) not in AWAY and code_of(answer) is not ErrorCode.UNSTABLE_OFFSET_COMMIT:
                    return answer
            except (NotSentError, LostError):
                answer = None
            self._group_coordinator = None
            if loop.time() > deadline:
                return answer
            await asyncio.sleep(self.rng.uniform(RETRY_SECONDS, 3 * RETRY_SECONDS))

    async def _find_group(self) -> Address:
        request = FindCoordinatorRequest(key=self._group, key_type=_GROUP_KEY)
        answer = await self.wire.call(self.wire.any_broker(), ApiKey.FIND_COORDINATOR, _FIND_VERSION, request)
        if answer.error_code:
            raise NotSentError(ErrorCode(answer.error_code).name)
        self._group_coordinator = answer.host, answer.port
        return self._group_coordinator


def _offset_code(answer: Message) -> ErrorCode:
    """Return the error of an answer about the offset of one partition, or of all of it."""
    of_all = getattr(answer, "error_code", 0)
    if of_all or not answer.topics:
        return ErrorCode(of_all)
    return ErrorCode(answer.topics[0].partitions[0].error_code)
