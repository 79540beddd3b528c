"""The topics that a consumer's metadata names (ConsumerProtocolSubscription): version i16, then an array of strings."""

import struct
from collections.abc import Iterable

CONSUMER = "consumer"

_HEAD = struct.Struct(">hi")
_I16 = struct.Struct(">h")


def consumed_topics(protocol_type: str, metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics that any member of a group subscribes to; None where that is not known."""
    if protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    for each in metadata:
        named = subscribed_topics(each)
        if named is None:
            return None
        topics |= named
    return frozenset(topics)


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics; None if it is something else, or cut off: then nothing is known."""
    if len(metadata) < _HEAD.size:
        return None
    _, count = _HEAD.unpack_from(metadata)
    topics, position = set(), _HEAD.size
    for _ in range(max(0, count)):
        if position + _I16.size > len(metadata):
            return None
        (length,) = _I16.unpack_from(metadata, position)
        start = position + _I16.size
        position = start + length
        if length < 0 or position > len(metadata):
            return None
        try:
            topics.add(metadata[start:position].decode())
        except UnicodeDecodeError:
            return None
    return frozenset(topics)
