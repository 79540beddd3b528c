"""Levels of the loggers of any Kafka's brokers (KIP-412), for the command line.

By the wire client: librdkafka knows no loggers.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import TypeVar

from raftka.config import parse_address
from raftka.kafka.errors import KafkaClientError, UnansweredError
from raftka.kafka.wire.client import LostError, NotSentError, WireClient
from raftka.kafka.wire.logger_requests import LoggerLevel, Refusal, alter_logger, describe_loggers
from raftka.kafka.wire.requests import Request

T = TypeVar("T")


def read_levels(node_id: int, address: str) -> Sequence[LoggerLevel]:
    """Return the level of each logger of the broker at HOST:PORT, in the broker's order.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    answer = _ask(node_id, address, describe_loggers(node_id))
    _check(node_id, answer.refusal)
    return answer.loggers


def set_level(node_id: int, address: str, logger: str, level: str | None, *, validate_only: bool = False) -> None:
    """Set the level of a logger until the broker ends; None: that of the logger above it.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    _check(node_id, _ask(node_id, address, alter_logger(node_id, logger, level, validate_only=validate_only)))


def _ask(node_id: int, address: str, request: Request[T]) -> T:
    async def ask() -> T:
        client = WireClient([parse_address(address)], random.Random(), "raftka")
        try:
            return await client.call(client.bootstrap[0], request)
        finally:
            client.close()

    try:
        return asyncio.run(ask())
    except NotSentError as error:
        raise KafkaClientError(f"broker {node_id} at {address}: {error}") from None
    except LostError as error:
        raise UnansweredError(f"broker {node_id} at {address}: {error}") from None


def _check(node_id: int, refusal: Refusal) -> None:
    if refusal.code:
        raise KafkaClientError(f"broker {node_id}: {refusal.message or f'error code {refusal.code}'}")
