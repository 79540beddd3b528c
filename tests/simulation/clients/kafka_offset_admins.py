"""Who commits offsets for groups without members, as administrators do, and deletes such groups: in runs with small
bounds the table of groups is nearly always full.

Metadata is of characters that have four bytes. Several commits are under way at once.
"""

import asyncio
from collections import Counter
from random import Random

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DeleteGroupsRequest, FindCoordinatorRequest, OffsetCommitRequest
from tests.simulation.clients.kafka_wire import Address, KafkaWire, LostError, NotSentError

_GROUPS = 6
_AT_ONCE_MAX = 4
_CHARACTERS_MAX = 100
_COMMIT_VERSION, _DELETE_VERSION, _FIND_VERSION = 7, 1, 2


class SimOffsetAdmin:
    """One process."""

    def __init__(
        self, wire: KafkaWire, rng: Random, topic: str, partitions: int, first_offset: int, counts: Counter[str]
    ) -> None:
        self._wire = wire
        self._rng = rng
        self._topic = topic
        self._partitions = partitions
        self._counts = counts
        # Told apart by it: two batches with the same bytes are one write to observers.
        self._offset = first_offset
        self.is_working = True

    async def run(self) -> None:
        """Do so until told to stop."""
        while self.is_working:
            await asyncio.sleep(self._rng.expovariate(4))
            try:
                if self._rng.random() < 0.2:
                    await self._delete()
                else:
                    await self._commit()
            except (NotSentError, LostError):
                self._counts["offset admin found nobody"] += 1

    def _group(self) -> str:
        return f"passing-{self._rng.randrange(_GROUPS)}"

    async def _coordinator(self) -> Address:
        """All groups have one: their topic has one partition."""
        request = FindCoordinatorRequest(key=self._group(), key_type=0)
        answer = await self._wire.call(self._wire.any_broker(), ApiKey.FIND_COORDINATOR, _FIND_VERSION, request)
        if answer.error_code:
            raise NotSentError("nobody keeps the group")
        return answer.host, answer.port

    async def _commit(self) -> None:
        address = await self._coordinator()
        begun = [
            await self._wire.begin(address, ApiKey.OFFSET_COMMIT, _COMMIT_VERSION, self._asked())
            for _ in range(self._rng.randint(1, _AT_ONCE_MAX))
        ]
        for each in begun:
            answer = await self._wire.answer(address, each)
            self._counts[f"offset admin commit {ErrorCode(answer.topics[0].partitions[0].error_code).name}"] += 1

    def _asked(self) -> OffsetCommitRequest:
        self._offset += 1
        metadata = "🐘" * self._rng.randrange(_CHARACTERS_MAX)
        asked = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=self._rng.randrange(self._partitions),
            committed_offset=self._offset,
            committed_metadata=metadata,
        )
        topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=self._topic, partitions=[asked])]
        return OffsetCommitRequest(group_id=self._group(), topics=topics)

    async def _delete(self) -> None:
        address = await self._coordinator()
        request = DeleteGroupsRequest(groups_names=[self._group()])
        answer = await self._wire.call(address, ApiKey.DELETE_GROUPS, _DELETE_VERSION, request)
        self._counts[f"offset admin delete {ErrorCode(answer.results[0].error_code).name}"] += 1
