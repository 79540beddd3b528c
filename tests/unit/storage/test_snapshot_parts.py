"""Format 2 of a snapshot file: whatever is damaged is found and named; a write that is cut short changes nothing."""

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import crc32c
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_hostile_files import VALUES
from test_log_crash_points import DIRECTORY, Life, new_disk

from model.ids import Index, Offset, Term
from runtime.environment import system_environment
from runtime.files import OsFile
from storage import snapshot_file, snapshot_parts
from storage.errors import CorruptLogError, DiskFullError, StorageError, UnknownFormatError
from storage.log_start import LogStart
from storage.snapshot_file import (
    STATE_BYTES_MAX,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
    snapshot_checksum,
    write_snapshot,
)
from storage.snapshot_parts import PART_BYTES_MAX, SnapshotHeader, read_parts
from tests.simulation.world.sim_disk import SimFile

START = LogStart(Index(7), Offset(9), Offset(11), Term(3))
PART = 16
# Parts of 16, 16, 16 and 5 bytes.
SNAPSHOT = Snapshot(START, Index(9), Term(4), bytes(range(53)), b"who")
WHOLE = encode_snapshot(SNAPSHOT, PART)
HEAD_BYTES = 12
NEAR_BOUNDS = [
    part * PART_BYTES_MAX + more for part in range(4) for more in (-1, 0, 1) if part * PART_BYTES_MAX + more >= 0
]


def resealed(covered: bytes) -> bytes:
    """The file with a right checksum of the whole."""
    return crc32c.crc32c(covered).to_bytes(4, "big") + covered


def with_header(fields: dict[str, object]) -> bytes:
    """A file without parts that has this header, and right checksums."""
    content = msgspec.msgpack.encode(fields)
    mark = b"\x02" + len(content).to_bytes(4, "big")
    return resealed(mark + crc32c.crc32c(mark + content).to_bytes(4, "big") + content)


def pieces(content: bytes) -> list[bytes]:
    """The first field, what belongs to the header, and each part of a file."""
    found = [content[:4], content[4 : 13 + int.from_bytes(content[5:9], "big")]]
    position = sum(map(len, found))
    while position < len(content):
        size = HEAD_BYTES + int.from_bytes(content[position + 4 : position + 8], "big")
        found.append(content[position : position + size])
        position += size
    return found


def name_at(position: int) -> str:
    """How an error names what lies at a byte of WHOLE."""
    ends = 0
    parts = pieces(WHOLE)
    for number, piece in enumerate(parts):
        ends += len(piece)
        if position < ends:
            return ("whole", "header")[number] if number < 2 else f"part {number - 1} of {len(parts) - 2}"
    raise AssertionError


def flaw_of(content: bytes) -> str:
    with pytest.raises(CorruptLogError) as caught:
        decode_snapshot(content, "/d/snapshot")
    assert caught.value.path == "/d/snapshot"
    text = str(caught.value)
    assert text.startswith("/d/snapshot is damaged: ")
    return text.removeprefix("/d/snapshot is damaged: ")


# -- what is written is read ----------------------------------------------------------------------------------------


@given(st.binary(max_size=200), st.integers(1, 70), st.binary(min_size=1, max_size=20), st.integers(0, 2**62))
@example(b"", 1, b"c", 0)
@example(bytes(140), 70, b"c", 0)
def test_any_state_comes_back_in_parts_of_any_size(state: bytes, part: int, configuration: bytes, index: int) -> None:
    snapshot = Snapshot(START, Index(6 + index), Term(4), state, configuration)
    content = encode_snapshot(snapshot, part)
    assert decode_snapshot(content, "snapshot") == snapshot
    assert len(pieces(content)) == 2 + -(-len(state) // part)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(NEAR_BOUNDS) | st.integers(0, 3 * PART_BYTES_MAX), st.booleans(), st.binary(min_size=1))
def test_a_state_of_any_size_comes_back_from_its_file_which_has_the_checksum_that_travels(
    tmp_path_factory: pytest.TempPathFactory, size: int, has_configuration: bool, content: bytes
) -> None:
    directory = str(tmp_path_factory.mktemp("replica"))
    state = (content * (size // len(content) + 1))[:size]
    snapshot = Snapshot(START, Index(9), Term(4), state, b"who" if has_configuration else b"")
    files = system_environment().files
    write_snapshot(files, directory, snapshot)
    assert read_snapshot(files, directory) == snapshot
    written = Path(directory, "snapshot").read_bytes()
    assert written == encode_snapshot(snapshot)
    assert written[4] == (2 if has_configuration else 1)
    assert asyncio.run(snapshot_checksum(snapshot)) == int.from_bytes(written[:4], "big")


@pytest.mark.parametrize("size", NEAR_BOUNDS)
def test_parts_have_at_most_a_mebibyte(size: int) -> None:
    parts = pieces(encode_snapshot(Snapshot(START, Index(9), Term(4), bytes(size), b"who")))[2:]
    full, rest = divmod(size, PART_BYTES_MAX)
    assert [len(part) - HEAD_BYTES for part in parts] == [PART_BYTES_MAX] * full + [rest] * (rest > 0)


def test_the_largest_state_is_saved_and_read_in_parts(tmp_path: Path) -> None:
    files = system_environment().files
    snapshot = Snapshot(START, Index(9), Term(4), bytes(STATE_BYTES_MAX), b"who")
    write_snapshot(files, str(tmp_path), snapshot)
    assert read_snapshot(files, str(tmp_path)) == snapshot


# -- versions -------------------------------------------------------------------------------------------------------


def test_a_group_without_a_configuration_of_its_own_writes_format_1_byte_for_byte() -> None:
    """An older version, which knows format 1 only, may come back."""
    snapshot = Snapshot(START, Index(9), Term(4), b"what it holds")
    golden = "20a62c2601949407090b030904c40d7768617420697420686f6c6473"
    assert encode_snapshot(snapshot).hex() == golden
    assert decode_snapshot(bytes.fromhex(golden), "snapshot") == snapshot
    assert encode_snapshot(snapshot)[4:] == b"\x01" + msgspec.msgpack.encode([START, 9, 4, b"what it holds"])


def test_the_bytes_of_format_2_stay_as_they_are() -> None:
    snapshot = Snapshot(START, Index(9), Term(4), b"what it holds", b"who")
    golden = (
        "02e8bed002000000503244bfcb86a573746172749407090b03ad6170706c6965645f696e64657809ac6170706c6965645f74"
        "65726d04a5706172747302ab73746174655f62797465730dad636f6e66696775726174696f6ec40377686f00000001000000"
        "0836f8e12d77686174206974200000000200000005547c3bd1686f6c6473"
    )
    assert encode_snapshot(snapshot, 8).hex() == golden
    assert decode_snapshot(bytes.fromhex(golden), "snapshot") == snapshot


def test_a_version_that_knows_format_1_only_takes_a_file_in_parts_for_whole() -> None:
    """It refuses an unknown format and leaves the file; damage it would set aside, and the replica with it."""
    assert crc32c.crc32c(WHOLE[4:]) == int.from_bytes(WHOLE[:4], "big")
    assert WHOLE[4] == 2


@pytest.mark.parametrize("version", [0, 3, 255])
def test_a_newer_format_is_refused_by_its_number(version: int) -> None:
    content = resealed(bytes([version]) + WHOLE[5:])
    with pytest.raises(UnknownFormatError, match=f"has format {version}, this version reads 1 and 2"):
        decode_snapshot(content, "snapshot")


def test_a_header_field_of_a_newer_version_is_refused_by_its_name() -> None:
    known = {"start": [7, 9, 11, 3], "applied_index": 9, "applied_term": 4, "parts": 0, "state_bytes": 0}
    assert decode_snapshot(with_header(known), "snapshot") == Snapshot(START, Index(9), Term(4), b"")
    for place in (0, 5):
        fields = list(known.items())
        fields.insert(place, ("compacted_below", 5))
        with pytest.raises(UnknownFormatError, match="has the header field 'compacted_below'"):
            decode_snapshot(with_header(dict(fields)), "snapshot")


def test_a_state_that_only_a_newer_version_can_hold_is_refused_and_is_no_damage() -> None:
    known = {"start": [7, 9, 11, 3], "applied_index": 9, "applied_term": 4, "parts": 65}
    with pytest.raises(UnknownFormatError, match=f"this version reads at most {STATE_BYTES_MAX}"):
        decode_snapshot(with_header({**known, "state_bytes": STATE_BYTES_MAX + 1}), "snapshot")


@pytest.mark.parametrize(
    ("fields", "flaw"),
    [
        ({"applied_term": "x"}, "header: Expected `int`"),
        ({"parts": -1}, "header: Expected `int` >= 0"),
        ({"start": [0, 9, 11, 3]}, "log start at entry 0"),
        ({"applied_index": 5}, "state as of entry 5 before a log start at 7"),
        ({"state_bytes": 9}, "its parts lack 9 bytes of the state"),
        ({"parts": 1, "state_bytes": 9}, "part 1 of 1: missing"),
        ({"configuration": bytes(65537)}, "configuration of 65537 bytes"),
    ],
)
def test_a_header_that_says_what_cannot_be_is_damage(fields: dict[str, object], flaw: str) -> None:
    known = {"start": [7, 9, 11, 3], "applied_index": 9, "applied_term": 4, "parts": 0, "state_bytes": 0}
    assert flaw_of(with_header({**known, **fields})).startswith(flaw)


def test_a_header_that_lacks_a_field_is_damage() -> None:
    assert flaw_of(with_header({"applied_index": 9})).startswith("header: Object missing required field")
    assert flaw_of(with_header({})).startswith("header: ")


# -- damage ---------------------------------------------------------------------------------------------------------


def test_every_flipped_bit_is_found_and_its_place_named() -> None:
    for position in range(len(WHOLE)):
        for bit in range(8):
            changed = bytearray(WHOLE)
            changed[position] ^= 1 << bit
            flaw = flaw_of(bytes(changed))
            # Another format says nothing of parts.
            assert name_at(position) in flaw or position == 4, (position, bit, flaw)


def test_every_flipped_bit_of_a_part_is_found_without_the_checksum_of_the_whole() -> None:
    """So what has arrived of a file can be judged."""
    for position in range(4, len(WHOLE)):
        for bit in range(8):
            changed = bytearray(WHOLE)
            changed[position] ^= 1 << bit
            with pytest.raises(StorageError):
                decode_snapshot(resealed(bytes(changed[4:])), "snapshot")


def test_a_file_that_ends_early_is_found_at_every_byte() -> None:
    bounds = [sum(map(len, pieces(WHOLE)[:count])) for count in range(7)]
    for size in range(len(WHOLE)):
        flaw = flaw_of(WHOLE[:size])
        if size > 4:
            assert name_at(size) in flaw
        # All of a piece is missing, or its end is.
        if size in bounds[2:]:
            assert flaw == f"{name_at(size)}: missing"


@pytest.mark.parametrize("more", [b"\0", b"more", pieces(WHOLE)[-1]])
def test_bytes_behind_the_last_part_are_found(more: bytes) -> None:
    for content in (WHOLE + more, resealed(WHOLE[4:] + more)):
        assert flaw_of(content) == f"{len(more)} bytes behind the last part"


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_lost_part_is_named(number: int) -> None:
    crc, header, *parts = pieces(WHOLE)
    del parts[number - 1]
    covered = header + b"".join(parts)
    flaw = f"part {number} of 4: " + (f"part {number + 1} stands there" if number < 4 else "missing")
    assert flaw_of(crc + covered) == flaw_of(resealed(covered)) == flaw


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_doubled_part_is_named(number: int) -> None:
    crc, header, *parts = pieces(WHOLE)
    parts.insert(number, parts[number - 1])
    covered = header + b"".join(parts)
    flaw = f"part {number + 1} of 4: part {number} stands there" if number < 4 else "17 bytes behind the last part"
    assert flaw_of(crc + covered) == flaw_of(resealed(covered)) == flaw


@pytest.mark.parametrize(("one", "other"), [(0, 1), (0, 3), (1, 2), (2, 3)])
def test_exchanged_parts_are_named(one: int, other: int) -> None:
    crc, header, *parts = pieces(WHOLE)
    parts[one], parts[other] = parts[other], parts[one]
    covered = header + b"".join(parts)
    flaw = f"part {one + 1} of 4: part {other + 1} stands there"
    assert flaw_of(crc + covered) == flaw_of(resealed(covered)) == flaw


def test_a_part_of_another_snapshot_is_found_by_its_checksum() -> None:
    crc, header, *parts = pieces(WHOLE)
    another = pieces(encode_snapshot(msgspec.structs.replace(SNAPSHOT, applied_index=Index(10)), PART))[2:]
    parts[1] = another[1]
    covered = header + b"".join(parts)
    assert flaw_of(crc + covered) == flaw_of(resealed(covered)) == "part 2 of 4: wrong checksum"


def test_a_part_of_another_state_under_the_same_header_is_found_by_the_checksum_of_the_whole() -> None:
    crc, header, *parts = pieces(WHOLE)
    another = pieces(encode_snapshot(msgspec.structs.replace(SNAPSHOT, state=bytes(53)), PART))
    assert another[1] == header
    parts[1] = another[3]
    assert flaw_of(crc + header + b"".join(parts)) == "wrong checksum of the whole"


@pytest.mark.parametrize("size", [0, PART_BYTES_MAX + 1, 2**32 - 1])
def test_a_part_of_no_size_or_too_large_a_size_is_named(size: int) -> None:
    _, header, *parts = pieces(WHOLE)
    first = parts[0][:4] + size.to_bytes(4, "big") + parts[0][8:]
    covered = header + first + b"".join(parts[1:])
    assert flaw_of(resealed(covered)) == f"part 1 of 4: {size} bytes"


@given(st.dictionaries(st.sampled_from([*SnapshotHeader.__struct_fields__, "more"]), VALUES))
def test_any_header_is_a_snapshot_or_a_named_error(fields: dict[str, object]) -> None:
    with suppress(StorageError):
        assert decode_snapshot(with_header(fields), "snapshot").flaw() is None


@given(st.binary(max_size=300), st.integers(0, len(WHOLE)))
def test_any_bytes_are_a_snapshot_or_a_named_error(data: bytes, at: int) -> None:
    for content in (data, WHOLE[:at] + data, WHOLE[:at] + data + WHOLE[at + len(data) :]):
        with suppress(StorageError):
            assert decode_snapshot(content, "snapshot").flaw() is None


# -- crashes and disks ----------------------------------------------------------------------------------------------


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files have parts of PART bytes."""
    real = snapshot_file._pieces
    monkeypatch.setattr(snapshot_file, "_pieces", lambda snapshot: real(snapshot, PART))


FORMER = {
    "none": None,
    "format 1": Snapshot(START, Index(8), Term(3), b"former" * 9),
    "in parts": Snapshot(START, Index(8), Term(3), b"former" * 9, b"former members"),
}


@pytest.mark.parametrize("seed", [None, *range(12)])
@pytest.mark.parametrize("former", FORMER.values(), ids=FORMER)
@pytest.mark.usefixtures("small_parts")
def test_a_write_cut_short_at_any_effect_leaves_the_former_snapshot_or_the_new_one(
    seed: int | None, former: Snapshot | None
) -> None:
    effects = 0
    while True:
        disk = new_disk(seed)
        life = Life(disk)
        life.files.mkdir(DIRECTORY)
        if former is not None:
            write_snapshot(life, DIRECTORY, former)
        life.left = effects
        was_cut = False
        try:
            write_snapshot(life, DIRECTORY, SNAPSHOT)
        except OSError:
            was_cut = True
        if seed is not None:
            disk.lose_power()
        found = read_snapshot(Life(disk).files, DIRECTORY)
        assert found in (former, SNAPSHOT)
        assert was_cut or found == SNAPSHOT
        if not was_cut:
            break
        effects += 1
    # Create; header, four parts, checksum; fsync, rename, fsync of the directory.
    assert effects == 10


@pytest.mark.usefixtures("small_parts")
def test_a_write_cut_short_is_noticed_if_its_bytes_are_not_fsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above sees it: a power loss keeps the name and not all of the bytes."""
    flaws: list[str] = []
    for seed in range(30):
        disk = new_disk(seed)
        life = Life(disk)
        life.files.mkdir(DIRECTORY)
        with monkeypatch.context() as inner:
            inner.setattr(SimFile, "fsync", lambda file: None)
            write_snapshot(life, DIRECTORY, SNAPSHOT)
        disk.lose_power()
        try:
            read_snapshot(Life(disk).files, DIRECTORY)
        except CorruptLogError as error:
            flaws.append(str(error))
    assert flaws


@pytest.mark.parametrize("room", [0, 3, 60, 150])
@pytest.mark.usefixtures("small_parts")
def test_a_disk_that_is_full_amid_the_parts_keeps_the_former_snapshot_and_no_more(room: int) -> None:
    disk = new_disk(None)
    files = Life(disk).files
    files.mkdir(DIRECTORY)
    former = FORMER["in parts"]
    assert former is not None
    write_snapshot(files, DIRECTORY, former)
    disk.capacity = disk.used + room
    with pytest.raises(DiskFullError):
        write_snapshot(files, DIRECTORY, SNAPSHOT)
    assert files.listdir(DIRECTORY) == ["snapshot"]
    disk.capacity += 10_000
    assert read_snapshot(files, DIRECTORY) == former
    write_snapshot(files, DIRECTORY, SNAPSHOT)
    assert read_snapshot(files, DIRECTORY) == SNAPSHOT


@pytest.mark.usefixtures("small_parts")
def test_a_part_that_cannot_be_written_leaves_the_former_snapshot() -> None:
    disk = new_disk(None)
    files = Life(disk).files
    files.mkdir(DIRECTORY)
    write_snapshot(files, DIRECTORY, SNAPSHOT)
    for error in (errno.EIO, errno.EMFILE):
        disk.fail_next("write", error=error, path_part="snapshot.tmp")
        with pytest.raises((OSError, StorageError)):
            write_snapshot(files, DIRECTORY, FORMER["in parts"])  # type: ignore[arg-type]
        assert read_snapshot(files, DIRECTORY) == SNAPSHOT
        assert files.listdir(DIRECTORY) == ["snapshot"]


# -- steps ----------------------------------------------------------------------------------------------------------

LARGE = Snapshot(START, Index(9), Term(4), bytes(5 * PART_BYTES_MAX + 1), b"who")


def test_the_loop_is_free_after_each_part_of_a_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    covered = [0]
    real = crc32c.crc32c

    def counted(data: Any, value: int = 0) -> int:
        covered[-1] += len(data)
        return real(data, value)

    monkeypatch.setattr(crc32c, "crc32c", counted)
    # One more for each time that it lets others run.
    covered.extend(0 for _ in snapshot_checksum(LARGE).__await__())
    # Each byte counts for its part and for the whole.
    assert sum(covered) > 2 * len(LARGE.state)
    assert max(covered) <= 2 * (PART_BYTES_MAX + 2 * HEAD_BYTES)
    assert len(covered) == 8


def test_no_write_and_no_read_has_more_than_a_part_and_a_few_bytes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes: dict[str, list[int]] = {"pwritev": [], "pread": []}

    def recorded(name: str, size_of: Callable[[Any], int]) -> None:
        real = getattr(OsFile, name)

        def call(file: OsFile, what: Any, position: int) -> Any:
            sizes[name].append(size_of(what))
            return real(file, what, position)

        monkeypatch.setattr(OsFile, name, call)

    recorded("pwritev", lambda buffers: sum(map(len, buffers)))
    recorded("pread", int)
    files = system_environment().files
    write_snapshot(files, str(tmp_path), LARGE)
    assert len(sizes["pwritev"]) == 8
    assert max(sizes["pwritev"]) <= PART_BYTES_MAX + HEAD_BYTES
    assert read_snapshot(files, str(tmp_path)) == LARGE
    # The first one is made before the format is known.
    assert max(sizes["pread"][1:]) <= PART_BYTES_MAX
    assert sizes["pread"][0] == 2 * PART_BYTES_MAX


@pytest.mark.parametrize("configuration", [b"", b"who"])
def test_a_small_file_is_read_at_one_go(monkeypatch: pytest.MonkeyPatch, configuration: bytes) -> None:
    """Format 1 as it always was."""
    files = Life(new_disk(None)).files
    files.mkdir(DIRECTORY)
    snapshot = Snapshot(START, Index(9), Term(4), b"state" * 9, configuration)
    write_snapshot(files, DIRECTORY, snapshot)
    reads: list[tuple[int, int]] = []
    real = SimFile.pread

    def pread(file: SimFile, size: int, position: int) -> bytes:
        reads.append((size, position))
        return real(file, size, position)

    monkeypatch.setattr(SimFile, "pread", pread)
    assert read_snapshot(files, DIRECTORY) == snapshot
    assert reads == [(len(encode_snapshot(snapshot)), 0)]


def test_a_file_is_not_read_further_than_the_first_damaged_part() -> None:
    changed = bytearray(WHOLE)
    second = sum(map(len, pieces(WHOLE)[:3]))
    changed[second + HEAD_BYTES] ^= 1
    ends: list[int] = []

    def read(size: int, position: int) -> bytes:
        ends.append(position + size)
        return bytes(changed[position : position + size])

    with pytest.raises(CorruptLogError, match="part 2 of 4"):
        read_parts(read, len(changed), "snapshot", STATE_BYTES_MAX)
    assert max(ends) == second + HEAD_BYTES + PART


def test_a_header_and_a_state_that_do_not_fit_are_never_written() -> None:
    header = SnapshotHeader(START, Index(9), Term(4), 3, 4)
    with pytest.raises(AssertionError):
        list(snapshot_parts.encoded(header, b"state"))
