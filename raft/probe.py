"""Counters of one node's groups, as plain numbers; the broker exposes them as Prometheus text."""

from dataclasses import dataclass


@dataclass(slots=True)
class RaftProbe:
    """Monotone counts since start, over all groups."""

    rounds: int = 0
    entries_appended: int = 0
    bytes_appended: int = 0
    append_requests_sent: int = 0
    append_requests_failed: int = 0
    append_requests_received: int = 0
    recoveries_started: int = 0
    recovery_bytes: int = 0
    throttled_bytes: int = 0
    throttled_seconds: float = 0.0
    snapshots_sent: int = 0
    snapshots_installed: int = 0
    snapshots_damaged: int = 0
    snapshots_refused: int = 0
    elections_started: int = 0
    elections_won: int = 0
    step_downs: int = 0
    votes_granted: int = 0
    votes_refused: int = 0
    truncations: int = 0
    entries_truncated: int = 0
    records_truncated: int = 0
    replicate_timeouts: int = 0
    producers_held: int = 0
    read_rounds: int = 0
    transfers_started: int = 0
    transfers_completed: int = 0
    append_stalls: int = 0
    flush_stalls: int = 0
    kvstore_stalls: int = 0
