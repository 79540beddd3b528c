"""When a compacted partition is due for a pass, and which of several comes first (RFC 0022, section 5). Pure."""

from typing import NamedTuple

from storage.log_compaction import CleaningFacts

NO_MAX_LAG = 2**63 - 1


class CompactionPolicy(NamedTuple):
    """What a topic asks for, with Kafka's names and meanings.

    Attributes:
        min_dirty_ratio: `min.cleanable.dirty.ratio`, in [0, 1].
        delete_retention_ms: How long a tombstone stays after it was cleaned first.
        min_lag_ms: How long a record stays at least.
        max_lag_ms: After so long a record is compared at the latest; NO_MAX_LAG: there is no such time.
        is_deleted: Whether segments are deleted, too: then each keeps a segment of its own.
        segment_bytes: How large a joined segment may become.
    """

    min_dirty_ratio: float
    delete_retention_ms: int
    min_lag_ms: int
    max_lag_ms: int
    is_deleted: bool
    segment_bytes: int


def dirty_ratio(facts: CleaningFacts) -> float:
    """Return the part of the cleanable bytes that a pass may look at for something to remove, in [0, 1]."""
    return (facts.dirty_bytes + facts.removable_bytes) / facts.cleanable_bytes if facts.cleanable_bytes else 0.0


def is_due(facts: CleaningFacts, policy: CompactionPolicy, now_ms: int) -> bool:
    """Whether a pass is worth its cost now, or may not wait any longer."""
    ratio = dirty_ratio(facts)
    if ratio > 0 and ratio >= policy.min_dirty_ratio:
        return True
    return facts.dirty_bytes > 0 and now_ms - facts.dirty_since_ms >= policy.max_lag_ms
