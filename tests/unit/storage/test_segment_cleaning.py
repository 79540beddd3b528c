"""A pass of log compaction against a dict: the log by key is what it was, and what has a newer record is gone."""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.control_batch import NO_PREPARE, Marker, MarkerType, encode_marker
from model.ids import Index, Offset, Term
from model.record_batch import read_header, stamp
from model.record_codec import unpack_records
from model.record_filter import keyed_records
from runtime.files import OsFileSystem
from storage.aborted_rows import AbortedRows, aborted_row
from storage.cleaned_output import CleanedSegment
from storage.entry import Entry, EntryKind, pack_header
from storage.log_start import ORIGIN
from storage.segment import SegmentView, scan, segment_name
from storage.segment_cleaning import KEY_BYTES_MAX, CleanedTime, CleaningRequest, CleaningResult, Source, clean, map_key
from storage.segment_index import SegmentIndex
from tests.unit.model.record_batches import TRANSACTIONAL, build_batch, packed, varint

FILES = OsFileSystem()
# The last one is longer than any key that stands for itself in the map.
KEYS: list[bytes | None] = [b"a", b"b", b"c", b"", b"k" * (KEY_BYTES_MAX + 5)]


def record(delta: int, key: bytes | None, value: bytes | None, timestamp_delta: int = 0) -> bytes:
    """One record with a header, so that something lies behind its value."""
    parts = [b"\0", varint(timestamp_delta), varint(delta)]
    for each in (key, value):
        parts += [varint(-1)] if each is None else [varint(len(each)), each]
    body = b"".join([*parts, varint(1), varint(1), b"h", varint(2), b"hv"])
    return varint(len(body)) + body


@dataclass(frozen=True)
class Step:
    """A batch, a marker, or a barrier."""

    records: tuple[tuple[bytes | None, bytes | None], ...] = ()
    codec: int = 0
    # Whose transaction it belongs to, if any.
    producer: int | None = None
    ends: MarkerType | None = None
    new_term: bool = False


@dataclass
class Original:
    """A log as it was written; `files` are its segments."""

    entries: list[Entry] = field(default_factory=list)
    files: list[list[Entry]] = field(default_factory=list)
    rows: AbortedRows = field(default_factory=AbortedRows)


def written(steps: Sequence[Step], cuts: Sequence[bool]) -> Original:
    """Write the steps; every transaction is ended, aborted if nothing else is said."""
    made, term, offset = Original(), 1, 0
    begun: dict[int, int] = {}
    ends = [Step(producer=producer, ends=MarkerType.ABORT) for producer in (1, 2)]
    for number, step in enumerate([*steps, *ends]):
        term += step.new_term
        payload: bytes | bytearray = b""
        count, kind = 0, EntryKind.BARRIER
        if step.ends is not None and step.producer is not None:
            if step.producer not in begun:
                continue
            marker = Marker(step.producer, 0, step.ends, 0, begun.pop(step.producer), NO_PREPARE)
            payload, count, kind = encode_marker(marker, 1000), 1, EntryKind.DATA
        elif step.records:
            body = b"".join(record(delta, key, value, delta) for delta, (key, value) in enumerate(step.records))
            of_producer = {"producer_id": step.producer or -1, "attributes": TRANSACTIONAL if step.producer else 0}
            payload = bytearray(
                build_batch(
                    *[b""] * len(step.records),
                    timestamps=[1000 + delta for delta in range(len(step.records))],
                    codec=step.codec,
                    payload=packed(step.codec, body),
                    **of_producer,
                )
            )
            count, kind = len(step.records), EntryKind.DATA
            if step.producer is not None:
                begun.setdefault(step.producer, offset)
        if isinstance(payload, bytearray):
            stamp(payload, offset, term)
        entry = Entry(Index(len(made.entries) + 1), Term(term), kind, Offset(offset), count, bytes(payload))
        row = aborted_row(entry) if step.ends is not None else None
        if row is not None:
            made.rows.add(row)
        offset += count
        made.entries.append(entry)
        if not made.files or cuts[number % len(cuts)]:
            made.files.append([])
        made.files[-1].append(entry)
    return made


def save(folder: Path, entries: Sequence[Entry]) -> Source:
    """Write a segment."""
    path = folder / segment_name(entries[0].index, entries[0].term)
    content = b"".join(pack_header(each, Index(each.index - 1)) + bytes(each.payload) for each in entries)
    path.write_bytes(content)
    first, last = entries[0], entries[-1]
    return Source(str(path), first.index, first.term, last.last_index, len(content), 5, 9)


def load(output: CleanedSegment) -> list[Entry]:
    """Read an output, and check what its index file would say."""
    file = FILES.open(output.path)
    found = list(scan(SegmentView(output.path, file, 0, file.size())))
    file.close()
    entries = [parsed.entry for _, parsed in found]
    positions = {entry.index: position for (position, _), entry in zip(found, entries, strict=True)}
    assert (entries[0].index, entries[0].base_offset, entries[0].term) == (
        *(output.base_index, output.base_offset, output.term),
    )
    assert (entries[-1].last_index, entries[-1].end_offset) == (output.last_index, output.end_offset)
    assert sum(each.size for each in entries) == output.size
    index = SegmentIndex.from_columns(output.columns, output.size, output.max_timestamp, 1)
    for entry in entries:
        assert index.position_of_index(entry.index) in [at for each, at in positions.items() if each <= entry.index]
        if entry.record_count:
            assert index.index_at(entry.base_offset) in (entry.index, None)
    rows = [row for row in map(aborted_row, (each for each in entries if is_marker(each))) if row is not None]
    assert AbortedRows.from_columns(output.rows).within(Offset(0), Offset(2**62)) == rows
    return entries


def is_marker(entry: Entry) -> bool:
    return entry.kind is EntryKind.DATA and read_header(entry.payload).is_control


Records = dict[int, tuple[bytes | None, bytes]]


def records_of(entries: Sequence[Entry]) -> Records:
    """Key and bytes of each record by its offset, without markers."""
    found: Records = {}
    for entry in entries:
        if entry.kind is EntryKind.DATA and not is_marker(entry):
            header, data = read_header(entry.payload), unpack_records(entry.payload)
            assert header.last_offset_delta == entry.record_count - 1
            for each in keyed_records(header, data):
                found[header.base_offset + each.offset_delta] = (each.key, data[each.begin : each.end])
    return found


def is_deleted(content: bytes) -> bool:
    """Whether a record of `record` has no value: its last bytes are those of its header."""
    return content[-len(b"\1\2h\4hv") - 1 :] == varint(-1) + varint(1) + varint(1) + b"h" + varint(2) + b"hv"


def by_key(records: Records, aborted: set[int]) -> dict[bytes, bytes]:
    """Fold a log by key, as a reader at read_committed does."""
    table: dict[bytes, bytes] = {}
    for offset, (key, content) in sorted(records.items()):
        if key is None or offset in aborted:
            continue
        if is_deleted(content):
            table.pop(key, None)
        else:
            table[key] = content
    return table


def aborted_offsets(original: Original) -> set[int]:
    found: set[int] = set()
    for row in original.rows.within(Offset(0), Offset(2**62)):
        for entry in original.entries:
            if entry.kind is EntryKind.DATA and row.first_offset <= entry.base_offset < row.marker_offset:
                header = read_header(entry.payload)
                if header.is_transactional and header.producer_id == row.producer_id:
                    found.update(range(entry.base_offset, entry.end_offset))
    return found


def request_of(folder: Path, sources: list[Source], original: Original, **changes: object) -> CleaningRequest:
    wanted: dict[str, object] = {
        "directory": str(folder),
        "sources": sources,
        "start": ORIGIN,
        "clean_index": Index(0),
        "kept_index": original.entries[-1].index,
        "aborted": original.rows.columns(),
        "deletes_to": Index(0),
        "delete_retention_ms": 1000,
        "now_ms": 50_000,
        "times": [],
        "segment_bytes": 4000,
        "joins": True,
        "map_bytes": 1 << 20,
        "index_interval_bytes": 150,
    }
    return CleaningRequest(**(wanted | changes))  # type: ignore[arg-type]


def check_pass(original: Original, request: CleaningRequest, result: CleaningResult) -> list[Entry]:
    """Check C1 to C3 of RFC 0022; return the entries of all outputs."""
    outputs = [load(output) for output in result.outputs]
    entries = [entry for output in outputs for entry in output]
    last = entries[-1].last_index
    covered = [each for each in request.sources if each.last_index <= last]
    assert result.outputs[0].first_source == covered[0].path
    assert result.outputs[-1].last_source == covered[-1].path
    due, offset = entries[0].index, entries[0].base_offset
    for entry in entries:
        if entry.index <= request.kept_index <= entry.last_index:
            assert entry.payload == original.entries[entry.index - 1].payload, "the newest batch is gone"
        if entry.kind is EntryKind.DATA:
            header, data = read_header(entry.payload), unpack_records(entry.payload)
            if not header.is_control:
                times = [header.base_timestamp + each.timestamp_delta for each in keyed_records(header, data)]
                assert header.max_timestamp == max(times)
        assert (entry.index, entry.base_offset) == (due, offset)
        due, offset = Index(entry.last_index + 1), entry.end_offset
        terms = {original.entries[index - 1].term for index in range(entry.index, due)}
        assert terms == {entry.term}, "an entry stands for entries of another term"
    rest = [each for each in original.entries if each.index > last]
    assert due == (rest[0].index if rest else original.entries[-1].index + 1)
    before, after = records_of(original.entries), records_of([*entries, *rest])
    assert all(before[at] == content for at, content in after.items())
    aborted = aborted_offsets(original)
    assert by_key(after, aborted) == by_key(before, aborted), "the log by key is another one"
    return entries


KEYED = st.tuples(st.sampled_from([*KEYS, *KEYS, None]), st.sampled_from([b"1", b"2" * 40, None]))
STEPS = st.lists(
    st.one_of(
        st.builds(
            Step,
            records=st.lists(KEYED, min_size=1, max_size=4).map(tuple),
            codec=st.integers(0, 4),
            producer=st.sampled_from([None, None, 1, 2]),
            new_term=st.booleans(),
        ),
        st.builds(Step, producer=st.sampled_from([1, 2]), ends=st.sampled_from(list(MarkerType))),
        st.builds(Step, new_term=st.just(True)),
    ),
    min_size=2,
    max_size=20,
)


@settings(deadline=None, max_examples=150)
@given(
    steps=STEPS,
    cuts=st.lists(st.booleans(), min_size=3, max_size=7),
    left_out=st.integers(0, 2),
    keys=st.sampled_from([1, 2, 3, 1000]),
    segment_bytes=st.sampled_from([1, 500, 100_000]),
    joins=st.booleans(),
)
def test_passes_keep_the_log_by_key(
    steps: list[Step], cuts: list[bool], left_out: int, keys: int, segment_bytes: int, joins: bool
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="cleaning-"))
    try:
        original = written(steps, cuts)
        if not original.entries:
            return
        sources = [save(folder, entries) for entries in original.files]
        sources = sources[: max(1, len(sources) - left_out)]
        how = {"segment_bytes": segment_bytes, "joins": joins, "map_bytes": 200 * keys}
        # As if no more than the sources were committed: their last batch is the newest one, and stays.
        batches = [each for each in original.entries if each.kind is EntryKind.DATA]
        how["kept_index"] = max((each.index for each in batches if each.index <= sources[-1].last_index), default=0)
        request = request_of(folder, sources, original, **how)
        result = clean(FILES, request)
        entries = check_pass(original, request, result)
        check_superseded(original, request, result, entries)
        # What lies behind the end of the pass is what it was: the log's mark does not rise that far.
        assert facts(entries, result.cleaned_to) == facts(original.entries[: entries[-1].last_index], result.cleaned_to)
        again(folder, original, request, result, entries)
    finally:
        shutil.rmtree(folder)


def facts(entries: Sequence[Entry], behind: int) -> list[tuple[int, EntryKind, bytes]]:
    return [(each.index, each.kind, bytes(each.payload)) for each in entries if each.last_index > behind]


def check_superseded(
    original: Original, request: CleaningRequest, result: CleaningResult, entries: list[Entry]
) -> None:
    """Nothing stays that a record at or below the clean index supersedes, nor what was aborted or has no key."""
    clean_entries = [each for each in entries if each.last_index <= result.cleaned_to]
    aborted, newest = aborted_offsets(original), {}
    found = records_of([each for each in clean_entries if each.index != request.kept_index])
    for offset, (key, _) in records_of([each for each in original.entries if each.index <= result.cleaned_to]).items():
        if key is not None and offset not in aborted:
            newest[key] = max(offset, newest.get(key, 0))
    for offset, (key, _) in found.items():
        assert key is not None
        assert offset not in aborted
        assert newest[key] <= offset


def again(
    folder: Path, original: Original, request: CleaningRequest, result: CleaningResult, entries: list[Entry]
) -> None:
    """A second pass, later, in which deletes may go up to the clean index."""
    (folder / "again").mkdir()
    sources = [save(folder / "again", load(output)) for output in result.outputs]
    changes = {"sources": sources, "clean_index": result.cleaned_to, "deletes_to": result.cleaned_to}
    changes["kept_index"] = request.kept_index
    later = request_of(folder / "again", **{"original": original, **changes}, times=result.times, now_ms=60_000)
    second = clean(FILES, later)
    left = check_pass(original, later, second)
    for entry in left:
        if entry.last_index <= result.cleaned_to and entry.index != later.kept_index:
            assert not is_marker(entry)
            assert not any(is_deleted(content) for _, content in records_of([entry]).values())
    assert len(left) <= len(entries)


def test_a_long_key_and_its_digest_are_two_keys() -> None:
    long = b"k" * 100
    digest = map_key(long)
    assert len(digest) == KEY_BYTES_MAX + 1
    assert map_key(digest) != digest
    assert map_key(digest[:KEY_BYTES_MAX]) == digest[:KEY_BYTES_MAX]


def test_a_batch_that_cannot_be_read_stays(tmp_path: Path) -> None:
    broken = bytearray(build_batch(b"", payload=b"\x10garbage", count=1))
    original = written([Step(((b"a", b"1"),)), Step(((b"a", b"2"),)), Step(((b"b", b"1"),))], [False])
    entries = [
        original.entries[0],
        Entry(Index(2), Term(1), EntryKind.DATA, Offset(1), 1, bytes(broken)),
        *(
            Entry(Index(each.index + 1), each.term, each.kind, Offset(each.base_offset + 1), 1, moved(each, 1))
            for each in original.entries[1:]
        ),
    ]
    source = save(tmp_path, entries)
    result = clean(FILES, request_of(tmp_path, [source], original, kept_index=Index(4)))
    left = load(result.outputs[0])
    assert [each.kind for each in left] == [EntryKind.PLACEHOLDER, *[EntryKind.DATA] * 3]
    assert (result.counts.unreadable, result.counts.superseded) == (1 + 1, 1)


@pytest.mark.parametrize("clean_index", [0, 3])
def test_an_aborted_batch_that_cannot_be_read_goes_before_its_marker(tmp_path: Path, clean_index: int) -> None:
    """A client may be able to read it, and would take it for committed once the marker's row is gone."""
    steps = [Step(((b"a", b"1"),), producer=1), Step(producer=1, ends=MarkerType.ABORT), Step(((b"b", b"1"),))]
    original = written(steps, [False])
    broken = build_batch(b"", payload=b"\x10garbage", count=1, attributes=TRANSACTIONAL, producer_id=1)
    first = original.entries[0]
    entries = [Entry(first.index, first.term, first.kind, first.base_offset, 1, broken), *original.entries[1:]]
    source = save(tmp_path, entries)
    changes = {"clean_index": Index(clean_index), "deletes_to": Index(3), "times": [CleanedTime(Index(3), 0)]}
    result = clean(FILES, request_of(tmp_path, [source], original, **changes))
    left = load(result.outputs[0])
    assert broken not in [each.payload for each in left]
    # The marker goes by the second pass.
    assert len(left) == (2 if clean_index else 3)
    assert result.counts.aborted == 1


def moved(entry: Entry, by: int) -> bytes:
    payload = bytearray(entry.payload)
    stamp(payload, entry.base_offset + by, entry.term)
    return bytes(payload)


@pytest.mark.parametrize(("keys", "cleaned_to"), [(1, 1), (2, 2), (3, 3), (100, 4)])
def test_a_pass_ends_where_the_map_is_full(tmp_path: Path, keys: int, cleaned_to: int) -> None:
    steps = [Step(((key, b"1"),)) for key in (b"a", b"b", b"c", b"a")]
    original = written(steps, [False])
    source = save(tmp_path, original.entries)
    result = clean(FILES, request_of(tmp_path, [source], original, map_bytes=200 * keys))
    assert result.cleaned_to == cleaned_to
    assert result.times == [CleanedTime(Index(cleaned_to), 50_000)]
    assert (load(result.outputs[0])[0].kind is EntryKind.PLACEHOLDER) == (cleaned_to == 4)


@pytest.mark.parametrize(("deletes_to", "clean_index"), [(0, 2), (2, 0), (2, 2)])
def test_deletes_go_only_where_all_members_are_clean(tmp_path: Path, deletes_to: int, clean_index: int) -> None:
    original = written([Step(((b"a", None),)), Step(((b"b", b"1"),))], [False])
    source = save(tmp_path, original.entries)
    changes = {"clean_index": Index(clean_index), "deletes_to": Index(deletes_to)}
    times = [CleanedTime(Index(2), 0)]
    result = clean(FILES, request_of(tmp_path, [source], original, times=times, **changes))
    is_gone = load(result.outputs[0])[0].kind is EntryKind.PLACEHOLDER
    assert is_gone == (deletes_to == clean_index == 2)


@pytest.mark.parametrize("age", [999, 1000])
def test_deletes_go_by_the_time_at_which_they_were_cleaned_first(tmp_path: Path, age: int) -> None:
    original = written([Step(((b"a", None),)), Step(((b"b", b"1"),))], [False])
    source = save(tmp_path, original.entries)
    changes = {
        "clean_index": Index(2),
        "deletes_to": Index(2),
        "times": [CleanedTime(Index(1), 50_000 - age), CleanedTime(Index(2), 49_999)],
    }
    result = clean(FILES, request_of(tmp_path, [source], original, **changes))
    assert (load(result.outputs[0])[0].kind is EntryKind.PLACEHOLDER) == (age >= 1000)
