"""`raftka debug log`: what it says of logs, whole and damaged, and that it changes nothing."""

import asyncio
import fcntl
import hashlib
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.groups.records import CommittedOffset, OffsetKey, encode_record
from model.control_batch import NO_PREPARE, Marker, MarkerType, Prepare, encode_marker
from model.ids import DirectoryId, Index, NodeId, Offset, Replica, Term
from model.key_value_batch import encode_key_values
from model.record_batch import TRANSACTIONAL_MASK, BatchProducer, stamp
from raft.configuration_entry import encode_configuration
from raft.group_configuration import GroupConfiguration, Revision
from raftka.broker.dump_log import main
from raftka.broker.offline.data_directory_rows import place_of
from raftka.broker.offline.lock_holder import holder_of
from raftka.broker.offline.log_rows import LogRows, Wanted
from raftka.broker.offline.read_only_files import ReadOnlyFiles
from raftka.broker.offline.row_text import lines_of
from raftka.broker.offline.transaction_rows import marker_row, marker_text
from runtime.files import OsFileSystem
from storage.entry import Entry, EntryKind
from storage.log_start import ORIGIN, LogStart
from storage.placeholder import placeholder
from storage.snapshot_file import Snapshot, snapshot_path
from tests.unit.storage.log_harness import Place, Spec, append, barrier, entries_after, flip

# In a record, and nowhere else.
MARKER = b"a-marker-of-a-record"

Row = dict[str, Any]

ONE, TWO, THREE, FOUR = (Replica(NodeId(node), DirectoryId(each * 32)) for node, each in enumerate("abcd", start=1))
JOINT = GroupConfiguration(((ONE, TWO), (TWO, THREE)), (FOUR,), Revision(0, 41))
JOINT_ROW = {
    "revision": [0, 41],
    "voter_sets": [[[1, "a" * 32], [2, "b" * 32]], [[2, "b" * 32], [3, "c" * 32]]],
    "learners": [[4, "d" * 32]],
}
JOINT_TEXT = "voters 1 (aaaaaaaa),2 (bbbbbbbb) and 2 (bbbbbbbb),3 (cccccccc), learners 4 (dddddddd), revision 0.41"


def make_log(folder: Path, *, count: int = 3) -> Place:
    """Make a log of `count` terms, each a barrier and three batches, all flushed, in several segments."""

    async def scenario() -> Place:
        place = Place(folder)
        async with place.opened() as log:
            for term in range(1, count + 1):
                await append(log, barrier(term), *[Spec(term=term, records=2, timestamp=1000 * term)] * 3)
                await log.flush()
        return place

    return asyncio.run(scenario())


def picture(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    """Return kind, size, time of change and content of everything below a folder."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns, content)
    return found


@pytest.fixture
def dump(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return what runs the program in this process: exit code, stdout, stderr."""

    def run(directory: Path, *options: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dump_log", *options, str(directory)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        before = picture(directory) if directory.is_dir() else None
        code = main()
        assert before is None or picture(directory) == before
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


Dump = Callable[..., tuple[int, str, str]]


def rows_of(dump: Dump, directory: Path, *options: str, code: int = 0) -> list[Row]:
    found, out, err = dump(directory, "--format", "json", *options)
    assert (found, err) == (code, "")
    return [json.loads(line) for line in out.splitlines()]


def of(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["type"] == kind]


def indexes(rows: list[Row]) -> list[int]:
    return [row["index"] for row in of(rows, "entry")]


def test_a_whole_log_is_shown_with_its_segments_entries_and_batches(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    rows = rows_of(dump, place.directory)
    assert indexes(rows) == list(range(1, 13))
    assert [row["file"] for row in of(rows, "segment")] == place.names()
    (log,) = of(rows, "log")
    assert (log["group"], log["data_directory_id"], log["segments"]) == ("0123-7", "here", len(place.names()))
    first, batch = of(rows, "entry")[:2]
    assert (first["kind"], first["records"], "batch" in first) == ("barrier", 0, False)
    assert (batch["kind"], batch["base_offset"], batch["records"], batch["checksum"]) == ("data", 0, 2, "ok")
    wanted = {"base_offset": 0, "records": 2, "codec": "none", "producer_id": -1, "max_timestamp": 1000}
    assert {key: batch["batch"][key] for key in wanted} == wanted
    (end,) = of(rows, "end")
    assert (end["entries"], end["last"], end["damages"]) == (12, 12, 0)
    # An index file says more than the headers: it exists only where its segment was flushed.
    assert end["flushed"] == place.bases()[-1][0] - 1 == 9


def test_positions_are_those_in_the_file(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    spans = place.spans()
    for row in of(rows_of(dump, place.directory), "entry"):
        _, begin, end = spans[row["index"]]
        assert (row["position"], row["bytes"]) == (begin, end - begin)


def test_text_has_a_line_for_each_entry_and_no_record(tmp_path: Path, dump: Dump) -> None:
    async def scenario() -> Path:
        place = Place(tmp_path)
        async with place.opened() as log:
            (entry,) = await append(log, Spec(records=2, size=100))
            assert len(entry.payload) > 100
        return place.directory

    directory = asyncio.run(scenario())
    # In the place of the records' filler: the checksum is wrong then, and nothing of it may be shown either.
    (segment,) = directory.glob("*.log")
    content = bytearray(segment.read_bytes())
    content[-len(MARKER) :] = MARKER
    for change in (False, True):
        if change:
            segment.write_bytes(content)
        for options in ([], ["--format", "json"]):
            code, out, _ = dump(directory, *options)
            assert code == int(change)
            assert MARKER.decode() not in out
    segment.write_bytes(bytes(content))
    _, out, _ = dump(directory)
    assert "wrong record batch checksum" in out
    assert "DAMAGE" in out


def test_a_placeholder_says_for_which_entries_it_stands(tmp_path: Path, dump: Dump) -> None:
    async def scenario() -> Place:
        place = Place(tmp_path)
        async with place.opened() as log:
            one, *removed, last = entries_after(0, 0, [Spec(records=2)] * 6)
            whole = placeholder(
                *(removed[0].index, removed[-1].index, removed[0].term),
                *(removed[0].base_offset, removed[-1].end_offset),
            )
            await log.append([one, whole, last])
            await log.flush()
        return place

    directory = asyncio.run(scenario()).directory
    code, out, _ = dump(directory)
    assert code == 0
    assert "entry 2 term 1 placeholder: " in out
    assert "offsets 2-9, flushed 0, checksum ok; stands for entries 2 to 5\n" in out
    assert indexes(rows_of(dump, directory, "--from", "4")) == [2, 6]
    rows = rows_of(dump, directory)
    assert [row.get("last_index") for row in of(rows, "entry")] == [None, 5, None]
    (end,) = of(rows, "end")
    assert (end["entries"], end["last"], end["damages"]) == (3, 6, 0)


def test_from_and_limit_choose_entries(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    assert indexes(rows_of(dump, place.directory, "--from", "6")) == list(range(6, 13))
    assert indexes(rows_of(dump, place.directory, "--from", "6", "--limit", "3")) == [6, 7, 8]
    assert indexes(rows_of(dump, place.directory, "--limit", "1")) == [1]
    rows = rows_of(dump, place.directory, "--from", "13")
    assert indexes(rows) == []
    # Only the segment in which it could be is read.
    assert [row["file"] for row in of(rows, "segment")] == place.names()[-1:]


def test_every_flipped_bit_of_an_entry_is_damage_and_what_lies_behind_it_is_shown(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path, count=1)
    spans = place.spans()
    path, begin, end = spans[2]
    content = path.read_bytes()
    for position in range(begin, end):
        flip(path, position, position % 8)
        rows = rows_of(dump, place.directory, code=1)
        (damage,) = of(rows, "damage")
        assert (damage["file"], damage["position"]) == (str(path), begin), position
        # Whether its header is whole or not, the next entry is found.
        assert indexes(rows) == [1, 3, 4]
        path.write_bytes(content)


def test_a_damaged_header_costs_its_own_entry_also_with_a_magic_in_the_records(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path, count=1)
    path, begin, end = place.spans()[2]
    content = bytearray(path.read_bytes())
    content[end - 8 : end - 4] = content[begin : begin + 4]
    content[begin + 8] ^= 1
    path.write_bytes(content)
    rows = rows_of(dump, place.directory, code=1)
    assert indexes(rows) == [1, 3, 4]
    assert of(rows, "damage")[0]["bytes"] == end - begin


def test_a_torn_tail_is_damage_above_the_flushed_mark(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    path, begin, end = place.spans()[12]
    os.truncate(path, end - 1)
    rows = rows_of(dump, place.directory, code=1)
    (damage,) = of(rows, "damage")
    assert (damage["position"], damage["index"]) == (begin, 12)
    assert damage["reason"] == "the file ends within an entry"
    assert of(rows, "end")[0]["first_damaged"] == 12
    _, text, _ = dump(place.directory)
    assert "entry 12 is above the flushed mark" in text


def test_damage_at_the_flushed_mark_is_told_as_damage_of_durable_bytes(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    path, begin, _ = place.spans()[8]
    flip(path, begin + 60)
    _, text, _ = dump(place.directory)
    assert "entry 8 is at or below the flushed mark: durable bytes are damaged" in text


def make_random(path: Path) -> None:
    path.write_bytes(random.Random(7).randbytes(20_000))


@pytest.mark.parametrize("make", [make_random, Path.mkdir, os.mkfifo], ids=["random bytes", "directory", "pipe"])
def test_without_a_mark_nothing_is_said_of_durable_bytes(
    make: Callable[[Path], object], tmp_path: Path, dump: Dump
) -> None:
    place = make_log(tmp_path)
    for path in [*place.directory.glob("*.log"), *place.directory.glob("*.index")]:
        path.unlink()
    make(place.directory / "00000000000000000001-1.log")
    (end,) = of(rows_of(dump, place.directory, code=1), "end")
    assert (end["flushed"], end["first_damaged"], end["entries"]) == (None, 1, 0)
    _, text, _ = dump(place.directory)
    assert text.splitlines()[-1] == "no flushed mark could be read: whether durable bytes are damaged is not known"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_a_segment_that_cannot_be_read_may_hold_a_larger_mark(
    make: Callable[[Path], object], tmp_path: Path, dump: Dump
) -> None:
    place = make_log(tmp_path)
    last = place.directory / place.names()[-1]
    last.unlink()
    make(last)
    _, text, _ = dump(place.directory)
    assert "entry 10 is above the flushed mark of what could be read, and a segment could not be read" in text
    assert "a power loss" not in text


def test_a_whole_header_tells_its_mark_although_its_payload_is_damaged(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path, count=1)
    spans = place.spans()
    path, _, end = spans[4]
    for position in (*(spans[index][1] for index in range(1, 4)), end - 1):
        flip(path, position)
    (row,) = of(rows_of(dump, place.directory, code=1), "end")
    assert (row["entries"], row["first_damaged"], row["flushed"]) == (0, 1, 0)


def test_one_byte_is_told_as_one() -> None:
    damage = {"type": "damage", "file": "a.log", "position": 7, "reason": "why", "bytes": 1}
    assert list(lines_of(damage)) == ["DAMAGE a.log, byte 7: why (1 byte is left out)"]
    assert list(lines_of(damage | {"bytes": 2})) == ["DAMAGE a.log, byte 7: why (2 bytes are left out)"]
    blank = {"type": "blank", "position": 7, "bytes": 1}
    assert list(lines_of(blank)) == ["  1 byte from byte 7 on is made ahead and not written yet"]


@pytest.mark.parametrize("options", [("--from", "1"), ("--limit", "3")])
def test_entries_of_a_data_directory_cannot_be_chosen(tmp_path: Path, dump: Dump, options: tuple[str, str]) -> None:
    (tmp_path / "groups").mkdir()
    code, out, err = dump(tmp_path, *options)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "is a data directory: --from and --limit choose entries of one log" in err


def test_zeros_that_were_made_ahead_are_no_damage(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    path, _, end = place.spans()[12]
    os.truncate(path, end + 5000)
    rows = rows_of(dump, place.directory)
    assert of(rows, "blank") == [{"type": "blank", "position": end, "bytes": 5000}]


def test_a_missing_segment_is_damage(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    (first, _), (second, _), *_ = [(base, term) for base, term in place.bases()]
    assert first == 1
    removed = place.directory / place.names()[1]
    last_removed = place.bases()[2][0] - 1
    removed.unlink()
    rows = rows_of(dump, place.directory, code=1)
    (damage,) = of(rows, "damage")
    assert damage["reason"] == f"entries {second} to {last_removed} before it are missing"
    (place.directory / place.names()[0]).unlink()
    assert any(
        "with which the log starts, are missing" in row["reason"]
        for row in of(rows_of(dump, place.directory, code=1), "damage")
    )


def test_whole_entries_that_are_lost_at_the_end_of_a_segment_are_damage(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    spans, last_of_first = place.spans(), place.bases()[1][0] - 1
    path, begin, _ = spans[last_of_first]
    os.truncate(path, begin)
    rows = rows_of(dump, place.directory, code=1)
    words = [row["reason"] for row in of(rows, "damage")]
    assert words == [f"its index file says that it held entries up to {last_of_first}"]


def test_damage_of_the_files_beside_the_segments_is_told(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    index = place.directory / place.names(".index")[0]
    flip(index, 10)
    flip(place.directory / "replica.id", 12)
    Path(snapshot_path(str(place.directory))).write_bytes(b"no snapshot")
    rows = rows_of(dump, place.directory, code=1)
    files = {Path(row["file"]).name for row in of(rows, "damage")}
    assert {"replica.id", "snapshot"} <= files
    assert indexes(rows) == list(range(1, 13))


def test_a_damaged_index_file_is_told(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    index = place.directory / place.names(".index")[0]
    flip(index, 10)
    (damage,) = of(rows_of(dump, place.directory, code=1), "damage")
    assert damage["file"] == str(index)


@pytest.mark.parametrize("configuration", [b"", encode_configuration(JOINT)], ids=["format 1", "in parts"])
def test_a_snapshot_says_where_the_log_starts(tmp_path: Path, dump: Dump, configuration: bytes) -> None:
    async def scenario() -> Place:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, *[Spec(records=2)] * 20)
            await log.flush()
            start = LogStart(Index(15), Offset(28), Offset(29), Term(1))
            log.advance_start(start)
            await log.save_snapshot(Snapshot(start, Index(16), Term(1), b"state", configuration))
        return place

    place = asyncio.run(scenario())
    path = place.directory / "snapshot"
    assert path.read_bytes()[4] == (2 if configuration else 1)
    rows = rows_of(dump, place.directory)
    (snapshot,) = of(rows, "snapshot")
    assert (snapshot["start_index"], snapshot["start_offset"], snapshot["state_bytes"]) == (15, 29, 5)
    assert snapshot["configuration"] == (JOINT_ROW if configuration else None)
    line = f"  configuration of the snapshot: {JOINT_TEXT}"
    assert dump(place.directory)[1].splitlines().count(line) == bool(configuration)
    assert indexes(rows)[-1] == 20
    assert indexes(rows)[0] > 1
    flip(path, path.stat().st_size - 1)
    damage = of(rows_of(dump, place.directory, code=1), "damage")[0]
    flaw = "part 1 of 1: wrong checksum" if configuration else "wrong checksum"
    assert (damage["file"], damage["reason"]) == (str(path), f"{path} is damaged: {flaw}")


def test_members_and_revision_of_a_configuration_are_shown(tmp_path: Path, dump: Dump) -> None:
    async def scenario() -> Place:
        place = Place(tmp_path)
        async with place.opened() as log:
            simple = GroupConfiguration(JOINT.voter_sets[1:], revision=JOINT.revision)
            await append(log, barrier(1))
            for index, each in ((2, JOINT), (3, simple)):
                payload = encode_configuration(each)
                await log.append([Entry(Index(index), Term(1), EntryKind.CONFIGURATION, Offset(0), 0, payload)])
            await log.flush()
        return place

    place = asyncio.run(scenario())
    entries = of(rows_of(dump, place.directory), "entry")
    simple_row = {**JOINT_ROW, "voter_sets": JOINT_ROW["voter_sets"][1:], "learners": []}
    assert [row.get("configuration") for row in entries] == [None, JOINT_ROW, simple_row]
    lines = [line for line in dump(place.directory)[1].splitlines() if " configuration: " in line]
    simple_text = "voters 2 (bbbbbbbb),3 (cccccccc), revision 0.41"
    assert [line.partition("checksum ok; ")[2] for line in lines] == [JOINT_TEXT, simple_text]


def test_a_configuration_that_cannot_be_read_is_damage(tmp_path: Path, dump: Dump) -> None:
    async def scenario() -> Place:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, barrier(1), *[Spec()] * 3)
            await log.flush()
            await log.save_snapshot(Snapshot(ORIGIN, Index(2), Term(1), b"state", b"who"))
        return place

    place = asyncio.run(scenario())
    rows = rows_of(dump, place.directory, code=1)
    (snapshot,) = of(rows, "snapshot")
    assert (snapshot["applied_index"], snapshot["configuration"]) == (2, None)
    (damage,) = of(rows, "damage")
    assert damage["file"].endswith("/snapshot")
    assert damage["reason"].startswith("a configuration cannot be read")


def test_files_that_are_no_part_of_the_log_are_named(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    (place.directory / f"{place.names()[0]}.damaged").write_bytes(b"x")
    (place.directory / "notes").write_bytes(b"x")
    assert [row["file"] for row in of(rows_of(dump, place.directory), "file")] == [
        f"{place.names()[0]}.damaged",
        "notes",
    ]


def test_a_pipe_with_the_name_of_a_segment_is_not_waited_for(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    os.mkfifo(place.directory / "00000000000000000013-9.log")
    (damage,) = of(rows_of(dump, place.directory, code=1), "damage")
    assert "not a regular file" in damage["reason"]


def test_a_segment_that_vanishes_while_the_log_is_read_is_one_line(tmp_path: Path) -> None:
    place = make_log(tmp_path)
    log = LogRows(ReadOnlyFiles(), str(place.directory), None, Wanted())
    rows = log.rows()
    found = [next(rows)]
    (place.directory / place.names()[-1]).unlink()
    found += list(rows)
    (damage,) = of(found, "damage")
    assert "No such file or directory" in damage["reason"]
    assert log.damages == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.write_text("x"), "Not a directory"),
        (lambda path: path.mkdir(), "neither a log directory nor a data directory"),
    ],
)
def test_a_bad_directory_is_one_line(tmp_path: Path, dump: Dump, make: Callable[[Path], object], words: str) -> None:
    path = tmp_path / "it"
    make(path)
    code, out, err = dump(path)
    assert (code, out) == (1, "")
    assert err.startswith(f"raftka: {path} ")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_directory_of_another_user_is_one_line(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    place.directory.chmod(0o700)
    os.seteuid(65534)
    try:
        with pytest.raises(PermissionError):
            place_of(ReadOnlyFiles(), str(place.directory))
    finally:
        os.seteuid(0)


def test_a_held_data_directory_is_refused_with_the_pid_of_its_holder(tmp_path: Path, dump: Dump) -> None:
    place = make_log(tmp_path)
    assert holder_of(str(tmp_path)) is None
    lock = OsFileSystem().lock(f"{tmp_path}/lock")
    try:
        for directory in (tmp_path, place.directory):
            code, out, err = dump(directory)
            assert (code, out) == (1, "")
            assert err == (
                f"raftka: {tmp_path} is in use by pid {os.getpid()}: stop that broker, or read a copy of the directory\n"
            )
    finally:
        lock.release()
    assert holder_of(str(tmp_path)) is None
    assert dump(place.directory)[0] == 0


def test_a_data_directory_that_is_taken_while_it_is_read_is_told(
    tmp_path: Path, dump: Dump, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make_log(tmp_path)
    (tmp_path / "lock").touch()
    taken = []
    rows = LogRows.rows

    def then_taken(self: LogRows):
        yield from rows(self)
        taken.append(OsFileSystem().lock(f"{tmp_path}/lock"))

    monkeypatch.setattr(LogRows, "rows", then_taken)
    code, out, err = dump(place.directory)
    taken[0].release()
    assert code == 1
    assert "no damage" in out
    assert "it was taken meanwhile" in err


def test_a_reader_leaves_the_lock_free(tmp_path: Path) -> None:
    make_log(tmp_path)
    lock = OsFileSystem().lock(f"{tmp_path}/lock")
    lock.release()
    assert holder_of(str(tmp_path)) is None
    with (tmp_path / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_data_directory_lists_its_logs_and_what_is_wrong_with_one(tmp_path: Path, dump: Dump) -> None:
    make_log(tmp_path)
    rows = rows_of(dump, tmp_path)
    assert [(row["type"], row["group"], row["name"], row["flaw"]) for row in rows] == [("group", "0123-7", None, None)]
    (tmp_path / "groups" / "other-1").mkdir()
    rows = rows_of(dump, tmp_path, code=1)
    assert [row["flaw"] is None for row in rows] == [True, False]
    code, text, _ = dump(tmp_path)
    assert (code, len(text.splitlines())) == (1, 3)


@pytest.mark.parametrize("call", ["mkdir", "unlink", "rmdir", "fsync_dir", "lock"])
def test_the_file_system_of_the_reader_changes_nothing(tmp_path: Path, call: str) -> None:
    path = tmp_path / "it"
    with pytest.raises(OSError, match="Read-only file system"):
        getattr(ReadOnlyFiles(), call)(str(path))
    with pytest.raises(OSError, match="Read-only file system"):
        ReadOnlyFiles().open(str(path), create=True)
    with pytest.raises(OSError, match="Read-only file system"):
        ReadOnlyFiles().rename(str(path), str(path))
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_the_reader_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(b"as it was")
    file = ReadOnlyFiles().open(str(tmp_path / "it"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pwritev([b"changed"], 0)
    with pytest.raises(OSError, match="Invalid argument"):
        file.truncate(0)
    file.close()
    assert (tmp_path / "it").read_bytes() == b"as it was"


# -- transactions -------------------------------------------------------------------------------------------------


def test_a_marker_says_what_it_ends_and_which_decision_it_carries() -> None:
    marker = Marker(7, 2, MarkerType.ABORT, 5, 40, Prepare(3, 9))
    row = marker_row(encode_marker(marker, 0))
    assert row == {"type": "abort", "coordinator_epoch": 5, "first_offset": 40, "decision": [3, 9]}
    assert marker_text(row) == "ABORT of what begins at offset 40, decision 3.9"
    asked = marker_row(encode_marker(marker._replace(prepare=NO_PREPARE), 0))
    assert marker_text(asked) == "ABORT of what begins at offset 40, asked for by an administrator"


def _offsets_log(folder: Path, state: bytes) -> Place:
    async def scenario() -> Place:
        place = Place(folder)
        producer = BatchProducer(7, 0, TRANSACTIONAL_MASK)
        pending = encode_record(OffsetKey("g", "t", 0), CommittedOffset(5, -1, "", 0))
        end = Marker(7, 0, MarkerType.COMMIT, 5, 0, Prepare(3, 9))
        async with place.opened() as log:
            for index, batch in enumerate([encode_key_values([pending], 0, producer), encode_marker(end, 0)]):
                stamp(batch, index, 1)
                entry = Entry(Index(index + 1), Term(1), EntryKind.DATA, Offset(index), 1, bytes(batch))
                await log.append([entry])
            await log.flush()
            await log.save_snapshot(Snapshot(ORIGIN, Index(1), Term(1), state))
        return place

    return asyncio.run(scenario())


def test_a_log_of_offsets_shows_what_is_pending_and_what_ended_it(tmp_path: Path) -> None:
    state = OffsetsLogState()
    record = encode_record(OffsetKey("g", "t", 0), CommittedOffset(5, -1, "", 0))
    batch = encode_key_values([record], 0, BatchProducer(7, 0, TRANSACTIONAL_MASK))
    state.note(Entry(Index(1), Term(1), EntryKind.DATA, Offset(0), 1, bytes(batch)))
    state.commit(Index(1))
    place = _offsets_log(tmp_path, b"".join(state.snapshot()))
    directory = str(place.directory)
    rows = list(LogRows(ReadOnlyFiles(), directory, "__consumer_offsets-3", Wanted()).rows())
    (snapshot,) = [row for row in rows if row["type"] == "snapshot"]
    assert snapshot["pending_offsets"] == [{"producer_id": 7, "offsets": 1}]
    assert "  1 offset pending in a transaction of producer 7" in list(lines_of(snapshot))
    first, second = ["".join(lines_of(row)) for row in rows if row["type"] == "entry"]
    assert first.endswith("producer 7 epoch 0 sequence -1, part of a transaction")
    assert second.endswith("COMMIT of what begins at offset 0, decision 3.9")
    assert rows[-1]["damages"] == 0
    # Of a log whose topic is not known, nothing is said of its state.
    rows = list(LogRows(ReadOnlyFiles(), directory, None, Wanted()).rows())
    assert [row["pending_offsets"] for row in rows if row["type"] == "snapshot"] == [None]


def test_a_state_of_groups_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    place = _offsets_log(tmp_path, b"\x09")
    log = LogRows(ReadOnlyFiles(), str(place.directory), "__consumer_offsets-3", Wanted())
    damages = [row for row in log.rows() if row["type"] == "damage"]
    assert [each["reason"] for each in damages] == ["group state of format 9, this version reads up to 2"]
