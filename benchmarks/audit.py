"""How fast histories are judged on Spark, `raftka audit` on local[2], beside the checker in one process."""

import shutil
import time
from pathlib import Path
from typing import Any

from benchmarks.checkers import write_history
from benchmarks.compare.verdict import row
from benchmarks.plan import Plan
from raftka.check.levels import Level
from raftka.check.log.builder import read_log_history
from raftka.check.log.model import check_log
from raftka.pipeline.audit.cluster import Cluster, OnSpark
from raftka.pipeline.audit.logs import audit_log
from raftka.pipeline.audit.parts import HistoryFile
from raftka.pipeline.spark_session import open_session

_PEER = "raftka check"
# As clients read: a line of a gigabyte would be one task's.
_READ_AT_ONCE = 10_000


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return operations per second of both, for sixteen partitions and for a single large one."""
    sends, times = (100_000, 1) if plan.is_quick else (10_000_000, min(plan.pairs, 3))
    began = time.perf_counter()
    spark = open_session("benchmark", {"master": "local[2]"}, data_dir / "spark.log")
    started = time.perf_counter() - began
    try:
        rows = [_measure(data_dir, OnSpark(spark), sends, partitions, times) for partitions in (16, 1)]
    finally:
        spark.stop()
    return {
        "rows": rows,
        "what": "raftka audit on local[2], its session started before; beside raftka check, both from a file",
        "session_start_seconds": started,
    }


def _measure(data_dir: Path, cluster: Cluster, sends: int, partitions: int, times: int) -> dict[str, Any]:
    path = data_dir / "history.jsonl"
    operations = write_history(path, sends, partitions, _READ_AT_ONCE)
    audited, checked = [], []
    try:
        for _ in range(times):
            began = time.perf_counter()
            expected = check_log(read_log_history([path]))
            checked.append(operations / (time.perf_counter() - began) / 1e6)
            scratch = data_dir / "scratch"
            scratch.mkdir()
            try:
                began = time.perf_counter()
                found = audit_log([HistoryFile(path)], Level.QUORUM_ACK, cluster, scratch)
                audited.append(operations / (time.perf_counter() - began) / 1e6)
            finally:
                shutil.rmtree(scratch)
            assert found == expected, found
            assert found.is_valid, found.findings
    finally:
        path.unlink()
    of = f"{partitions} partition{'' if partitions == 1 else 's'}"
    return row(f"audit, {operations:,} operations of {of}", "M/s", audited, checked, peer=_PEER)
