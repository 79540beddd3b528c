"""The archive on real Spark and real brokers: written, restarted, compacted."""

import json
import shutil
from pathlib import Path
from typing import Any

import crc32c
import pytest

from raftka.pipeline import runner
from raftka.pipeline.archive import commits
from raftka.pipeline.archive.compaction import compact
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.kind import check_schema
from raftka.pipeline.archive.manifest import load_manifest
from raftka.pipeline.archive.reading import read_archive
from raftka.pipeline.archive.records import BatchCommit
from raftka.pipeline.archive.restoring import Restore, restore
from raftka.pipeline.archive.verification import Wanted, verify
from raftka.pipeline.errors import PipelineError
from tests.pipeline.pipelines import Record, new_topic, read, run, write
from tests.process.broker_processes import BrokerCluster

HOUR = 3_600_000
BASE = 1_767_225_600_000  # 2026-01-01T00:00:00Z
DAY = 24 * HOUR


def some(count: int, partition: int = 0, begin: int = 0) -> list[Record]:
    return [
        Record(b"k%d" % number, b"value %d" % number, BASE + number * HOUR, partition, (("n", b"%d" % number),))
        for number in range(begin, begin + count)
    ]


def archived_offsets(spark: Any, path: Path, topic: str) -> list[tuple[int, int]]:
    rows = read_archive(spark, path, topic).select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in rows)


def expected(*counts: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition, count in enumerate(counts) for offset in range(count)]


def test_every_record_is_in_the_folder_of_its_topic_and_day_with_the_checksum_of_its_value(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic, path = new_topic(cluster, "orders", 2), tmp_path / "cold"
    records = [*some(30), *some(20, 1), Record(None, None, BASE + DAY, 1)]
    write(cluster.bootstrap, topic, records)
    status, _ = run(spark, tmp_path, "archive", topics=topic, to=str(path), brokers=cluster.bootstrap)
    assert status.rows == 51
    rows = {(row.partition, row.offset): row for row in read_archive(spark, path, topic).collect()}
    for record in read(cluster.bootstrap, topic, 2):
        row = rows.pop((record.partition, record.offset))
        assert (row.key, row.value) == (record.key, record.value)
        assert row.value_crc32c == (None if record.value is None else crc32c.crc32c(record.value))
        assert int(row.timestamp.timestamp() * 1000) == record.timestamp
        assert [(each.key, bytes(each.value)) for each in row.headers or []] == list(record.headers)
    assert rows == {}
    days = sorted(each.name for each in (path / f"topic={topic}").iterdir())
    assert days == ["day=2026-01-01", "day=2026-01-02"]
    # Whoever knows nothing of records sees the same.
    assert spark.read.parquet(str(path)).count() == 51


def test_a_restart_reads_on_and_a_lost_checkpoint_too(spark: Any, cluster: BrokerCluster, tmp_path: Path) -> None:
    topic, path = new_topic(cluster, "orders", 2), tmp_path / "cold"
    wanted = {"topics": topic, "to": str(path), "brokers": cluster.bootstrap, "max_offsets_per_trigger": "40"}
    write(cluster.bootstrap, topic, some(100))
    status, _ = run(spark, tmp_path, "archive", **wanted)
    assert status.batches >= 3
    write(cluster.bootstrap, topic, some(10, 0, 100) + some(15, 1))
    run(spark, tmp_path, "archive", **wanted)
    assert archived_offsets(spark, path, topic) == expected(110, 15)
    write(cluster.bootstrap, topic, some(5, 1, 15))
    run(spark, tmp_path, "archive", version="2", **wanted)
    assert archived_offsets(spark, path, topic) == expected(110, 20)
    manifest = load_manifest(ArchiveFolder.open(path))
    assert manifest.ends() == {(topic, 0): 110, (topic, 1): 20}
    assert (manifest.rows((topic, 0)), manifest.rows((topic, 1))) == (110, 20)


@pytest.mark.long
def test_a_checkpoint_of_another_archive_is_refused_before_anything_is_there_twice(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic = new_topic(cluster, "orders")
    write(cluster.bootstrap, topic, some(10))
    wanted = {"topics": topic, "to": str(tmp_path / "cold"), "brokers": cluster.bootstrap}
    run(spark, tmp_path / "one", "archive", **wanted)
    older = tmp_path / "two" / "archive" / "v1" / "checkpoint"
    shutil.copytree(tmp_path / "one" / "archive" / "v1" / "checkpoint", older)
    write(cluster.bootstrap, topic, some(10, 0, 10))
    run(spark, tmp_path / "one", "archive", **wanted)
    # The id of a checkpoint that was begun anew at the same place.
    (older / "metadata").write_text('{"id":"ffffffff-0000-0000-0000-000000000000"}')
    with pytest.raises(PipelineError, match=r"cold has no record of batch 0, with which .* ended"):
        run(spark, tmp_path / "two", "archive", **wanted)
    assert archived_offsets(spark, tmp_path / "cold", topic) == expected(20)
    # A timestamp says where a new partition begins, not where the archive goes on.
    write(cluster.bootstrap, topic, some(5, 0, 20))
    run(spark, tmp_path / "three", "archive", starting_timestamp=str(BASE), **wanted)
    assert archived_offsets(spark, tmp_path / "cold", topic) == expected(25)


@pytest.mark.long
@pytest.mark.parametrize("step", ["commit", "settle"])
def test_a_batch_that_ends_halfway_is_in_the_archive_once(
    spark: Any, cluster: BrokerCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    topic, path = new_topic(cluster, "orders"), tmp_path / "cold"
    wanted = {"topics": topic, "to": str(path), "brokers": cluster.bootstrap}
    write(cluster.bootstrap, topic, some(50))

    def torn(*_: object) -> None:
        raise OSError("the machine went away")

    with monkeypatch.context() as patched:
        patched.setattr(commits, step, torn)
        with pytest.raises(PipelineError, match="the machine went away"):
            run(spark, tmp_path, "archive", **wanted)
    write(cluster.bootstrap, topic, some(50, 0, 50))
    run(spark, tmp_path, "archive", **wanted)
    assert archived_offsets(spark, path, topic) == expected(100)
    assert list(ArchiveFolder.open(path).staging.iterdir()) == []


@pytest.mark.long
def test_what_is_no_json_of_the_schema_is_a_dead_letter_and_archived_all_the_same(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic, path, dead = new_topic(cluster, "orders"), tmp_path / "cold", new_topic(cluster, "dead")
    good = [b'{"id": 1}', b'{"id": 2, "name": "x", "more": true}', b' {"name": null}', b'{"id": 3, "more": {}}', None]
    bad = [
        b"no json",
        b'{"id": "x"}',
        b"[1]",
        b'[{"id": 1}]',
        b"12",
        b"",
        b"\xff\xfe",
        b'{"id": 1} trailing',
        b'{"id": 1} x}',
        b'{"id":',
    ]
    headers = (("trace", b"t"),)
    write(cluster.bootstrap, topic, [Record(b"k", value, BASE, 0, headers) for value in [*good, *bad]])
    run(
        spark,
        tmp_path,
        "archive",
        topics=topic,
        to=str(path),
        brokers=cluster.bootstrap,
        json_schema="id BIGINT, name STRING",
        dead_letter_topic=dead,
    )
    letters = read(cluster.bootstrap, dead)
    found = {dict(each.headers)["raftka.offset"]: each for each in letters}
    assert {offset: each.value for offset, each in found.items()} == {
        b"%d" % (len(good) + number): value for number, value in enumerate(bad)
    }
    assert all(dict(each.headers)["raftka.topic"] == topic.encode() and each.key == b"k" for each in letters)
    assert all(each.headers[0] == headers[0] for each in letters)
    assert archived_offsets(spark, path, topic) == expected(len(good) + len(bad))
    manifest = load_manifest(ArchiveFolder.open(path))
    assert sum(batch.dead_letters for batch in manifest.batches.values()) == len(bad)


@pytest.mark.long
def test_small_files_are_joined_and_every_record_is_still_there_once(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic, path = new_topic(cluster, "orders", 2), tmp_path / "cold"
    wanted = {"topics": topic, "to": str(path), "brokers": cluster.bootstrap, "max_offsets_per_trigger": "20"}
    write(cluster.bootstrap, topic, some(60) + some(40, 1))
    run(spark, tmp_path, "archive", **wanted)
    folder = ArchiveFolder.open(path)
    before = load_manifest(folder)
    done = compact(spark, folder, 1 << 20)
    after = load_manifest(folder)
    assert (done.files_before, done.files_after) == (len(before.files), len(after.files))
    # One file per day.
    assert len(after.files) == 3 < len(before.files)
    assert archived_offsets(spark, path, topic) == expected(60, 40)
    assert spark.read.parquet(str(path)).count() == 100
    assert len(list(path.glob("topic=*/day=*/*.parquet"))) == 3
    assert compact(spark, folder, 1 << 20) == (3, 3)
    # What comes later is joined with what was joined.
    write(cluster.bootstrap, topic, some(5, 0, 60))
    run(spark, tmp_path, "archive", compact_batches="1", **wanted)
    assert archived_offsets(spark, path, topic) == expected(65, 40)
    assert len(load_manifest(folder).files) == 3


@pytest.mark.long
def test_a_topic_that_was_made_anew_is_refused_even_where_it_is_longer_than_before(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    from tests.process.kafka_topics import create_topic, delete_topic, wait_topic_nowhere

    topic = new_topic(cluster, "orders")
    wanted = {"topics": topic, "to": str(tmp_path / "cold"), "brokers": cluster.bootstrap}
    write(cluster.bootstrap, topic, some(5))
    run(spark, tmp_path, "archive", **wanted)
    delete_topic(cluster.bootstrap, topic)
    wait_topic_nowhere(cluster, topic)
    with pytest.raises(PipelineError, match=f"topic {topic} was deleted"):
        run(spark, tmp_path, "archive", **wanted)
    create_topic(cluster, topic, 1, **{"retention.ms": "-1"})
    write(cluster.bootstrap, topic, some(50))
    with pytest.raises(PipelineError, match=f"topic {topic} was deleted and created again"):
        run(spark, tmp_path, "archive", **wanted)
    status = json.loads((tmp_path / "archive" / "status.json").read_text())
    assert status["state"] == "failed"
    assert "created again" in status["error"]
    # A new checkpoint knows nothing of the former topic, and the archive does.
    with pytest.raises(PipelineError, match=f"topic {topic} was deleted .* another folder .`to`. is needed"):
        run(spark, tmp_path, "archive", version="2", **wanted)
    assert archived_offsets(spark, tmp_path / "cold", topic) == expected(5)
    run(spark, tmp_path, "archive", version="2", **wanted | {"to": str(tmp_path / "new")})
    assert archived_offsets(spark, tmp_path / "new", topic) == expected(50)


@pytest.mark.long
@pytest.mark.parametrize("records", [10, 50], ids=["as-long", "longer"])
def test_a_topic_that_is_made_anew_while_a_batch_is_read_gets_nothing_into_the_archive_of_the_former_one(
    spark: Any, cluster: BrokerCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    from tests.process.kafka_topics import create_topic, delete_topic, wait_topic_nowhere

    topic, path = new_topic(cluster, "orders"), tmp_path / "cold"
    wanted = {"topics": topic, "to": str(path), "brokers": cluster.bootstrap, "max_offsets_per_trigger": "5"}
    write(cluster.bootstrap, topic, some(10))

    def found_batch(folder: ArchiveFolder, checkpoint: str, batch: int) -> BatchCommit | None:
        # Spark has noted that this batch is to have offsets 5 to 9, and has read none of them.
        if batch == 1:
            delete_topic(cluster.bootstrap, topic)
            wait_topic_nowhere(cluster, topic)
            create_topic(cluster, topic, 1, **{"retention.ms": "-1"})
            write(cluster.bootstrap, topic, some(records))
        return find_batch(folder, checkpoint, batch)

    find_batch = commits.find_batch
    monkeypatch.setattr(commits, "find_batch", found_batch)
    # What looks every few seconds must not be what notices it.
    monkeypatch.setattr(runner, "_IDENTITY_SECONDS", 600.0)
    with pytest.raises(PipelineError, match=f"topic {topic} was deleted and created again"):
        run(spark, tmp_path, "archive", **wanted)
    assert archived_offsets(spark, path, topic) == expected(5)
    assert load_manifest(ArchiveFolder.open(path)).ends() == {(topic, 0): 5}


@pytest.mark.long
def test_a_checkpoint_whose_archive_is_gone_does_not_go_on_in_the_middle(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic, path = new_topic(cluster, "orders"), tmp_path / "cold"
    wanted = {"topics": topic, "to": str(path), "brokers": cluster.bootstrap}
    write(cluster.bootstrap, topic, some(10))
    run(spark, tmp_path, "archive", **wanted)
    path.rename(tmp_path / "moved")
    write(cluster.bootstrap, topic, some(10, 0, 10))
    with pytest.raises(PipelineError, match=r"cold has no record of batch 0, with which .* ended"):
        run(spark, tmp_path, "archive", **wanted)
    shutil.rmtree(path)
    (tmp_path / "moved").rename(path)
    run(spark, tmp_path, "archive", **wanted)
    assert archived_offsets(spark, path, topic) == expected(20)
    shutil.rmtree(path)
    run(spark, tmp_path, "archive", version="2", **wanted)
    assert archived_offsets(spark, path, topic) == expected(20)


@pytest.mark.long
def test_timestamps_far_from_now_and_folders_with_brackets_are_archived_like_all_others(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    any_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    topic, path = new_topic(cluster, "orders", 3, **any_time), tmp_path / "c[o]{l}d"
    # 9999-12-31, the day after it, the year 48101, and 1970.
    times = [253_402_214_400_000, 253_402_300_800_000, 1_455_792_000_000_000, 1]
    write(cluster.bootstrap, topic, [Record(b"k", b"v", at) for at in times])
    wanted = {"topics": topic, "to": str(path), "brokers": cluster.bootstrap, "max_offsets_per_trigger": "2"}
    run(spark, tmp_path, "archive", compact_batches="1", **wanted)
    assert archived_offsets(spark, path, topic) == expected(4)
    folder = ArchiveFolder.open(path)
    days = {file.day for file in load_manifest(folder).files.values()}
    assert {"1970-01-01", "9999-12-31", "+10000-01-01"} < days
    assert verify(spark, folder, Wanted(cluster.bootstrap)).is_whole
    back = new_topic(cluster, "back", 3, **any_time)
    restore(spark, folder, Restore(cluster.bootstrap, topic, back))
    assert [record.timestamp for record in read(cluster.bootstrap, back, 3)] == times


@pytest.mark.long
def test_a_damaged_old_file_is_complained_of_once_and_archiving_goes_on(
    spark: Any, cluster: BrokerCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, path = new_topic(cluster, "orders"), tmp_path / "cold"
    wanted = {"topics": topic, "to": str(path), "brokers": cluster.bootstrap, "max_offsets_per_trigger": "5"}
    write(cluster.bootstrap, topic, some(5))
    run(spark, tmp_path, "archive", **wanted)
    (file,) = load_manifest(ArchiveFolder.open(path)).files.values()
    place = path / file.path
    place.write_bytes(place.read_bytes()[:-20])
    place.with_name(f".{place.name}.crc").unlink(missing_ok=True)
    write(cluster.bootstrap, topic, some(15, 0, 5))
    status, _ = run(spark, tmp_path, "archive", compact_batches="1", **wanted)
    assert status.rows == 15
    assert load_manifest(ArchiveFolder.open(path)).ends() == {(topic, 0): 20}
    assert capsys.readouterr().err.count("files are not joined, and archiving goes on") == 1


@pytest.mark.parametrize("schema", ["", "BIGINT", "struct<id: bigint>", "id BIGINT, ID STRING", "id NUMBER"])
def test_a_schema_that_values_could_not_be_read_with_is_refused_before_the_first_batch(spark: Any, schema: str) -> None:
    check_schema(spark, "id BIGINT, `a name` STRING, inner STRUCT<id: INT>")
    with pytest.raises(PipelineError, match=r"^json\.schema = "):
        check_schema(spark, schema)
