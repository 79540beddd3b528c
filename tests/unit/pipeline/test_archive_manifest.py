"""What the records of an archive come to, and which files are joined."""

from pathlib import Path

import msgspec
import pytest

from raftka.pipeline.archive import commits
from raftka.pipeline.archive.compaction_plan import plan
from raftka.pipeline.archive.manifest import (
    gather,
    joined,
    load_manifest,
    place_of,
    refuse_former,
    refuse_overlap,
    unknown_files,
)
from raftka.pipeline.archive.records import (
    ArchivedTopic,
    BatchCommit,
    CompactionCommit,
    decode_commit,
    encode_commit,
    is_record,
)
from raftka.pipeline.errors import PipelineError
from tests.unit.pipeline.archives import CHECKPOINT, archived_file, new_archive, offset_range, staged_batch

A, B, C = (archived_file(f"s/{name}", f"topic=orders/day=2026-01-01/{name}.parquet") for name in "abc")


def batch(number: int, *ranges: tuple[int, int], files: list[object] | None = None) -> BatchCommit:
    return BatchCommit(
        checkpoint=CHECKPOINT, batch=number, files=files or [], ranges=[offset_range(*each) for each in ranges]
    )


def test_records_are_read_as_they_were_written() -> None:
    for record in (batch(3, (0, 10), files=[A]), CompactionCommit(number=7, files=[B], replaces=[A.path])):
        assert decode_commit(encode_commit(record)) == record
        assert is_record(record.name)
    assert not is_record(".b0000000003-0123abcd.json.new")


def test_a_record_of_an_older_release_knows_nothing_of_topics() -> None:
    old = b'{"type":"batch","checkpoint":"0123abcd-0000","batch":0,"files":[],"ranges":[],"dead_letters":0}'
    record = decode_commit(old)
    assert isinstance(record, BatchCommit)
    assert record.topics == {}


def test_what_records_know_of_topics_is_joined_and_the_first_begin_counts() -> None:
    one = {"orders": ArchivedTopic(id=None, begins={0: 0, 2: 5})}
    other = {"orders": ArchivedTopic(id="abc", begins={0: 20, 1: 7}), "more": ArchivedTopic()}
    both = {"orders": ArchivedTopic(id="abc", begins={0: 0, 1: 7, 2: 5}), "more": ArchivedTopic()}
    assert joined(one, other) == both
    records = [batch(0, (0, 20)), batch(1, (20, 30))]
    manifest = gather(
        msgspec.structs.replace(each, topics=topics) for each, topics in zip(records, (one, other), strict=True)
    )
    assert manifest.known == both
    assert manifest.begins() == {("orders", 0): 0, ("orders", 1): 7, ("orders", 2): 5}
    assert (manifest.partitions_of("orders"), manifest.partitions_of("more")) == (3, 0)
    assert gather(records).partitions_of("orders") == 1


def test_a_topic_with_another_id_than_the_archived_one_is_refused_and_one_without_is_not(tmp_path: Path) -> None:
    known = {"orders": ArchivedTopic(id="abc"), "old": ArchivedTopic()}
    refuse_former(tmp_path, known, {"orders": "abc", "old": "x", "new": "y"})
    refuse_former(tmp_path, known, {})
    with pytest.raises(
        PipelineError, match=r"topic orders was deleted and created again .*another folder \(`to`\) is needed"
    ):
        refuse_former(tmp_path, known, {"orders": "abd"})


def test_ranges_are_in_order_whatever_the_names_of_records_say() -> None:
    manifest = gather([batch(0, (20, 30)), batch(1, (0, 20, 15))])
    assert [(each.begin, each.end) for each in manifest.ranges["orders", 0]] == [(0, 20), (20, 30)]
    assert manifest.rows(("orders", 0)) == 25
    assert manifest.ends() == {("orders", 0): 30}


def test_two_batches_with_the_same_offsets_contradict_each_other() -> None:
    with pytest.raises(PipelineError, match="two batches have read orders-0: offsets 0 to 19 and 19 to 29"):
        gather([batch(0, (0, 20)), batch(1, (19, 30))])


def test_a_batch_that_begins_before_the_archives_end_is_refused() -> None:
    ends = gather([batch(0, (0, 20))]).ends()
    refuse_overlap(ends, [offset_range(20, 30), offset_range(0, 5, partition=1)])
    with pytest.raises(
        PipelineError, match="has orders-0 up to offset 19, and this batch begins at 19: its checkpoint"
    ):
        refuse_overlap(ends, [offset_range(19, 30)])


def test_what_a_compaction_replaces_counts_no_longer_and_must_have_been_there() -> None:
    first = CompactionCommit(number=0, files=[B], replaces=[A.path])
    second = CompactionCommit(number=1, files=[C], replaces=[B.path])
    manifest = gather([second, first, batch(0, (0, 10), files=[A])])
    assert list(manifest.files) == [C.path]
    assert manifest.compactions == 2
    with pytest.raises(
        PipelineError, match=r"record c0000000000.json replaces .*/a.parquet, which no earlier record has"
    ):
        gather([first])


def test_a_file_counts_where_it_lies_and_strangers_and_losses_are_named(tmp_path: Path) -> None:
    folder = new_archive(tmp_path)
    record = staged_batch(folder, 0)
    commits.commit(folder, record)
    manifest = load_manifest(folder)
    file = manifest.files_of("orders")[0]
    assert place_of(folder, file) == folder.staging / file.staged
    commits.settle(folder, record)
    assert place_of(folder, file) == folder.path / file.path
    assert unknown_files(folder, manifest) == []
    place_of(folder, file).rename(folder.path / "topic=orders" / "day=2026-01-01" / "stranger.parquet")
    assert unknown_files(folder, manifest) == ["topic=orders/day=2026-01-01/stranger.parquet"]
    with pytest.raises(PipelineError, match="is gone: a record has it, with 10 records of orders"):
        place_of(folder, file)


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = new_archive(tmp_path)
    (folder.commits / "b0000000000-0123abcd.json").write_text("{")
    with pytest.raises(PipelineError, match=r"b0000000000-0123abcd\.json: "):
        load_manifest(folder)


def sized(name: str, size: int, first: int, day: str = "2026-01-01") -> object:
    return archived_file(name, name, first=first, size=size, day=day)


def planned(*files: object, target: int = 100) -> list[list[str]]:
    return [[file.path for file in group] for group in plan(files, target)]  # type: ignore[arg-type]


def test_small_files_of_one_day_are_joined_in_order_of_offsets_up_to_the_target() -> None:
    assert planned(sized("b", 40, 10), sized("a", 40, 0), sized("c", 40, 20), sized("d", 40, 30)) == [
        ["a", "b"],
        ["c", "d"],
    ]


def test_what_is_large_or_alone_stays_as_it_is() -> None:
    assert planned(sized("a", 50, 0), sized("b", 10, 10)) == []
    assert planned(sized("a", 10, 0), sized("b", 10, 10, "2026-01-02")) == []
    assert planned() == []
