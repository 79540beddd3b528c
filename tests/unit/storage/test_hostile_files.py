"""Files that hold anything at all: a named error, or what they say; never another exception. See tests/fuzz, too."""

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path

import crc32c
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from log_harness import IDENTITY, Place, append, barrier, everything

from model.ids import GroupId, Index, Offset, Term
from storage.entry import parse_entries, parse_mark
from storage.errors import CorruptEntryError, CorruptLogError, StorageError
from storage.index_file import FORMAT_VERSION, IndexRecord, decode_index
from storage.log_start import LogStart, decode_log_start
from storage.segment import segment_name
from storage.snapshot_file import Snapshot, decode_snapshot, encode_snapshot

PATH = "/d/snapshot"
WHOLE = encode_snapshot(Snapshot(LogStart(Index(7), Offset(3), Offset(4), Term(2)), Index(9), Term(3), b"state" * 9))
# What msgpack can say, nested a little.
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=20,
)


def sealed(body: bytes) -> bytes:
    """Return the body behind a right checksum."""
    return crc32c.crc32c(body).to_bytes(4, "big") + body


@given(VALUES)
def test_any_value_is_a_snapshot_or_a_named_error(value: object) -> None:
    with suppress(StorageError):
        assert decode_snapshot(sealed(b"\x01" + msgspec.msgpack.encode(value)), PATH).flaw() is None


@given(st.lists(st.integers(-2, 12), min_size=4, max_size=4), st.integers(-2, 12), st.integers(-2, 12))
def test_a_snapshot_of_numbers_that_do_not_fit_together_is_refused(start: list[int], index: int, term: int) -> None:
    with suppress(CorruptLogError):
        found = decode_snapshot(sealed(b"\x01" + msgspec.msgpack.encode([start, index, term, b""])), PATH)
        assert found.start.index >= 1
        assert 0 <= found.start.base_offset <= found.start.offset
        assert found.applied_index >= found.start.prev_index
        assert found.applied_term >= found.start.prev_term >= 0


def test_every_flipped_bit_and_every_cut_of_a_snapshot_is_refused_by_name() -> None:
    assert decode_snapshot(WHOLE, PATH).state == b"state" * 9
    for position in range(len(WHOLE)):
        damaged = bytearray(WHOLE)
        damaged[position] ^= 1 << position % 8
        for content in (bytes(damaged), WHOLE[:position]):
            with pytest.raises(CorruptLogError, match=f"{PATH} is damaged"):
                decode_snapshot(content, PATH)


# A text that is not UTF-8 is another kind of error than a wrong type.
@example(b"\xdd\0\0\0\x0f\0\xa2\0\x80", True)
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_an_index_file_or_none(data: bytes, is_sealed: bool) -> None:
    found = decode_index(sealed(data) if is_sealed else data, GroupId("g"), 7)
    assert found is None or found.base_index == 7


@given(st.lists(VALUES, min_size=12, max_size=12))
def test_any_values_behind_a_right_head_are_an_index_file_or_none(values: list[object]) -> None:
    head = [FORMAT_VERSION, "g", 7]
    found = decode_index(sealed(msgspec.msgpack.encode(head + values)), GroupId("g"), 7)
    assert found is None or isinstance(found, IndexRecord)


@given(VALUES, st.binary(max_size=40), st.booleans())
def test_any_payload_is_a_log_start_or_a_named_error(value: object, data: bytes, is_value: bool) -> None:
    with suppress(CorruptEntryError):
        payload = msgspec.msgpack.encode([1, value]) if is_value else data
        assert decode_log_start(payload).flaw() is None


@given(st.binary(max_size=300))
def test_any_bytes_are_entries_or_a_named_error(data: bytes) -> None:
    view = memoryview(data)
    with suppress(CorruptEntryError):
        assert sum(1 for _ in parse_entries(view)) <= len(data)
    assert all(parse_mark(view, position) is None for position in range(len(data)))


NAMES = st.sampled_from([segment_name(1, 1), segment_name(1, 2), segment_name(3, 1), segment_name(9, 4)])
SUFFIXES = st.sampled_from(["", ".tmp", ".damaged"])
FILES = st.dictionaries(
    st.builds(str.__add__, NAMES | NAMES.map(lambda name: name[:-4] + ".index") | st.just("snapshot"), SUFFIXES),
    st.binary(max_size=200),
    max_size=4,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(FILES, st.booleans(), st.integers(0, 400))
def test_a_directory_of_anything_opens_or_is_refused_by_name(
    files: dict[str, bytes], is_behind: bool, cut: int
) -> None:
    """The bytes stand alone, or behind the first part of real entries."""

    async def test(folder: str) -> None:
        place = Place(Path(folder))
        log = await place.open(IDENTITY)
        await append(log, *[barrier(1)] * 6)
        await log.close()
        for name, data in files.items():
            path = place.directory / name
            kept = path.read_bytes()[:cut] if is_behind and path.exists() else b""
            path.write_bytes(kept + data)
        with suppress(StorageError):
            log = await place.open(IDENTITY)
            with suppress(StorageError):
                assert len(await everything(log)) <= 6
            await log.close()
        assert place.disk.opened == {}, "a file was left open"

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(test(folder))
