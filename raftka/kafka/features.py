"""Features of any Kafka's brokers and their levels (KIP-584), for the command line.

By the wire client: librdkafka knows no features.
"""

from collections.abc import Mapping

from raftka.kafka.errors import KafkaClientError
from raftka.kafka.one_broker import ask
from raftka.kafka.wire.feature_requests import Features, describe_features, update_features

_UNSUPPORTED_VERSION = 35
_TIMEOUT_MS = 10_000


def read_features(node_id: int, address: str) -> Features:
    """Return what the broker at HOST:PORT offers, and what the cluster uses.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    # Before version 4, features that begin at level 0 are left out.
    found = ask(node_id, address, describe_features(4))
    if found.error == _UNSUPPORTED_VERSION:
        found = ask(node_id, address, describe_features(3))
    if found.error:
        raise KafkaClientError(f"broker {node_id}: error code {found.error}: it knows no features")
    return found


def raise_features(
    node_id: int, address: str, levels: Mapping[str, int], *, is_dry_run: bool, is_lowering: bool = False
) -> None:
    """Have the cluster use features at these levels; any broker takes the request.

    With `is_lowering` they are to be lower than what it uses.

    Raises:
        KafkaClientError: Refused, or no answer; what was not refused is done.
    """
    refusals = ask(
        node_id, address, update_features(levels, _TIMEOUT_MS, validate_only=is_dry_run, is_lowering=is_lowering)
    )
    if refusals:
        raise KafkaClientError(
            "; ".join(each.message or f"{each.feature}: error code {each.code}" for each in refusals)
        )
