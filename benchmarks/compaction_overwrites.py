"""What 10^6 overwrites of ten keys leave on each broker, once passes of log compaction have come to rest."""

import time
from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC, BenchCluster, BenchmarkError, running_cluster
from benchmarks.compare.compacted import COMPACT, IDEMPOTENT, IMPATIENT, SMALL_SEGMENTS, passes
from benchmarks.compare.verdict import Target, row
from benchmarks.plan import Plan
from raftka.dev.cluster_file import ClusterFolder

_RECORDS, _QUICK_RECORDS = 1_000_000, 500_000
_KEYS, _KEY_BYTES, _VALUE_BYTES = 10, 16, 100
_MIB = 1024 * 1024
_ROLLED_MIN = 50
# The active segment, what is left of the closed ones, and their index files.
_LEFT_MIB = 2 + 64 / 1024
# So long without a pass that has ended; and the longest wait for that.
_REST_SECONDS, _REST_SECONDS_MAX = 15.0, 180.0
_WRITE_SECONDS_MAX = 600.0
_POLL_SECONDS = 0.1
# Nothing bounds the rate of a pass: what is left does not depend on it.
_OPTIONS = {**IMPATIENT, "log.cleaner.io.max.bytes.per.second": "0"}


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return the bytes of the partition's directory on the broker that has most, and when they were below the bound.

    Raises:
        BenchmarkError: Records were refused, or the log has rolled fewer segments than the measurement is about.
    """
    count = _QUICK_RECORDS if plan.is_quick else _RECORDS
    with running_cluster(data_dir, _OPTIONS) as cluster, cluster.topic(1, {**SMALL_SEGMENTS, **COMPACT}):
        records = {"count": count, "seconds": _WRITE_SECONDS_MAX, "size": _VALUE_BYTES, "keys": _KEYS}
        options = {"mode": "flood", "brokers": cluster.bootstrap, "topic": TOPIC, "conf": IDEMPOTENT, **records}
        found = native_client.run("producer", options).numbers
        # No segment is larger than segment.bytes, so the log has rolled at least so many.
        rolled = count * (_KEY_BYTES + _VALUE_BYTES) // _MIB - 1
        if found["errors"] or found["records"] != count or rolled < _ROLLED_MIN:
            raise BenchmarkError(f"{found['records']} of {count} records, {rolled} segments rolled")
        reached, sizes = _at_rest(cluster)
        ended = passes(cluster)
    what = f"{count:,} overwrites of {_KEYS} keys, {rolled} segments of 1 MiB rolled"
    target = Target("<=", _LEFT_MIB, "value")
    rows = [row(f"{what}: directory of the partition, largest of 3 brokers", "MiB", [max(sizes) / _MIB], [], target)]
    if reached is not None:
        rows.append(row(f"{what}: from the last acknowledgement until all have so little", "s", [reached]))
    return {
        "what": "one idempotent librdkafka producer, values of 100 bytes, keys of 16; a pass after each segment of "
        f"1 MiB; the directory is measured once no pass has ended for {_REST_SECONDS:g} s",
        "rows": rows,
        "directory_bytes": sizes,
        "passes_of_all_brokers": ended,
    }


def _at_rest(cluster: BenchCluster) -> tuple[float | None, list[int]]:
    """Wait until no more passes end; return the bytes of each broker, and the seconds until all were in bounds.

    Raises:
        BenchmarkError: Passes do not come to rest.
    """
    began = time.perf_counter()
    latest, changed_at, reached = passes(cluster), began, None
    while (now := time.perf_counter()) - changed_at < _REST_SECONDS:
        if now - began > _REST_SECONDS_MAX:
            raise BenchmarkError(f"passes still run {_REST_SECONDS_MAX:g} s after the last record")
        is_small = max(partition_bytes(cluster)) <= _LEFT_MIB * _MIB
        # Passes may be under way that are larger for a moment: what counts is from when on it stays small.
        reached = (reached or now - began) if is_small else None
        if (ended := passes(cluster)) != latest:
            latest, changed_at = ended, now
        time.sleep(_POLL_SECONDS)
    return reached, partition_bytes(cluster)


def partition_bytes(cluster: BenchCluster) -> list[int]:
    """Return the bytes of all files in the directory of the largest group of each broker: that of the topic."""
    folder: ClusterFolder = cluster.folder
    return [
        max(sum(map(_size_of, group.iterdir())) for group in (folder.data_path(each.node_id) / "groups").iterdir())
        for each in cluster.brokers
    ]


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # A pass has removed it since the folder was listed.
