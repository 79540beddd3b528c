"""Those who create, change and delete topics: raft0's linearizable object. A topic is a register, null or "there".

To create is cas from null to "there", to delete the way back, and CreateTopics that only validates is the read. What is
changed of a topic, its configuration and its number of partitions, is in raft0's tables, which must be equal at the end.
"""

import asyncio
from collections.abc import Sequence
from random import Random

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from tests.simulation.clients.kafka_wire import KafkaWire, LostError, NotSentError
from tests.simulation.clients.recorder import Recorder

_TIMEOUT_MS = 4_000
_NAMES = 3
_CREATE_VERSION, _DELETE_VERSION, _ALTER_VERSION, _GROW_VERSION = 5, 4, 1, 1
_OF_TOPICS, _SET = 2, 0
_PARTITIONS_MAX = 4
_THERE = "there"
# Who answers this has not tried, or has found no room for the topic in the tables.
_NOT_DONE = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.POLICY_VIOLATION})


class SimTopicAdmin:
    """One process that creates, deletes and asks after a few topics."""

    def __init__(
        self, wire: KafkaWire, recorder: Recorder, rng: Random, pause: float, replication_factors: Sequence[int]
    ) -> None:
        self._wire = wire
        self._recorder = recorder
        self._stream = rng
        self._pause = pause
        self._replication_factors = replication_factors
        self._num_partitions = 1
        self._replication_factor = 1
        self._process = recorder.process()
        self.is_working = True

    async def run(self) -> None:
        """Do so until told to stop."""
        while self.is_working:
            await asyncio.sleep(self._stream.expovariate(1 / self._pause))
            rng = Random(self._stream.getrandbits(64))
            if self._recorder.wants(self._process):
                name = f"passing-{rng.randrange(_NAMES)}"
                # Most have one partition: each costs as much as one of the topic that records go to.
                self._num_partitions = rng.choice([1, 1, 2])
                self._replication_factor = rng.choice(self._replication_factors)
                if rng.random() < 0.2:
                    await self._change(name, rng)
                else:
                    await rng.choice((self._create, self._delete, self._ask))(name)

    async def _create(self, name: str) -> None:
        line = self._recorder.begin("cas", self._process, key=name, **{"in": [None, _THERE]}, out=None)
        error = await self._asked_to_create(name, validate_only=False)
        self._end_cas(line, error, ErrorCode.TOPIC_ALREADY_EXISTS)

    async def _delete(self, name: str) -> None:
        line = self._recorder.begin("cas", self._process, key=name, **{"in": [_THERE, None]}, out=None)
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=_TIMEOUT_MS)
        answer = await self._call(ApiKey.DELETE_TOPICS, _DELETE_VERSION, request)
        error = answer if isinstance(answer, ErrorCode) else ErrorCode(answer.responses[0].error_code)
        self._end_cas(line, error, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def _change(self, name: str, rng: Random) -> None:
        """Alter what is configured, or add partitions; what becomes of it is seen in the tables."""
        if rng.random() < 0.6:
            value = str(rng.choice([64, 256, 1024]) * 1024 * 1024)
            config = IncrementalAlterConfigsRequest.AlterableConfig(
                name="segment.bytes", config_operation=_SET, value=value
            )
            resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=_OF_TOPICS, resource_name=name, configs=[config]
            )
            alter = IncrementalAlterConfigsRequest(resources=[resource])
            answer = await self._call(ApiKey.INCREMENTAL_ALTER_CONFIGS, _ALTER_VERSION, alter)
            error = answer if isinstance(answer, ErrorCode) else ErrorCode(answer.responses[0].error_code)
            self._recorder.counts[f"alter topic {error.name}"] += 1
            return
        topic = CreatePartitionsRequest.CreatePartitionsTopic(
            name=name, count=rng.randint(2, _PARTITIONS_MAX), assignments=None
        )
        grow = CreatePartitionsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        answer = await self._call(ApiKey.CREATE_PARTITIONS, _GROW_VERSION, grow)
        error = answer if isinstance(answer, ErrorCode) else ErrorCode(answer.results[0].error_code)
        self._recorder.counts[f"grow topic {error.name}"] += 1

    async def _ask(self, name: str) -> None:
        line = self._recorder.begin("read", self._process, key=name, **{"in": None}, out=None)
        error = await self._asked_to_create(name, validate_only=True)
        if error is ErrorCode.TOPIC_ALREADY_EXISTS:
            self._recorder.end(line, "ok", out=_THERE)
        else:
            self._recorder.end(line, "ok" if error is ErrorCode.NONE else "info", out=None)

    async def _asked_to_create(self, name: str, *, validate_only: bool) -> ErrorCode:
        topic = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=self._num_partitions, replication_factor=self._replication_factor
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=validate_only)
        answer = await self._call(ApiKey.CREATE_TOPICS, _CREATE_VERSION, request)
        return answer if isinstance(answer, ErrorCode) else ErrorCode(answer.topics[0].error_code)

    async def _call(self, key: ApiKey, version: int, request):
        """Return the answer, or what stands for none: NOT_CONTROLLER if nobody was asked, UNKNOWN_SERVER_ERROR else."""
        try:
            address = await self._wire.controller()
        except (NotSentError, LostError):
            return ErrorCode.NOT_CONTROLLER
        try:
            return await self._wire.call(address, key, version, request)
        except NotSentError:
            return ErrorCode.NOT_CONTROLLER
        except LostError:
            return ErrorCode.UNKNOWN_SERVER_ERROR

    def _end_cas(self, line, error: ErrorCode, refusal: ErrorCode) -> None:
        self._recorder.counts[f"{'delete' if line['in'][0] else 'create'} topic {error.name}"] += 1
        if error in (ErrorCode.NONE, refusal):
            self._recorder.end(line, "ok", out=error is ErrorCode.NONE)
        else:
            self._recorder.end(line, "fail" if error in _NOT_DONE else "info")
