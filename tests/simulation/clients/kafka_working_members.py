"""Consume, transform and produce as members of a group in a simulated run, as Kafka's clients do it (KIP-447).

Each member has a transactional id of its own, so none fences another. What keeps a member apart from the one that has
its part now is the generation that goes along with the offsets of its transaction. Some members pause for longer than
their session between what they read and what they write: they must be refused.
"""

import asyncio
from typing import Any

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, Message, SyncGroupRequest
from tests.simulation.clients.kafka_transformers import SimTransformer

GROUP = "work"
_JOIN_VERSION, _SYNC_VERSION, _HEARTBEAT_VERSION, _LEAVE_VERSION = 5, 3, 3, 1
_SESSION_MS = 5_000
_REBALANCE_MS = 2_000
# How often a member pauses before it writes, and for how many sessions; how often it leaves its group.
_PAUSES, _PAUSE_SESSIONS, _LEAVES = 0.1, 1.3, 0.02
_LOST_MEMBERSHIP = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
)


class SimWorkingMember(SimTransformer):
    """One process. Members share all partitions but the last one, which is the sink of all."""

    def __init__(self, *arguments, **shared) -> None:
        super().__init__(*arguments, source=0, sink=-1, group=GROUP, **shared)
        self._sink = self._partitions - 1
        self._owned: list[int] = []

    async def _transaction(self) -> None:
        if self.generation < 0:
            await self._join()
        elif self.rng.random() < _LEAVES:
            await self._leave()
        elif await self._is_member() and self._owned:
            self._source = self.rng.choice(self._owned)
            await super()._transaction()

    async def _read(self, position: int) -> tuple[list[tuple[int, str]], int]:
        """Read as all do; some pause before they go on, outside of a transaction: so no time-out fences them."""
        found = await super()._read(position)
        if self.rng.random() < _PAUSES:
            self.recorder.counts["paused as a member"] += 1
            await asyncio.sleep(_PAUSE_SESSIONS * _SESSION_MS / 1000)
        return found

    async def commit_offset(self, offset: int) -> bool:
        """Commit as a member of this generation; one that has lost its part is refused, and joins again."""
        is_committed = await super().commit_offset(offset)
        self.recorder.counts["offsets of a member in a transaction"] += is_committed
        return is_committed

    def on_offsets_refused(self, code: ErrorCode) -> None:
        """The group's coordinator does not take offsets in a transaction."""
        if code in _LOST_MEMBERSHIP:
            self.recorder.counts["offsets of a former member refused"] += 1
            self._forget(code)

    async def _join(self) -> None:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="own", metadata=b"")
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="simulated",
            protocols=[protocol],
        )
        answer: Any = await self._ask_group(ApiKey.JOIN_GROUP, _JOIN_VERSION, request, _code_of)
        if answer is None:
            return
        code = _code_of(answer)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif code is ErrorCode.NONE:
            self.member_id = answer.member_id
            await self._sync(answer.generation_id, [each.member_id for each in answer.members])
        else:
            self._forget(code)

    async def _sync(self, generation: int, members: list[str]) -> None:
        given = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=self._part(number, len(members)))
            for number, member in enumerate(members)
        ]
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=generation, member_id=self.member_id, assignments=given
        )
        answer: Any = await self._ask_group(ApiKey.SYNC_GROUP, _SYNC_VERSION, request, _code_of)
        if answer is None:
            return
        if _code_of(answer) is not ErrorCode.NONE:
            self._forget(_code_of(answer))
            return
        self.generation = generation
        self._owned = [int(number) for number in bytes(answer.assignment).decode().split(",") if number]

    def _part(self, number: int, count: int) -> bytes:
        return ",".join(str(each) for each in range(self._partitions - 1) if each % count == number).encode()

    async def _is_member(self) -> bool:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        answer = await self._ask_group(ApiKey.HEARTBEAT, _HEARTBEAT_VERSION, request, _code_of)
        if answer is None:
            return False
        if _code_of(answer) is not ErrorCode.NONE:
            self._forget(_code_of(answer))
        return self.generation >= 0

    async def _leave(self) -> None:
        request = LeaveGroupRequest(group_id=GROUP, member_id=self.member_id)
        self._forget(ErrorCode.UNKNOWN_MEMBER_ID)
        await self._ask_group(ApiKey.LEAVE_GROUP, _LEAVE_VERSION, request, _code_of)

    def _forget(self, code: ErrorCode) -> None:
        self.generation, self._owned = -1, []
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""


def _code_of(answer: Message) -> ErrorCode:
    return ErrorCode(answer.error_code)
