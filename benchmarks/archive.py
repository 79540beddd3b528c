"""How fast the archive writes a topic, and how fast `archive verify` proves it against the log."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC, BenchCluster, BenchmarkError, running_cluster
from benchmarks.compare.verdict import row
from benchmarks.plan import Plan
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.kinds import load_kind
from raftka.pipeline.run_folder import RunFolder
from raftka.pipeline.runner import Runner, StopRequest
from raftka.pipeline.settings import convert
from raftka.pipeline.spark_session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KIND = "archive"
_SIZE = 1024
_RECORDS, _QUICK_RECORDS = 2_000_000, 50_000
_PARTITIONS = 4
_WRITE_SECONDS_MAX = 600
_GIGABYTE = 1e9


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return GB/s of values, of the first archive of a topic and of its verifications."""
    records = _QUICK_RECORDS if plan.is_quick else _RECORDS
    written, verified = [], []
    with running_cluster(data_dir) as cluster:
        spark = open_session("benchmark", {"master": "local[2]"}, data_dir / "spark.log")
        try:
            for _ in range(plan.pairs):
                folder = Path(tempfile.mkdtemp(prefix="archive-", dir=data_dir))
                try:
                    with cluster.topic(_PARTITIONS):
                        _fill(cluster, records)
                        rates = _archived(spark, cluster, folder, records)
                finally:
                    shutil.rmtree(folder)
                print(f"   archived {rates[0]:.3f} GB/s, verified {rates[1]:.3f} GB/s", flush=True)
                written.append(rates[0])
                verified.append(rates[1])
        finally:
            spark.stop()
    of = f"{records:,} records of {_SIZE} bytes in {_PARTITIONS} partitions"
    return {
        "what": "PySpark on local[2] beside the three brokers; GB are 10^9 bytes of values. Written: the "
        "pipeline from its start to its end, without the session's; verified: likewise",
        "rows": [row(f"archive, {of}", "GB/s", written), row(f"archive verify, {of}", "GB/s", verified)],
        "runs": {"archived": written, "verified": verified},
    }


def _fill(cluster: BenchCluster, records: int) -> None:
    flood = {"mode": "flood", "size": _SIZE, "count": records, "seconds": _WRITE_SECONDS_MAX}
    told = native_client.run("producer", {"brokers": cluster.bootstrap, "topic": TOPIC, **flood}).numbers
    if told["errors"]:
        raise BenchmarkError(f"{told['errors']} records were refused")
    cluster.wait_in_sync(_PARTITIONS)


def _archived(spark: "SparkSession", cluster: BenchCluster, folder: Path, records: int) -> tuple[float, float]:
    """Return GB/s of archiving and of verifying."""
    # PySpark, which no other benchmark needs, comes with it.
    from raftka.pipeline.archive.verification import Wanted, verify

    kind = load_kind(_KIND)
    values = {"kind": _KIND, "brokers": cluster.bootstrap, "topics": TOPIC, "trigger": "available-now"}
    settings = convert(values, kind.settings, _KIND)
    runs = RunFolder(folder, _KIND)
    began = time.perf_counter()
    status = Runner(_KIND, kind, settings, runs, StopRequest(), lambda _: None).run(spark)
    seconds = time.perf_counter() - began
    if status.rows != records:
        raise BenchmarkError(f"{status.rows:,} of {records:,} records are in the archive")
    found = verify(spark, ArchiveFolder.open(runs.path / _KIND), Wanted(cluster.bootstrap))
    size = sum(each.bytes for each in found.partitions)
    if not found.is_whole or size != records * _SIZE:
        raise BenchmarkError(f"the archive is not whole: {found}")
    return size / seconds / _GIGABYTE, size / found.seconds / _GIGABYTE
