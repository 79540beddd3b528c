"""Levels of the loggers of any Kafka's brokers (KIP-412), for the command line.

By the wire client: librdkafka knows no loggers.
"""

from collections.abc import Sequence

from raftka.kafka.errors import KafkaClientError
from raftka.kafka.one_broker import ask
from raftka.kafka.wire.logger_requests import LoggerLevel, Refusal, alter_logger, describe_loggers


def read_levels(node_id: int, address: str) -> Sequence[LoggerLevel]:
    """Return the level of each logger of the broker at HOST:PORT, in the broker's order.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    answer = ask(node_id, address, describe_loggers(node_id))
    _check(node_id, answer.refusal)
    return answer.loggers


def set_level(node_id: int, address: str, logger: str, level: str | None, *, validate_only: bool = False) -> None:
    """Set the level of a logger until the broker ends; None: that of the logger above it.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    _check(node_id, ask(node_id, address, alter_logger(node_id, logger, level, validate_only=validate_only)))


def _check(node_id: int, refusal: Refusal) -> None:
    if refusal.code:
        raise KafkaClientError(f"broker {node_id}: {refusal.message or f'error code {refusal.code}'}")
