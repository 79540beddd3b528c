"""`raftka archive verify` on a topic that brokers compact after it was archived."""

from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from raftka.cli.root import run as command
from raftka.pipeline.archive.findings import FaultKind, Verification, render
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.verification import Wanted, verify
from tests.pipeline.pipelines import Record, new_topic, read, run, write
from tests.pipeline.test_archive_verified import at, rewrite
from tests.process.broker_processes import ClusterMaker, eventually

KEYS, ROUNDS = 5, 40
BASE = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SMALL: dict[str, Any] = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}


def values(first: int) -> list[Record]:
    return [Record(b"%d" % (n % KEYS), b"%020000d" % (first + n), BASE + n, 0) for n in range(ROUNDS * KEYS)]


def test_only_a_later_record_of_its_key_explains_what_the_log_has_no_longer(
    spark: Any, make_cluster: ClusterMaker, tmp_path: Path
) -> None:
    options = {"log.cleaner.backoff.ms": 100}
    cluster = make_cluster(1, **options)
    cluster.start()
    topic = new_topic(cluster, "table", **SMALL)
    write(cluster.bootstrap, topic, [Record(b"alone", b"alone", BASE, 0), *values(0)])
    path = tmp_path / "cold"
    run(spark, tmp_path, "archive", topics=topic, to=str(path), brokers=cluster.bootstrap)
    assert (
        command(["topic", "alter-config", topic, "--set", "cleanup.policy=compact", "--brokers", cluster.bootstrap])
        == 0
    )
    write(cluster.bootstrap, topic, values(1000))

    def verified() -> Verification:
        return verify(spark, ArchiveFolder.open(path), Wanted(cluster.bootstrap))

    def held() -> list[bytes]:
        return [each.value or b"" for each in read(cluster.bootstrap, topic)]

    eventually(
        "compaction has removed most of what was archived",
        lambda: sum(len(value) > 5 and int(value[-9:]) < 1000 for value in held()) < KEYS * 2,
        120.0,
    )
    found = verified()
    assert found.is_whole, render(found)
    [partition] = found.partitions
    assert partition.compacted > KEYS
    # The log has lost offset 2, and now nothing has a later record of its key.
    rewrite(spark, path, 2, lambda rows: rows.withColumn("key", F.when(at(2), F.lit(b"other")).otherwise(F.col("key"))))
    found = verified()
    [fault] = found.partitions[0].faults
    assert (fault.kind, fault.count, fault.first) == (FaultKind.SURPLUS, 1, 2), render(found)
