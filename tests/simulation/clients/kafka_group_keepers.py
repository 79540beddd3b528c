"""Who commits for groups without members, deletes them, and asks what they have committed: a group is a register.

One process keeps one group at a time, so what each answer must be is known: the last commit that was answered, or
nothing where nothing was committed since the last deletion. A write that was not answered may take effect at any time,
so its group is left alone from then on, and another one begins.
"""

import asyncio
from collections import Counter
from random import Random
from typing import Any

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    DeleteGroupsRequest,
    FindCoordinatorRequest,
    Message,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from tests.simulation.clients.kafka_wire import KafkaWire, LostError, NotSentError

_COMMIT_VERSION, _DELETE_VERSION, _FETCH_VERSION, _FIND_VERSION = 7, 1, 5, 2
_NOTHING = -1


class SimGroupKeeper:
    """One process. `wrong` are the answers that cannot be, in words."""

    def __init__(self, wire: KafkaWire, rng: Random, topic: str, counts: Counter[str]) -> None:
        self._wire = wire
        self._rng = rng
        self._topic = topic
        self._counts = counts
        self._number = 0
        # What the group has committed; and whether it is there at all, for it is while it has an offset.
        self._committed = _NOTHING
        self._next_offset = 0
        self.wrong: list[str] = []
        self.is_working = True

    @property
    def _group(self) -> str:
        return f"kept-{self._number}"

    async def run(self) -> None:
        """Do so until told to stop."""
        while self.is_working:
            await asyncio.sleep(self._rng.expovariate(3))
            act = self._rng.choice((self._commit, self._commit, self._delete, self._ask, self._ask))
            try:
                await act()
            except NotSentError:
                self._counts["group keeper found nobody"] += 1
            except LostError:
                self._begin_another()

    def _begin_another(self) -> None:
        self._number += 1
        self._committed = _NOTHING

    async def _call(self, key: ApiKey, version: int, request: Message) -> Any:
        find = FindCoordinatorRequest(key=self._group, key_type=0)
        try:
            found: Any = await self._wire.call(self._wire.any_broker(), ApiKey.FIND_COORDINATOR, _FIND_VERSION, find)
        except LostError as error:
            raise NotSentError(str(error)) from error
        if found.error_code:
            raise NotSentError("nobody keeps the group")
        return await self._wire.call((found.host, found.port), key, version, request)

    async def _commit(self) -> None:
        self._next_offset += 1
        offset = self._next_offset
        asked = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=self._topic, partitions=[asked])]
        request = OffsetCommitRequest(group_id=self._group, topics=topics)
        answer = await self._call(ApiKey.OFFSET_COMMIT, _COMMIT_VERSION, request)
        if self._count("commit", answer.topics[0].partitions[0].error_code) is ErrorCode.NONE:
            self._committed = offset
        else:
            self._begin_another()

    async def _delete(self) -> None:
        answer = await self._call(
            ApiKey.DELETE_GROUPS, _DELETE_VERSION, DeleteGroupsRequest(groups_names=[self._group])
        )
        error = self._count("delete", answer.results[0].error_code)
        if error is ErrorCode.NONE:
            if self._committed == _NOTHING:
                self.wrong.append(f"{self._group}, which was not there, was deleted")
            self._committed = _NOTHING
        elif error is ErrorCode.GROUP_ID_NOT_FOUND:
            if self._committed != _NOTHING:
                self.wrong.append(f"{self._group}, which has committed {self._committed}, was not there to be deleted")
        else:
            self._begin_another()

    async def _ask(self) -> None:
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=self._topic, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=self._group, topics=[topic])
        try:
            answer = await self._call(ApiKey.OFFSET_FETCH, _FETCH_VERSION, request)
        except LostError:
            return  # It has changed nothing.
        if self._count("fetch", answer.error_code) is not ErrorCode.NONE:
            return
        offset = answer.topics[0].partitions[0].committed_offset
        if offset != self._committed:
            self.wrong.append(f"{self._group} has committed {self._committed} ({_NOTHING}: nothing), {offset} was told")

    def _count(self, what: str, code: int) -> ErrorCode:
        error = ErrorCode(code)
        self._counts[f"group keeper {what} {error.name}"] += 1
        return error
