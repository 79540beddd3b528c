"""Reports of replicas as brokers publish them, made by hand."""

import json
from collections.abc import Iterable
from typing import Any

from tests.pipeline.pipelines import Record

BASE = 1_767_225_600  # 2026-01-01T00:00:00Z, in seconds
SECOND = 1_000


def histogram(*values_us: int) -> dict[str, Any] | None:
    """Return a histogram with buckets up to powers of two."""
    counts: dict[int, int] = {}
    for value in values_us:
        upper = 1 << max(value - 1, 0).bit_length()
        counts[upper] = counts.get(upper, 0) + 1
    if not values_us:
        return None
    buckets = [[upper, count] for upper, count in sorted(counts.items())]
    return {"n": len(values_us), "sum_us": sum(values_us), "max_us": max(values_us), "buckets": buckets}


def report(second: int, broker: int = 1, role: str = "leader", **changes: Any) -> dict[str, Any]:
    """Return what a broker says of its replica of orders-0 in a second after BASE."""
    dirty = changes.get("dirty", 100)
    told = {
        "v": 1,
        "at": (BASE + second) * SECOND,
        "interval_ms": 1000,
        "broker": broker,
        "boot": f"boot-{broker}",
        "topic": "orders",
        "topic_id": "id-orders",
        "partition": 0,
        "role": role,
        "in_office": role == "leader",
        "term": 1,
        "leader": broker if role == "leader" else None,
        "voters": [1, 2, 3],
        "in_sync": [1, 2, 3] if role == "leader" else None,
        "log_start": 0,
        "dirty": dirty,
        "flushed": dirty,
        "commit": dirty,
        "visible": dirty,
        "followers": {} if role == "leader" else None,
        "replicate": {"quorum_ack": None, "leader_ack": None},
        "fsync": None,
        "recovery_bytes": 0,
    }
    return told | changes


def followers(**dirty: int) -> dict[str, dict[str, int]]:
    """Return what a leader knows of others: b2=90 is broker 2, whose log ends at 90."""
    return {name[1:]: {"dirty": end, "flushed": end, "age_ms": 1} for name, end in dirty.items()}


def led(seconds: Iterable[int], broker: int = 1, term: int = 1, **changes: Any) -> list[dict[str, Any]]:
    """Return the reports of a partition that is well: its leader's and those of two followers."""
    return [
        report(second, each, "leader" if each == broker else "follower", **({"term": term, "leader": broker} | changes))
        for second in seconds
        for each in (1, 2, 3)
    ]


def leaderless(seconds: Iterable[int], brokers: tuple[int, ...] = (2, 3), term: int = 1) -> list[dict[str, Any]]:
    """Return the reports of followers that know no leader."""
    return [report(second, each, "follower", term=term) for second in seconds for each in brokers]


def record(told: dict[str, Any] | bytes, at: int | None = None) -> Record:
    """Return a report as a record of the topic; `at` is its timestamp in ms, where it is not the report's."""
    if isinstance(told, bytes):
        return Record(None, told, BASE * SECOND if at is None else at)
    key = f"{told.get('topic')}-{told.get('partition')}".encode()
    return Record(key, json.dumps(told).encode(), told["at"] if at is None else at)
