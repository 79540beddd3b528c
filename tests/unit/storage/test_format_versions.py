"""What a newer version wrote is refused by name and left as it is; an index file of another version is scanned around."""

import asyncio
from pathlib import Path

import crc32c
import msgspec
import pytest
from log_harness import Place, Spec, append, barrier, plain, steps

from model.ids import Index, Offset, Term
from storage.entry import HEADER, HEADER_CRC, Entry, pack_header, parse_entry
from storage.errors import ForeignDirectoryError, UnknownFormatError
from storage.log_start import LogStart
from storage.snapshot_file import Snapshot

_KIND_POSITION = 24
_FORMAT_POSITION = 25


async def filled(place: Place) -> list[Entry]:
    log = await place.open()
    written = await append(log, barrier(1), *[Spec(size=60)] * 5)
    await log.flush()
    await steps(50)
    start = LogStart(Index(2), Offset(0), Offset(0), Term(1))
    log.advance_start(start)
    await log.save_snapshot(Snapshot(start, Index(3), Term(1), b"state"))
    await log.close()
    return written


def sealed(header: bytearray) -> bytes:
    """The header with its checksum made right again; of an entry that is not data."""
    return bytes(header[: HEADER.size]) + HEADER_CRC.pack(crc32c.crc32c(bytes(header[: HEADER.size])))


def of_the_future(position: int, value: int, index: int = 7) -> bytes:
    entry = Entry(Index(index), Term(1), barrier_kind(), Offset(5), 0, b"")
    header = bytearray(pack_header(entry, Index(0)))
    header[position] = value
    return sealed(header)


def barrier_kind():
    return barrier(1).kind


async def refused(place: Place, match: str, error: type[Exception] = UnknownFormatError) -> None:
    before = place.content()
    for isolate in (False, True):
        with pytest.raises(error, match=match):
            await place.open(isolate=isolate)
    assert place.content() == before
    assert place.disk.opened == {}


@pytest.mark.parametrize(("position", "value"), [(_FORMAT_POSITION, 2), (_KIND_POSITION, 77)])
def test_an_entry_of_an_unknown_format_or_kind_is_refused_and_not_cut(
    tmp_path: Path, position: int, value: int
) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        await filled(place)
        last = place.directory / place.names()[-1]
        last.write_bytes(last.read_bytes() + of_the_future(position, value))
        await refused(place, rf"{last.name}.*format .*this version reads format 1, kinds 1 to 6")

    asyncio.run(scenario())


def test_an_entry_of_an_unknown_format_from_a_peer_is_a_corrupt_entry() -> None:
    with pytest.raises(UnknownFormatError, match="entry 7 has format 9"):
        parse_entry(memoryview(of_the_future(_FORMAT_POSITION, 9)), 0)


def test_a_snapshot_of_an_unknown_format_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        await filled(place)
        covered = bytes([3]) + b"whatever a newer version puts here"
        (place.directory / "snapshot").write_bytes(crc32c.crc32c(covered).to_bytes(4, "big") + covered)
        await refused(place, "snapshot has format 3, this version reads 1 and 2")

    asyncio.run(scenario())


def test_a_snapshot_whose_header_has_an_unknown_field_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        await filled(place)
        facts = {"start": [2, 0, 0, 1], "applied_index": 3, "applied_term": 1, "parts": 0, "state_bytes": 0}
        header = msgspec.msgpack.encode({**facts, "compacted_below": 2})
        mark = bytes([2]) + len(header).to_bytes(4, "big")
        covered = mark + crc32c.crc32c(mark + header).to_bytes(4, "big") + header
        (place.directory / "snapshot").write_bytes(crc32c.crc32c(covered).to_bytes(4, "big") + covered)
        await refused(place, "snapshot has the header field 'compacted_below', which this version does not know")

    asyncio.run(scenario())


def test_an_identity_of_an_unknown_format_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        await filled(place)
        body = b'{"format_version":2,"group":"0123-7","directory_id":"here"}'
        (place.directory / "replica.id").write_bytes(f"{crc32c.crc32c(body):08x} ".encode() + body + b"\n")
        await refused(place, r"replica\.id has format 2, this version reads 1", ForeignDirectoryError)

    asyncio.run(scenario())


@pytest.mark.parametrize("version", [1, 4])
def test_an_index_file_of_an_unknown_format_is_scanned_around_and_written_again(tmp_path: Path, version: int) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        written = await filled(place)
        name = place.names(".index")[0]
        path = place.directory / name
        good = path.read_bytes()
        body = msgspec.msgpack.encode([version, *msgspec.msgpack.decode(good[4:])[1:]])
        path.write_bytes(crc32c.crc32c(body).to_bytes(4, "big") + body)
        async with place.opened() as log:
            assert plain(await log.read(Index(2), 1 << 20)) == plain(written[1:])
            await steps(50)
        # Without rows of aborted transactions.
        assert msgspec.msgpack.decode(path.read_bytes()[4:])[0] == 2

    asyncio.run(scenario())
