"""Members of one consumer group in a simulated run: they share the topic's partitions, and commit higher and higher.

Some vanish without a word, some come back with what they knew, some are static. Their answers are judged at once
by `GroupOffsets` and `GroupOwners`.
"""

import asyncio
from collections import Counter
from random import Random
from typing import Any

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    Message,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tests.simulation.clients.history import History
from tests.simulation.clients.kafka_consumers import SimConsumer
from tests.simulation.clients.kafka_wire import Address, KafkaWire, LostError, NotSentError
from tests.simulation.clients.recorder import Recorder
from tests.simulation.invariants.group_offsets import GroupOffsets
from tests.simulation.invariants.group_owners import GroupOwners

GROUP = "readers"
_REBALANCE_MS = 2_000
_JOIN_SECONDS = 15.0
_LOST_MEMBERSHIP = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})
_ELSEWHERE = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


class GroupRules:
    """What all members of the group report to."""

    def __init__(self, history: History) -> None:
        self.offsets = GroupOffsets(history)
        self.owners = GroupOwners(history)
        self.counts: Counter[str] = Counter()


class SimGroupMember:
    """One process. `instance` makes it a static member."""

    def __init__(
        self,
        wire: KafkaWire,
        rng: Random,
        rules: GroupRules,
        topic: str,
        partitions: int,
        name: str,
        *,
        instance: str | None,
        reader: SimConsumer,
        recorder: Recorder,
    ) -> None:
        # Where it reads, and with which connection; its positions are those of its part.
        self._reader = reader
        self._recorder = recorder
        self._wire = wire
        self._rng = rng
        self._rules = rules
        self._topic = topic
        self._partitions = partitions
        self._name = name
        self._instance = instance
        # A static member may sleep through a rebalance and is still one afterwards.
        self._session_ms = rng.choice([2_000, 4_000, 8_000] if instance is None else [8_000, 15_000])
        self._coordinator: Address | None = None
        self._member_id = ""
        self._generation = -1
        # What it knows to be committed of its part.
        self._committed: dict[int, int] = {}

    @property
    def _who(self) -> str:
        return self._instance or self._member_id

    async def run(self) -> None:
        """Be a member for ever, with interruptions."""
        while True:
            await asyncio.sleep(self._rng.expovariate(5))
            try:
                if self._generation < 0:
                    await self._join()
                else:
                    await self._act()
            except (NotSentError, LostError):
                self._coordinator = None

    async def _act(self) -> None:
        draw = self._rng.random()
        if draw < 0.35:
            await self._heartbeat()
        elif draw < 0.65:
            await self._poll()
        elif draw < 0.9:
            await self._commit()
        elif draw < 0.96:
            await self._fetch(self._rng.randrange(self._partitions))
        elif draw < 0.98:
            # Comes back believing what it believed, perhaps after its session.
            self._rules.counts["group member vanished"] += 1
            await asyncio.sleep(self._rng.uniform(0.5, 10.0))
            await self._heartbeat()
        elif self._instance is not None:
            # A new life of a static member.
            self._member_id, self._generation = "", -1
        else:
            await self._leave()

    async def _call(self, key: ApiKey, version: int, message: Message, timeout: float = 5.0) -> Any:
        if self._coordinator is None:
            await self._find()
        assert self._coordinator is not None
        return await self._wire.call(self._coordinator, key, version, message, timeout)

    async def _find(self) -> None:
        request = FindCoordinatorRequest(key=GROUP, key_type=0)
        answer: Any = await self._wire.call(self._wire.any_broker(), ApiKey.FIND_COORDINATOR, 2, request)
        if answer.error_code:
            raise NotSentError("nobody keeps the group")
        self._coordinator = (answer.host, answer.port)

    def _is_fine(self, what: str, code: int) -> bool:
        """Count an answer and draw its consequences."""
        error = ErrorCode(code)
        self._rules.counts[f"group {what} {error.name}"] += 1
        if error in _ELSEWHERE:
            self._coordinator = None
        elif error in _LOST_MEMBERSHIP:
            self._generation = -1
            if error is not ErrorCode.ILLEGAL_GENERATION:
                self._member_id = ""
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._generation = -1
        return error is ErrorCode.NONE

    async def _join(self) -> None:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="own", metadata=self._name.encode())
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self._member_id,
            group_instance_id=self._instance,
            protocol_type="simulated",
            protocols=[protocol],
        )
        answer = await self._call(ApiKey.JOIN_GROUP, 5, request, _JOIN_SECONDS)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
        if not self._is_fine("join", answer.error_code):
            return
        self._member_id = answer.member_id
        await self._sync(answer.generation_id, [each.member_id for each in answer.members])

    async def _sync(self, generation: int, members: list[str]) -> None:
        given = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=self._part(number, len(members)))
            for number, member in enumerate(members)
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
            assignments=given,
        )
        newest = self._rules.owners.newest
        answer = await self._call(ApiKey.SYNC_GROUP, 3, request, _JOIN_SECONDS)
        if not self._is_fine("sync", answer.error_code):
            return
        self._rules.owners.on_success("a sync", self._who, generation, newest)
        self._generation = generation
        self._committed = {}
        self._reader.positions = {}
        owned = [int(number) for number in bytes(answer.assignment).decode().split(",") if number]
        self._rules.owners.on_assigned(self._who, generation, owned)
        for partition in owned:
            self._recorder.note("subscribe", proc=self._reader.processes[partition], tps=[f"{self._topic}-{partition}"])
            offset = await self._fetch(partition)
            if offset is not None:
                self._committed[partition] = offset
                if offset >= 0:
                    self._reader.positions[partition] = offset

    def _part(self, number: int, count: int) -> bytes:
        return ",".join(str(each) for each in range(self._partitions) if each % count == number).encode()

    async def _heartbeat(self) -> None:
        generation, newest = self._generation, self._rules.owners.newest
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=self._member_id, group_instance_id=self._instance
        )
        answer = await self._call(ApiKey.HEARTBEAT, 3, request)
        if self._is_fine("heartbeat", answer.error_code):
            self._rules.owners.on_success("a heartbeat", self._who, generation, newest)

    async def _poll(self) -> None:
        for partition in self._committed:
            if partition not in self._reader.positions:
                # Nothing was committed yet.
                await self._reader.seek(partition)
        some = sorted(partition for partition in self._reader.positions if partition in self._committed)
        if some:
            await self._reader.poll(some)

    async def _commit(self) -> None:
        # What was lost at acks=1 may have been read and committed: nobody goes back behind that.
        positions = self._reader.positions
        ahead = [each for each, offset in self._committed.items() if positions.get(each, -1) > offset]
        if not ahead:
            return
        partition = self._rng.choice(sorted(ahead))
        offset = positions[partition]
        asked = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=self._topic, partitions=[asked])],
        )
        generation, newest = self._generation, self._rules.owners.newest
        # Whatever becomes of it: the next one is larger.
        self._committed[partition] = offset
        answer = await self._call(ApiKey.OFFSET_COMMIT, 7, request)
        if self._is_fine("commit", answer.topics[0].partitions[0].error_code):
            self._rules.owners.on_success("a commit", self._who, generation, newest)
            self._rules.offsets.on_committed(partition, offset)
            self._reader.ends.group_offset(partition, offset)

    async def _fetch(self, partition: int) -> int | None:
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=self._topic, partition_indexes=[partition])
        floor = self._rules.offsets.floor(partition)
        answer = await self._call(ApiKey.OFFSET_FETCH, 5, OffsetFetchRequest(group_id=GROUP, topics=[topic]))
        if not self._is_fine("fetch", answer.error_code):
            return None
        offset: int = answer.topics[0].partitions[0].committed_offset
        self._rules.offsets.on_fetched(partition, offset, floor)
        self._reader.ends.group_offset(partition, offset)
        return offset

    async def _leave(self) -> None:
        request = LeaveGroupRequest(group_id=GROUP, member_id=self._member_id)
        self._member_id, self._generation = "", -1
        answer = await self._call(ApiKey.LEAVE_GROUP, 1, request)
        self._is_fine("leave", answer.error_code)
