"""A request to one broker itself, by the wire client: librdkafka asks only brokers that Metadata names."""

import asyncio
import random
from typing import TypeVar

from raftka.config import parse_address
from raftka.kafka.errors import KafkaClientError, UnansweredError
from raftka.kafka.wire.client import REQUEST_SECONDS, LostError, NotSentError, WireClient
from raftka.kafka.wire.requests import Request

T = TypeVar("T")


def ask(node_id: int, address: str, request: Request[T], seconds: float = REQUEST_SECONDS) -> T:
    """Return what the broker at HOST:PORT answers; wait so long for it.

    Raises:
        UnansweredError: It may have got the request.
        KafkaClientError: No connection.
    """

    async def call() -> T:
        client = WireClient([parse_address(address)], random.Random(), "raftka")
        try:
            return await client.call(client.bootstrap[0], request, seconds)
        finally:
            client.close()

    try:
        return asyncio.run(call())
    except NotSentError as error:
        raise KafkaClientError(f"broker {node_id} at {address}: {error}") from None
    except LostError as error:
        raise UnansweredError(f"broker {node_id} at {address}: {error}") from None
