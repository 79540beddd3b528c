"""Members of classic groups, and a whole group's rebalance as one measured step."""

import asyncio
import struct
import time
from collections.abc import Sequence

from benchmarks.cluster import DEADLINE_SECONDS, TOPIC, BenchmarkError
from benchmarks.wire.connection import WireConnection
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)

# Versions that both brokers serve, with member ids that have to be known first (KIP-394).
_FIND, _JOIN, _SYNC, _HEARTBEAT, _LEAVE = 3, 5, 3, 3, 3
# Of FindCoordinator.
GROUP_KEY, TRANSACTION_KEY = 0, 1
_KINDS = {GROUP_KEY: "group", TRANSACTION_KEY: "transactional id"}
_SESSION_MS, _REBALANCE_MS = 45_000, 60_000
_RETRY_SECONDS = 0.1
# What a leader gives to each member; about what a consumer gets for two partitions.
_PART = bytes(40)
_NOT_YET = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


async def find_coordinator(bootstrap: str, name: str, key_type: int = GROUP_KEY) -> str:
    """Wait until a broker keeps a group, or a transactional id, and return its HOST:PORT.

    Raises:
        BenchmarkError: Not in time.
    """
    connection = await WireConnection.open(bootstrap.split(",")[0])
    deadline = time.monotonic() + DEADLINE_SECONDS
    try:
        while time.monotonic() < deadline:
            request = FindCoordinatorRequest(key=name, key_type=key_type)
            found = await connection.call(ApiKey.FIND_COORDINATOR, _FIND, request)
            if not found.error_code:
                return f"{found.host}:{found.port}"
            await asyncio.sleep(_RETRY_SECONDS)
    finally:
        await connection.close()
    raise BenchmarkError(f"nobody keeps {_KINDS[key_type]} {name}")


def _subscription(round_number: int) -> bytes:
    """A consumer's metadata (ConsumerProtocolSubscription v0); its user data say which round it is for."""
    name = TOPIC.encode()
    return struct.pack(">hih", 0, 1, len(name)) + name + struct.pack(">ii", 4, round_number)


class GroupMember:
    """On a connection of its own."""

    def __init__(self, group: str, connection: WireConnection) -> None:
        self._group = group
        self._connection = connection
        self._member_id = ""
        self._generation = -1
        self._is_moving = False

    async def rejoin(self, round_number: int) -> None:
        """Join with metadata that nobody had before, which begins a rebalance, until the assignment is here."""
        self._is_moving = True
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            joined = await self._join(round_number)
            if joined is not None and await self._sync(joined):
                self._is_moving = False
                return
        raise BenchmarkError(f"{self._group}: a member never got an assignment")

    async def _join(self, round_number: int) -> JoinGroupResponse | None:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=_subscription(round_number))
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        joined: JoinGroupResponse = await self._connection.call(ApiKey.JOIN_GROUP, _JOIN, request)
        match joined.error_code:
            case ErrorCode.NONE:
                self._member_id, self._generation = joined.member_id, joined.generation_id
                return joined
            case ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = joined.member_id
            case code if code in _NOT_YET:
                await asyncio.sleep(_RETRY_SECONDS)
            case code if code != ErrorCode.REBALANCE_IN_PROGRESS:
                raise BenchmarkError(f"{self._group}: JoinGroup: error {code}")
        return None

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        given = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=each.member_id, assignment=_PART)
            for each in joined.members
        ]
        request = SyncGroupRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member_id, assignments=given
        )
        synced = await self._connection.call(ApiKey.SYNC_GROUP, _SYNC, request)
        if synced.error_code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            raise BenchmarkError(f"{self._group}: SyncGroup: error {synced.error_code}")
        return not synced.error_code

    async def heartbeat(self) -> None:
        """Say that it is alive, unless it is joining: then it says so by that."""
        if self._is_moving:
            return
        request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        code = (await self._connection.call(ApiKey.HEARTBEAT, _HEARTBEAT, request)).error_code
        # One that was sent just before the round may be answered within it.
        if code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            raise BenchmarkError(f"{self._group}: Heartbeat: error {code}")

    async def leave(self) -> None:
        """Leave the group and end the connection."""
        try:
            member = LeaveGroupRequest.MemberIdentity(member_id=self._member_id)
            await self._connection.call(
                ApiKey.LEAVE_GROUP, _LEAVE, LeaveGroupRequest(group_id=self._group, members=[member])
            )
        finally:
            await self._connection.close()


class MeasuredGroup:
    """So many members of one group."""

    def __init__(self, members: Sequence[GroupMember]) -> None:
        self.members = members
        self._round = 0

    @classmethod
    async def founded(cls, bootstrap: str, group: str, size: int) -> "MeasuredGroup":
        """Return a group in its first generation, which waits for further members on purpose."""
        address = await find_coordinator(bootstrap, group)
        members = [GroupMember(group, await WireConnection.open(address)) for _ in range(size)]
        found = cls(members)
        await found.rebalance()
        return found

    async def rebalance(self) -> float:
        """Let all members join at once; return the seconds until the last of them has its assignment."""
        self._round += 1
        began = time.perf_counter()
        await asyncio.gather(*(each.rejoin(self._round) for each in self.members))
        return time.perf_counter() - began

    async def leave(self) -> None:
        """All members go."""
        await asyncio.gather(*(each.leave() for each in self.members))
