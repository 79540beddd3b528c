"""A log's directory knows whose it is, and is refused by anybody else."""

import asyncio
import errno
from pathlib import Path

import crc32c
import pytest
from log_harness import IDENTITY, Disk, Place, Spec, append, everything, flip, plain, steps

from model.ids import DirectoryId, GroupId, Index
from runtime.workers import Pool
from storage.errors import ForeignDirectoryError, LogPoisonedError, MismatchedLogError, StorageError
from storage.log_directory import (
    claim_log_directory,
    discard_log_directory,
    make_log_directory,
    require_log_directory,
)
from storage.options import LogIdentity


def test_a_directory_is_made_once_and_known_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened():
            before = place.content()
            assert list(before) == ["replica.id"]
        async with place.opened():
            assert place.content() == before

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "stranger",
    [LogIdentity(GroupId("9999-0"), IDENTITY.directory_id), LogIdentity(IDENTITY.group, DirectoryId("elsewhere"))],
)
def test_another_group_and_another_data_directory_are_refused_by_name(tmp_path: Path, stranger: LogIdentity) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, Spec())
        before = place.content()
        with pytest.raises(ForeignDirectoryError, match="belongs to group 0123-7 of data directory here"):
            await place.open(stranger)
        assert place.content() == before

    asyncio.run(scenario())


def test_every_flipped_bit_and_every_cut_of_the_identity_is_refused(tmp_path: Path) -> None:
    disk, directory = Disk(), tmp_path / "g"
    claim_log_directory(disk, str(directory), IDENTITY)
    path = directory / "replica.id"
    content = path.read_bytes()
    for position in range(len(content) - 1):  # The last byte is a line feed.
        for bit in range(8):
            flip(path, position, bit)
            if path.read_bytes().lower() != content.lower():  # A checksum may be in capitals.
                with pytest.raises(ForeignDirectoryError):
                    claim_log_directory(disk, str(directory), IDENTITY)
            path.write_bytes(content)
        path.write_bytes(content[:position])
        with pytest.raises(ForeignDirectoryError):
            claim_log_directory(disk, str(directory), IDENTITY)
        path.write_bytes(content)
    claim_log_directory(disk, str(directory), IDENTITY)
    assert disk.opened == {}


def test_an_unknown_format_is_refused_by_name(tmp_path: Path) -> None:
    claim_log_directory(Disk(), str(tmp_path / "g"), IDENTITY)
    path = tmp_path / "g" / "replica.id"
    body = path.read_bytes().rstrip(b"\n")[9:].replace(b'"format_version":1', b'"format_version":2')
    path.write_bytes(b"%08x %s\n" % (crc32c.crc32c(body), body))
    with pytest.raises(ForeignDirectoryError, match="has format 2, this version reads 1"):
        claim_log_directory(Disk(), str(tmp_path / "g"), IDENTITY)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b'{"format_version":1,"group":7,"directory_id":"here"}',
        b'{"format_version":1,"group":"0123-7\xff","directory_id":"here"}',
        b'{"format_version":1e999,"group":"0123-7","directory_id":"here"}',
    ],
)
def test_an_identity_that_is_no_record_is_refused_by_name_even_with_a_right_checksum(
    tmp_path: Path, body: bytes
) -> None:
    disk, directory = Disk(), str(tmp_path / "g")
    claim_log_directory(disk, directory, IDENTITY)
    (tmp_path / "g" / "replica.id").write_bytes(b"%08x %s\n" % (crc32c.crc32c(body), body))
    for job in (claim_log_directory, make_log_directory, require_log_directory, discard_log_directory):
        with pytest.raises(ForeignDirectoryError, match=r"replica\.id is damaged"):
            job(disk, directory, IDENTITY)
    assert [path.name for path in (tmp_path / "g").iterdir()] == ["replica.id"]
    assert disk.opened == {}


def test_a_required_directory_is_never_made(tmp_path: Path) -> None:
    directory = tmp_path / "groups" / "g"
    with pytest.raises(MismatchedLogError, match=r"replica\.id is missing"):
        require_log_directory(Disk(), str(directory), IDENTITY)
    assert not directory.parent.exists()
    # Nor are the directories above a new one.
    with pytest.raises(FileNotFoundError):
        make_log_directory(Disk(), str(directory), IDENTITY)
    assert not directory.parent.exists()
    directory.parent.mkdir()
    make_log_directory(Disk(), str(directory), IDENTITY)
    require_log_directory(Disk(), str(directory), IDENTITY)


def test_a_directory_is_made_durable_up_to_the_data_directory_even_if_an_earlier_try_made_it(tmp_path: Path) -> None:
    disk, directory = Disk(), str(tmp_path / "groups" / "g")
    (tmp_path / "groups").mkdir()
    disk.fail("fsync_dir", "groups")
    with pytest.raises(OSError, match="Input/output"):
        make_log_directory(disk, directory, IDENTITY)
    disk.calls.clear()
    make_log_directory(disk, directory, IDENTITY)
    synced = [name for call, name in disk.calls if call == "fsync_dir"]
    assert synced == ["g", "groups", tmp_path.name]
    # Made again as a whole: what is there may be the pages of a failed fsync.
    disk.calls.clear()
    make_log_directory(disk, directory, IDENTITY)
    assert [call for call, _ in disk.calls if call in ("create", "fsync", "rename", "fsync_dir")] == [
        "create",
        "fsync",
        "rename",
        *["fsync_dir"] * 3,
    ]


def test_a_directory_that_holds_entries_is_not_made_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, Spec())
        before = place.content()
        with pytest.raises(MismatchedLogError, match="but the kvstore does not know"):
            make_log_directory(place.disk, str(place.directory), IDENTITY)
        assert place.content() == before

    asyncio.run(scenario())


def test_a_damaged_log_is_discarded_if_its_identity_is_ours(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            await append(log, *[Spec()] * 5)
        flip(place.directory / place.names()[0], 60)
        stranger = LogIdentity(IDENTITY.group, DirectoryId("elsewhere"))
        before = place.content()
        with pytest.raises(ForeignDirectoryError):
            discard_log_directory(place.disk, str(place.directory), stranger)
        assert place.content() == before
        for _ in range(2):
            discard_log_directory(place.disk, str(place.directory), IDENTITY)
            assert not place.directory.exists()

    asyncio.run(scenario())


def test_files_without_an_identity_are_refused_and_an_unfinished_identity_is_not(tmp_path: Path) -> None:
    directory = tmp_path / "g"
    directory.mkdir()
    (directory / "replica.id.tmp").write_bytes(b"half")
    claim_log_directory(Disk(), str(directory), IDENTITY)
    assert [path.name for path in directory.iterdir()] == ["replica.id"]

    foreign = tmp_path / "f"
    foreign.mkdir()
    (foreign / "00000000000000000001-1.log").write_bytes(b"")
    with pytest.raises(ForeignDirectoryError, match=r"holds 00000000000000000001-1\.log but no replica\.id"):
        claim_log_directory(Disk(), str(foreign), IDENTITY)


def test_a_removed_log_leaves_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        log = await place.open()
        await append(log, *[Spec()] * 5)
        await log.flush()
        await log.remove()
        assert not place.directory.exists()
        assert place.disk.opened == {}
        async with place.opened() as log:
            assert log.dirty_index == 0

    asyncio.run(scenario())


def test_a_removal_waits_for_the_index_file_that_is_being_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        log = await place.open()
        await append(log, *[Spec()] * 9)
        place.workers.hold(Pool.APPEND)
        await log.flush()
        await steps()
        removal = asyncio.get_running_loop().create_task(log.remove())
        await steps()
        with pytest.raises(StorageError, match="closed"):
            await log.read(Index(1), 1)
        assert place.directory.exists()
        place.workers.release(Pool.APPEND)
        await removal
        assert not place.directory.exists()

    asyncio.run(scenario())


def test_a_removal_that_fails_half_way_leaves_a_directory_that_is_known_by_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        log = await place.open()
        written = await append(log, *[Spec()] * 5)
        await log.flush()
        place.disk.fail("unlink", "0001-1.log", errno.EIO)
        with pytest.raises(LogPoisonedError, match="cannot be removed"):
            await log.remove()
        assert place.names(".id") == ["replica.id"]
        log = await place.open()
        assert await everything(log) == plain(written[: log.dirty_index])
        await log.remove()
        assert not place.directory.exists()

    asyncio.run(scenario())


@pytest.mark.parametrize("call", ["create", "open", "pread", "fsync", "fsync_dir", "truncate", "pwritev", "unlink"])
def test_a_disk_that_refuses_at_open_is_a_named_error_and_leaves_nothing_open(tmp_path: Path, call: str) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        log = await place.open()
        await append(log, *[Spec()] * 5)
        await place.crash(log)
        with (place.directory / place.names()[-1]).open("ab") as file:
            file.write(b"torn")
        (place.directory / "x.index.tmp").write_bytes(b"")
        if call == "create":
            (place.directory / "replica.id").unlink()
            for path in list(place.directory.iterdir()):
                path.unlink()
        place.disk.calls.clear()
        place.disk.fail(call, "", errno.EIO)
        with pytest.raises(LogPoisonedError):
            await place.open()
        assert place.disk.opened == {}
        async with place.opened() as log:
            assert log.dirty_index == (0 if call == "create" else 5)
            assert log.end_offset(Index(0)) == 0

    asyncio.run(scenario())
