"""Creating and deleting topics as compare-and-set, on either client.

Answers are True, False, or None where nobody knows what has happened. NotSentError: nothing has, for sure.
"""

import asyncio
from typing import Any, Protocol

from raftka.kafka.client import client_config
from raftka.kafka.wire.client import LostError, NotSentError, WireClient
from raftka.kafka.wire.error_codes import NONE, TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION
from raftka.kafka.wire.requests import Request, create_topic, delete_topic

_TIMEOUT_MS = 5_000
# Brokers wait so long; an answer may come a little later.
_ANSWER_SECONDS = 8.0


class TopicClient(Protocol):
    """One process that moves topics."""

    async def is_there(self, name: str) -> bool | None:
        """Ask whether a topic could be created."""
        ...

    async def create(self, name: str) -> bool | None:
        """Create a topic; whether it was this that did it."""
        ...

    async def delete(self, name: str) -> bool | None:
        """Delete a topic; whether it was this that did it."""
        ...


class WireTopics:
    """On the wire client; a request is sent once."""

    def __init__(self, client: WireClient, replicas: int) -> None:
        self._client = client
        self._replicas = replicas

    async def is_there(self, name: str) -> bool | None:
        """See TopicClient."""
        could_be = await self._ask(self._creation(name, validate_only=True), TOPIC_ALREADY_EXISTS)
        return None if could_be is None else not could_be

    async def create(self, name: str) -> bool | None:
        """See TopicClient."""
        return await self._ask(self._creation(name, validate_only=False), TOPIC_ALREADY_EXISTS)

    async def delete(self, name: str) -> bool | None:
        """See TopicClient."""
        return await self._ask(delete_topic(name, _TIMEOUT_MS), UNKNOWN_TOPIC_OR_PARTITION)

    def _creation(self, name: str, *, validate_only: bool) -> Request[int]:
        return create_topic(name, 1, self._replicas, _TIMEOUT_MS, validate_only=validate_only)

    async def _ask(self, request: Request[int], refusal: int) -> bool | None:
        try:
            controller = await self._client.controller()
        except LostError as lost:
            raise NotSentError(f"nobody says who the controller is: {lost}") from lost
        try:
            error = await self._client.call(controller, request, _ANSWER_SECONDS)
        except LostError:
            return None
        return error == NONE if error in (NONE, refusal) else None


class LibrdkafkaTopics:
    """On librdkafka's admin client."""

    def __init__(self, bootstrap: str, replicas: int) -> None:
        from confluent_kafka.admin import AdminClient

        # Without the look whether anybody listens: now and then nobody does.
        self._admin = AdminClient(client_config(bootstrap))
        self._replicas = replicas

    async def is_there(self, name: str) -> bool | None:
        """See TopicClient."""
        could_be = await self._create(name, validate_only=True)
        return None if could_be is None else not could_be

    async def create(self, name: str) -> bool | None:
        """See TopicClient."""
        return await self._create(name, validate_only=False)

    async def delete(self, name: str) -> bool | None:
        """See TopicClient."""
        seconds = _TIMEOUT_MS / 1000
        futures = self._admin.delete_topics([name], operation_timeout=seconds, request_timeout=seconds)
        return await self._outcome(futures[name], "UNKNOWN_TOPIC_OR_PART")

    async def _create(self, name: str, *, validate_only: bool) -> bool | None:
        from confluent_kafka.cimpl import NewTopic

        topic = NewTopic(name, num_partitions=1, replication_factor=self._replicas)
        seconds = _TIMEOUT_MS / 1000
        futures = self._admin.create_topics(
            [topic], operation_timeout=seconds, request_timeout=seconds, validate_only=validate_only
        )
        return await self._outcome(futures[name], "TOPIC_ALREADY_EXISTS")

    async def _outcome(self, future: Any, refusal: str) -> bool | None:
        from confluent_kafka import KafkaException

        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await asyncio.wrap_future(future)
        except KafkaException as error:
            return False if error.args[0].name() == refusal else None
        except TimeoutError:
            return None
        return True
