"""`raftka archive verify` and `restore` on real Spark and real brokers: what is whole is proven, each fault is found."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from raftka.cli.exit_codes import FAILED
from raftka.cli.root import run as command
from raftka.kafka import client as kafka_client
from raftka.kafka import configs as kafka_configs
from raftka.kafka import offsets as kafka_offsets
from raftka.pipeline import spark_session
from raftka.pipeline.archive import verification
from raftka.pipeline.archive.compaction import compact
from raftka.pipeline.archive.findings import Verification, render
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.frames import SCHEMA
from raftka.pipeline.archive.manifest import Manifest, load_manifest
from raftka.pipeline.archive.restoring import Restore, restore
from raftka.pipeline.archive.verification import Wanted, verify
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.topic_identity import topic_ids
from tests.pipeline.pipelines import Record, new_topic, read, run, write
from tests.process.broker_processes import BrokerCluster

HOUR = 3_600_000
BASE = 1_767_225_600_000  # 2026-01-01T00:00:00Z
RECORDS = 60


class Archived(NamedTuple):
    """A topic of two partitions with 60 and 20 records, and its archive."""

    topic: str
    path: Path
    brokers: str

    def verified(self, spark: Any, path: Path | None = None, **wanted: Any) -> Verification:
        return verify(spark, ArchiveFolder.open(path or self.path), Wanted(self.brokers, **wanted))


def archived(spark: Any, cluster: BrokerCluster, folder: Path) -> Archived:
    topic = new_topic(cluster, "orders", 2)
    first = [Record(b"k", b"value %d" % n, BASE + n * HOUR, 0, (("n", b"%d" % n),)) for n in range(RECORDS)]
    second = [Record(None, None if n == 3 else b"", BASE + n * HOUR, 1) for n in range(20)]
    write(cluster.bootstrap, topic, [*first, *second])
    options = {"brokers": cluster.bootstrap, "max_offsets_per_trigger": "40"}
    run(spark, folder, "archive", topics=topic, to=str(folder / "cold"), **options)
    return Archived(topic, folder / "cold", cluster.bootstrap)


@pytest.fixture(scope="module")
def kept(spark: Any, cluster: BrokerCluster, tmp_path_factory: pytest.TempPathFactory) -> Archived:
    """An archive that tests copy before they damage it."""
    return archived(spark, cluster, tmp_path_factory.mktemp("kept"))


def rewrite(spark: Any, path: Path, offset: int, change: Callable[[DataFrame], DataFrame]) -> None:
    """Rewrite the file in which an offset of partition 0 is."""
    folder = ArchiveFolder.open(path)
    for file in load_manifest(folder).files.values():
        place = path / file.path
        rows = spark.read.schema(SCHEMA).option("basePath", str(path)).parquet(str(place))
        if rows.where(f"partition = 0 AND offset = {offset}").count():
            written = path / "_raftka" / "rewritten"
            change(rows.drop("topic", "day")).coalesce(1).write.parquet(str(written))
            (part,) = written.glob("*.parquet")
            shutil.copyfile(part, place)
            (place.parent / f".{place.name}.crc").unlink(missing_ok=True)
            shutil.rmtree(written)
            return
    raise AssertionError(f"no file has offset {offset}")


def at(offset: int) -> Any:
    return (F.col("partition") == 0) & (F.col("offset") == offset)


def without(offset: int) -> Callable[[DataFrame], DataFrame]:
    return lambda rows: rows.where(~at(offset))


def twice(offset: int) -> Callable[[DataFrame], DataFrame]:
    return lambda rows: rows.unionByName(rows.where(at(offset)))


def with_value(offset: int, value: str) -> Callable[[DataFrame], DataFrame]:
    return lambda rows: rows.withColumn(
        "value", F.when(at(offset), F.lit(value).cast("binary")).otherwise(F.col("value"))
    )


def with_key(offset: int) -> Callable[[DataFrame], DataFrame]:
    return lambda rows: rows.withColumn("key", F.when(at(offset), F.lit(None)).otherwise(F.col("key")))


def with_time(offset: int) -> Callable[[DataFrame], DataFrame]:
    return lambda rows: rows.withColumn(
        "timestamp",
        F.col("timestamp") + F.when(at(offset), F.expr("INTERVAL 1 SECOND")).otherwise(F.expr("INTERVAL 0 SECOND")),
    )


def with_value_and_crc(offset: int) -> Callable[[DataFrame], DataFrame]:
    # CRC-32C of "123456789", the check value of its definition.
    changed = with_value(offset, "123456789")
    return lambda rows: changed(rows).withColumn(
        "value_crc32c", F.when(at(offset), F.lit(0xE3069283)).otherwise(F.col("value_crc32c"))
    )


def kinds(found: Verification) -> set[str]:
    return {fault.kind.value for each in [found, *found.partitions] for fault in each.faults}


def test_an_archive_is_proven_offset_by_offset(spark: Any, kept: Archived) -> None:
    found = kept.verified(spark)
    assert found.is_whole, render(found)
    assert [(each.partition, each.begin, each.end, each.proven, each.gaps.offsets) for each in found.partitions] == [
        (0, 0, 60, 60, 0),
        (1, 0, 20, 20, 0),
    ]
    part = kept.verified(spark, begin=10, end=30)
    assert part.is_whole
    assert [(each.proven, each.beyond) for each in part.partitions] == [(20, 0), (10, 10)]
    assert render(part)[-1].startswith("the archive is whole: 30 offsets proven")


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "expected", "first"),
    [
        (without(7), {"missing", "rows"}, 7),
        (twice(8), {"duplicated", "rows"}, 8),
        (with_value(9, "other"), {"damaged"}, 9),
        (with_value_and_crc(10), {"different"}, 10),
        (with_key(11), {"different"}, 11),
        (with_time(12), {"different"}, 12),
    ],
    ids=["missing", "duplicated", "damaged", "different", "key", "timestamp"],
)
def test_a_fault_in_a_file_is_found_and_named_with_its_offset(
    spark: Any, kept: Archived, tmp_path: Path, change: Callable[[DataFrame], DataFrame], expected: set[str], first: int
) -> None:
    path = tmp_path / "cold"
    shutil.copytree(kept.path, path)
    rewrite(spark, path, first, change)
    found = kept.verified(spark, path)
    assert not found.is_whole
    assert kinds(found) == expected
    assert (found.partitions[0].faults[0].first, found.partitions[0].faults[0].count) == (first, 1)
    assert (found.partitions[0].proven, found.partitions[1].proven) == (59, 20)
    damaged = {"missing", "duplicated", "damaged"} & expected
    if damaged:
        to = f"{kept.topic}-{first}"
        with pytest.raises(PipelineError, match=f"{kept.topic}-0: .* nothing was restored"):
            restore(spark, ArchiveFolder.open(path), Restore(kept.brokers, kept.topic, to))
        assert to not in kafka_client.read_cluster(kept.brokers).topics


@pytest.mark.long
def test_a_range_that_was_asked_for_is_held_against_the_log_and_not_against_the_archive(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    made = archived(spark, cluster, tmp_path)
    write(cluster.bootstrap, made.topic, [Record(b"k", b"later", BASE) for _ in range(40)])
    behind = made.verified(spark)
    assert behind.is_whole
    assert [each.later for each in behind.partitions] == [40, 0]
    for begin, end, missing in ((0, 100, 40), (60, 90, 30), (70, 71, 1)):
        found = made.verified(spark, begin=begin, end=end)
        assert kinds(found) == {"missing"}
        assert [fault.count for fault in found.partitions[0].faults] == [missing]
    for begin, end, why in (
        (1000, 2000, "nothing can be verified"),
        (40, 10, "range is empty"),
        (100, None, "nothing"),
    ):
        with pytest.raises(PipelineError, match=why):
            made.verified(spark, begin=begin, end=end)
    with pytest.raises(PipelineError, match=r"no record of .* from offset 60 on"):
        restore(spark, ArchiveFolder.open(made.path), Restore(cluster.bootstrap, made.topic, "nothing", 60))
    assert "nothing" not in kafka_client.read_cluster(cluster.bootstrap).topics


@pytest.mark.long
def test_what_the_log_has_from_before_the_archive_and_of_other_partitions_is_missing_unless_it_was_left_out(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    made = archived(spark, cluster, tmp_path)
    kafka_configs.add_partitions(cluster.bootstrap, made.topic, 4)
    write(cluster.bootstrap, made.topic, [Record(b"k", b"new", BASE, 2) for _ in range(30)])
    found = made.verified(spark)
    assert [(each.partition, each.is_whole, each.is_archived) for each in found.partitions] == [
        (0, True, True),
        (1, True, True),
        (2, False, False),
    ]
    assert found.partitions[2].faults[0].count == 30
    folder = ArchiveFolder.open(made.path)
    first = min(load_manifest(folder).batches.values(), key=lambda each: each.batch)
    (folder.commits / first.name).unlink()
    for file in first.files:
        (made.path / file.path).unlink()
    lost = made.verified(spark)
    assert kinds(lost) == {"missing"}
    assert lost.partitions[0].begin == 0
    options = {"brokers": cluster.bootstrap, "starting_offsets": "latest", "topics": made.topic}
    to = tmp_path / "late"
    run(spark, tmp_path / "two", "archive", to=str(to), **options)
    write(cluster.bootstrap, made.topic, [Record(b"k", b"last", BASE) for _ in range(5)])
    run(spark, tmp_path / "two", "archive", to=str(to), **options)
    late = made.verified(spark, to)
    assert late.is_whole, render(late)
    assert [(each.partition, each.proven, each.left_out) for each in late.partitions] == [
        (0, 5, 60),
        (1, 0, 20),
        (2, 0, 30),
    ]


@pytest.mark.long
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_judged(
    spark: Any, kept: Archived, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cold"
    shutil.copytree(kept.path, path)
    file = load_manifest(ArchiveFolder.open(path)).files_of(kept.topic)[0]
    place = path / file.path
    place.write_bytes(place.read_bytes()[:-30])
    place.with_name(f".{place.name}.crc").unlink(missing_ok=True)
    found = kept.verified(spark, path)
    assert [(fault.kind.value, fault.path) for fault in found.faults] == [("unreadable", file.path)]
    assert kinds(found) == {"unreadable", "missing", "rows"}
    assert sum(each.proven for each in found.partitions) == 80 - file.rows
    # The commands' own session would be this one, and they would end it.
    monkeypatch.setattr(spark_session, "open_session", lambda *_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    for arguments in (
        ["compact", str(path)],
        ["restore", str(path), "--topic", kept.topic, "--to", "nothing", "--brokers", kept.brokers],
    ):
        capsys.readouterr()
        assert command(["archive", *arguments]) == FAILED
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert place.name in said[0]
    assert "nothing" not in kafka_client.read_cluster(kept.brokers).topics


@pytest.mark.long
def test_files_that_are_gone_and_files_of_strangers_are_found(spark: Any, kept: Archived, tmp_path: Path) -> None:
    path = tmp_path / "cold"
    shutil.copytree(kept.path, path)
    file = next(iter(load_manifest(ArchiveFolder.open(path)).files.values()))
    place = path / file.path
    shutil.copyfile(place, place.with_name("stranger.parquet"))
    stranger = kept.verified(spark, path)
    assert kinds(stranger) == {"files"}
    assert all(each.is_whole for each in stranger.partitions)
    place.unlink()
    gone = kept.verified(spark, path)
    assert kinds(gone) == {"files", "missing", "rows"}
    assert sum(each.proven for each in gone.partitions) == 80 - file.rows


@pytest.mark.long
def test_what_the_log_no_longer_has_is_held_against_its_own_checksum_and_the_commit_records(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    made = archived(spark, cluster, tmp_path)
    kafka_offsets.delete_records(cluster.bootstrap, {(made.topic, 0): 30})
    found = made.verified(spark)
    assert found.is_whole, render(found)
    assert (found.partitions[0].expired, found.partitions[0].proven) == (30, 30)
    for number, (change, expected) in enumerate(
        [
            (without(5), {"rows"}),
            (twice(5), {"duplicated", "rows"}),
            (with_value(5, "other"), {"damaged"}),
        ]
    ):
        path = tmp_path / f"copy-{number}"
        shutil.copytree(made.path, path)
        rewrite(spark, path, 5, change)
        assert kinds(made.verified(spark, path)) == expected
    # A batch whose record is gone: its offsets were never read, and its files are strangers.
    path = tmp_path / "copy-hole"
    shutil.copytree(made.path, path)
    folder = ArchiveFolder.open(path)
    batches = sorted(load_manifest(folder).batches.values(), key=lambda each: each.batch)
    assert len(batches) >= 2
    kafka_offsets.delete_records(cluster.bootstrap, {(made.topic, 0): 60})
    (folder.commits / batches[0].name).unlink()
    first = kinds(made.verified(spark, path))
    assert "files" in first


@pytest.mark.long
def test_an_archive_of_a_former_topic_is_told_by_its_id_and_other_topics_are_judged(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    from tests.process.kafka_topics import create_topic, delete_topic, wait_topic_nowhere

    topics = [new_topic(cluster, "orders"), new_topic(cluster, "kept")]
    for topic in topics:
        write(cluster.bootstrap, topic, [Record(b"k", b"value %d" % n, BASE + n) for n in range(10)])
    options = {"topics": ",".join(topics), "to": str(tmp_path / "cold"), "brokers": cluster.bootstrap}
    run(spark, tmp_path, "archive", **options)
    folder = ArchiveFolder.open(tmp_path / "cold")
    was = load_manifest(folder).known[topics[0]].id
    delete_topic(cluster.bootstrap, topics[0])
    wait_topic_nowhere(cluster, topics[0])
    create_topic(cluster, topics[0], 1, **{"retention.ms": "-1"})
    # As many as before, and the first one is the same.
    write(cluster.bootstrap, topics[0], [Record(b"k", b"value 0", BASE) for _ in range(10)])
    found = verify(spark, folder, Wanted(cluster.bootstrap))
    assert kinds(found) == {"former"}
    assert [(each.topic, each.proven) for each in found.partitions] == [(topics[1], 10)]
    now = topic_ids(cluster.bootstrap, topics)[topics[0]]
    made_anew = f"topic {topics[0]} was deleted and created again (its id was {was} and is {now})"
    assert render(found)[-2] == f"former: {made_anew}: the archive has the former one"
    alone = verify(spark, folder, Wanted(cluster.bootstrap, (topics[0],), 0, 5))
    assert (alone.is_whole, alone.partitions, kinds(alone)) == (False, [], {"former"})


@pytest.mark.long
def test_what_spark_leaves_out_both_times_without_a_word_is_found_in_the_log(
    spark: Any, kept: Archived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cold"
    shutil.copytree(kept.path, path)
    rewrite(spark, path, 7, without(7))
    read_log = verification._TopicVerification._log

    def forgetful(self: Any, wanted: Any) -> DataFrame:
        return read_log(self, wanted).where(~at(7))

    monkeypatch.setattr(verification._TopicVerification, "_log", forgetful)
    monkeypatch.setattr(Manifest, "rows", lambda _, partition: {0: 59, 1: 20}[partition[1]])
    found = kept.verified(spark, path)
    assert not found.is_whole
    assert [(fault.kind.value, fault.count, fault.first, fault.last) for fault in found.partitions[0].faults] == [
        ("missing", 1, 7, 7)
    ]
    assert (found.partitions[0].proven, found.partitions[1].is_whole) == (59, True)


@pytest.mark.long
def test_a_topic_that_is_made_has_as_many_partitions_as_the_archived_one_or_as_many_as_were_asked_for(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic, path = new_topic(cluster, "orders", 3), tmp_path / "cold"
    write(cluster.bootstrap, topic, [Record(b"k", b"v", BASE, partition) for partition in (0, 1)])
    run(spark, tmp_path, "archive", topics=topic, to=str(path), brokers=cluster.bootstrap)
    for partitions, expected in ((None, 3), (2, 2), (5, 5)):
        to = f"{topic}-{expected}"
        restore(spark, ArchiveFolder.open(path), Restore(cluster.bootstrap, topic, to, partitions=partitions))
        assert len(kafka_client.read_cluster(cluster.bootstrap).topic(to)) == expected


@pytest.mark.long
def test_a_range_is_restored_in_order_with_everything_that_a_record_has(
    spark: Any, cluster: BrokerCluster, kept: Archived, tmp_path: Path
) -> None:
    path, to = tmp_path / "cold", f"{kept.topic}-back"
    shutil.copytree(kept.path, path)
    folder = ArchiveFolder.open(path)
    compact(spark, folder, 1 << 20)
    done = restore(spark, folder, Restore(cluster.bootstrap, kept.topic, to, 0, None))
    assert done.records == {0: 60, 1: 20}
    assert done.is_new_topic
    assert read(cluster.bootstrap, to, 2) == read(cluster.bootstrap, kept.topic, 2)
    with pytest.raises(PipelineError, match="is not empty"):
        restore(spark, folder, Restore(cluster.bootstrap, kept.topic, to, 0, None))
    part = new_topic(cluster, "part", 2)
    assert restore(spark, folder, Restore(cluster.bootstrap, kept.topic, part, 10, 15)).records == {0: 5, 1: 5}
    values = [record.value for record in read(cluster.bootstrap, part, 2) if record.partition == 0]
    assert values == [b"value %d" % number for number in range(10, 15)]
    with pytest.raises(PipelineError, match="2 partitions have records, and 1 are too few"):
        restore(spark, folder, Restore(cluster.bootstrap, kept.topic, "nothing", partitions=1))
    narrow = new_topic(cluster, "narrow")
    with pytest.raises(PipelineError, match="has 1 partition, and needs 2"):
        restore(spark, folder, Restore(cluster.bootstrap, kept.topic, narrow, 0, None))
