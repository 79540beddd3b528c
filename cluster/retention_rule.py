"""How much of a log's beginning has outlived its topic's retention.

Whole segments only, oldest first. A segment's age counts from the earlier of its newest timestamp and the moment it
was closed: a producer whose clock runs ahead must not keep its records for ever.
"""

from collections.abc import Sequence
from typing import NamedTuple

from model.ids import Index
from storage.segment import SegmentFacts

UNLIMITED = -1


class RetentionPolicy(NamedTuple):
    """What a topic keeps: records for `ms` milliseconds, the newest `bytes` bytes; UNLIMITED: no such limit."""

    ms: int
    bytes: int


def expired_segments(segments: Sequence[SegmentFacts], commit: Index, now_ms: int, policy: RetentionPolicy) -> int:
    """Return how many segments, from the oldest on, are to go; `segments` are all of the log in order.

    What is not committed stays. By size only closed segments go, and never so many that less than the limit is left;
    by time also the one that is being written, unless it holds no records.
    """
    count = 0
    left = sum(segment.size for segment in segments)
    for segment in segments:
        if segment.last_index > commit:
            break
        left -= segment.size
        is_over = segment.closed_ms is not None and policy.bytes != UNLIMITED and left >= policy.bytes
        if not is_over and not _is_too_old(segment, now_ms, policy.ms):
            break
        count += 1
    return count


def _is_too_old(segment: SegmentFacts, now_ms: int, retention_ms: int) -> bool:
    if retention_ms == UNLIMITED:
        return False
    if segment.closed_ms is None:
        return 0 <= segment.max_timestamp < now_ms - retention_ms
    newest = segment.closed_ms if segment.max_timestamp < 0 else min(segment.max_timestamp, segment.closed_ms)
    return newest < now_ms - retention_ms
