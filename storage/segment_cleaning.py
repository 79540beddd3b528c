"""A pass of log compaction: which records of closed segments go, and the segments without them (RFC 0022, section 5).

A pass is a function of files and a request. It changes nothing of the log: it writes new segments beside the old ones,
and `segment_swap` puts them in their place. It blocks, and is made for a process of its own.

    map     keys of the dirty entries, each with the largest offset of a record of it that counts
    filter  from the first segment to the end of the map: what has a newer record goes, and what `CleaningRequest` lets
            go; a batch with records left is built anew, and placeholders stand for all other entries
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator

import msgspec

from model.ids import Index, Offset, Term
from model.record_batch import BatchHeader, read_header
from model.record_codec import CorruptRecordsError, unpack_records
from model.record_filter import KeyedRecord, filtered_batch, keyed_records
from runtime.files import FileSystem
from storage.aborted_rows import AbortedRow, AbortedRows
from storage.cleaned_output import CleanedOutput, CleanedSegment
from storage.entry import Entry, EntryKind, ParsedEntry
from storage.index_file import CleanedTime
from storage.log_start import LogStart, decode_log_start
from storage.segment import SegmentView, scan

# A longer key is replaced by a digest of this many bytes and one more, so that no key equals a digest.
KEY_BYTES_MAX = 16
# What a key takes of the map, with its offset: measured.
MAP_ENTRY_BYTES = 200


class Source(msgspec.Struct, frozen=True):
    """A closed segment, durable to its end.

    Attributes:
        path: Its file.
        base_index, term: Of its first entry, as in its name.
        last_index: Of its last entry.
        size: Bytes of whole entries.
        created_ms, closed_ms: As of `Segment`.
    """

    path: str
    base_index: Index
    term: Term
    last_index: Index
    size: int
    created_ms: int
    closed_ms: int


class CleaningRequest(msgspec.Struct, frozen=True):
    """What one pass is to do.

    Attributes:
        directory: Of the replica, for the outputs.
        sources: Closed segments from the first one of the log on, in order, up to the cleanable end.
        start: Where the log starts.
        clean_index: Up to where the log is clean: the map begins behind it.
        kept_index: The newest entry with records at or below the commit index, which stays as it is.
        aborted: Rows of all aborted transactions with records in the sources, as `AbortedRows.columns`; their markers
            are committed.
        deletes_to: Tombstones and markers up to here may go, `delete_retention_ms` after they were cleaned first.
        delete_retention_ms, now_ms: By the wall clock.
        times: When entries were cleaned first, ascending, as far as `clean_index`.
        segment_bytes: How large an output may become by joining sources.
        joins: Whether outputs may have several sources.
        map_bytes: How much memory the map may take.
        index_interval_bytes: Of the sparse indexes of the outputs.
    """

    directory: str
    sources: list[Source]
    start: LogStart
    clean_index: Index
    kept_index: Index
    aborted: tuple[bytes, bytes, bytes]
    deletes_to: Index
    delete_retention_ms: int
    now_ms: int
    times: list[CleanedTime]
    segment_bytes: int
    joins: bool
    map_bytes: int
    index_interval_bytes: int


class CleaningCounts(msgspec.Struct):
    """What a pass has come to: records that went, by reason, and batches that cannot be read, which stay."""

    read: int = 0
    superseded: int = 0
    aborted: int = 0
    keyless: int = 0
    deletes: int = 0
    unreadable: int = 0


class CleaningResult(msgspec.Struct, frozen=True):
    """The outputs, in order, each for one source or several; `cleaned_to` is the clean index that they lead to."""

    outputs: list[CleanedSegment]
    cleaned_to: Index
    times: list[CleanedTime]
    counts: CleaningCounts


def clean(
    files: FileSystem, request: CleaningRequest, pause: Callable[[int], None] = lambda size: None
) -> CleaningResult:
    """Make one pass. `pause` is told of the bytes that were read or written, and may wait.

    Raises:
        CorruptLogError: A source is damaged.
        OSError: The disk refuses. The caller removes what was written (`LogCompaction.remove_outputs`).
    """
    return _Pass(files, request, pause).run()


class _Pass:
    """One pass."""

    def __init__(self, files: FileSystem, request: CleaningRequest, pause: Callable[[int], None]) -> None:
        self._files = files
        self._request = request
        self._pause = pause
        self._newest: dict[bytes, int] = {}
        self._aborted = _AbortedTransactions(AbortedRows.from_columns(request.aborted))
        self._counts = CleaningCounts()
        # Of the tombstones and markers that stay of one source.
        self._delete_bytes = 0

    def run(self) -> CleaningResult:
        request = self._request
        end = self._map()
        outputs: list[CleanedSegment] = []
        output: CleanedOutput | None = None
        for source in request.sources:
            if source.base_index > end:
                break
            cleaned = self._cleaned(source, end)
            if output is not None and request.joins and output.may_join(cleaned, request.segment_bytes):
                output.join(cleaned)
                continue
            outputs += [] if output is None else [output.end()]
            output = cleaned
        outputs += [] if output is None else [output.end()]
        times = [*request.times]
        if end > request.clean_index:
            times.append(CleanedTime(end, request.now_ms))
        return CleaningResult(outputs, max(end, request.clean_index), times, self._counts)

    # -- map ------------------------------------------------------------------------------------------------------

    def _map(self) -> Index:
        """Note the newest offset of each key behind the clean index; return the last entry that was noted whole."""
        request, newest = self._request, self._newest
        keys_max = max(1, request.map_bytes // MAP_ENTRY_BYTES)
        end = request.clean_index
        for source in request.sources:
            if source.last_index <= request.clean_index:
                end = source.last_index
                continue
            for _, parsed in self._scan(source):
                entry = parsed.entry
                if entry.last_index <= request.clean_index:
                    continue
                if len(newest) >= keys_max:
                    return end
                if entry.kind is EntryKind.DATA:
                    self._note(entry)
                end = entry.last_index
        return end

    def _note(self, entry: Entry) -> None:
        header = read_header(entry.payload)
        found = None if self._is_aborted(header) else self._records(entry, header)
        if found is None:
            return
        _, records = found
        base_offset, newest = header.base_offset, self._newest
        for record in records:
            if record.key is not None:
                newest[map_key(record.key)] = base_offset + record.offset_delta

    def _cleaned(self, source: Source, end: Index) -> CleanedOutput:
        cleaned = CleanedOutput(
            *(self._files, self._request.directory, source.path, source.created_ms, source.closed_ms),
            *(self._request.index_interval_bytes,),
        )
        self._delete_bytes = 0
        cleaned.write(self._filtered(source, end))
        cleaned.delete_bytes = self._delete_bytes
        return cleaned

    # -- filter ---------------------------------------------------------------------------------------------------

    def _filtered(self, source: Source, end: Index) -> Iterator[tuple[Entry, int, bool]]:
        """Yield the entries of a source with their flushed marks, and whether something stays of them."""
        for _, parsed in self._scan(source):
            entry = parsed.entry
            if entry.last_index > end:
                # The mark of the log, which tells where a state is needed, rises to the end of the pass only.
                yield entry, parsed.flushed, True
            elif entry.kind is EntryKind.DATA:
                kept = entry if entry.index == self._request.kept_index else self._filter(entry)
                yield (entry if kept is None else kept), parsed.flushed, kept is not None
            else:
                yield entry, parsed.flushed, self._stays(entry)

    def _stays(self, entry: Entry) -> bool:
        """Whether an entry without records stays."""
        if entry.kind is EntryKind.LOG_START:
            start = decode_log_start(entry.payload)
            passed = self._request.start
            return (start.index, start.offset) > (passed.index, passed.offset)
        return entry.kind not in (EntryKind.BARRIER, EntryKind.PLACEHOLDER)

    def _filter(self, entry: Entry) -> Entry | None:
        """Return what stays of a batch; None if nothing does."""
        header, counts = read_header(entry.payload), self._counts
        if self._is_aborted(header):
            # Also where it cannot be read. A client may be able to, and the marker with its row goes later.
            counts.aborted += header.record_count
            return None
        found = self._records(entry, header)
        if found is None:
            return entry
        data, records = found
        if header.is_control:
            if not self._may_delete(entry):
                self._delete_bytes += entry.size
                return entry
            counts.deletes += header.record_count
            return None
        kept = [each for each in records if self._is_kept(entry, header, each)]
        if not kept:
            return None
        if len(kept) == header.record_count:
            return entry
        payload = filtered_batch(entry.payload, header, data, kept)
        return Entry(entry.index, entry.term, entry.kind, entry.base_offset, entry.record_count, payload)

    def _is_kept(self, entry: Entry, header: BatchHeader, record: KeyedRecord) -> bool:
        counts = self._counts
        if record.key is None:
            counts.keyless += 1
            return False
        offset = header.base_offset + record.offset_delta
        if self._newest.get(map_key(record.key), offset) > offset:
            counts.superseded += 1
            return False
        if record.deletes and self._may_delete(entry):
            counts.deletes += 1
            return False
        if record.deletes:
            self._delete_bytes += record.end - record.begin
        return True

    def _may_delete(self, entry: Entry) -> bool:
        """Whether tombstones of an entry, or its marker, may go."""
        request = self._request
        if entry.index > min(request.deletes_to, request.clean_index):
            return False
        at = bisect_left(request.times, entry.index, key=lambda time: time.last_index)
        # Without a time it was never cleaned, for all that is known.
        return at < len(request.times) and request.now_ms - request.times[at].time_ms >= request.delete_retention_ms

    # -- reading --------------------------------------------------------------------------------------------------

    def _scan(self, source: Source) -> Iterator[tuple[int, ParsedEntry]]:
        file = self._files.open(source.path)
        try:
            for position, parsed in scan(SegmentView(source.path, file, 0, source.size)):
                self._pause(parsed.entry.size)
                yield position, parsed
        finally:
            file.close()

    def _is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch belongs to an aborted transaction, and is no marker. Nobody needs to unpack it."""
        if header.is_control or not self._aborted.has(header):
            return False
        self._counts.read += header.record_count
        return True

    def _records(self, entry: Entry, header: BatchHeader) -> tuple[bytes, list[KeyedRecord]] | None:
        """Return unpacked bytes and records of a batch; None, counted, if it cannot be read."""
        try:
            data = unpack_records(entry.payload)
            records = [] if header.is_control else keyed_records(header, data)
        except CorruptRecordsError:
            self._counts.unreadable += 1
            return None
        self._counts.read += header.record_count
        return data, records


def map_key(key: bytes) -> bytes:
    """Return what stands for a key in the map: the key itself, or a digest that is longer than any such key."""
    return key if len(key) <= KEY_BYTES_MAX else hashlib.blake2b(key, digest_size=KEY_BYTES_MAX + 1).digest()


class _AbortedTransactions:
    """Which batches belong to aborted transactions."""

    def __init__(self, rows: AbortedRows) -> None:
        # By producer, in the order of the log.
        self._rows: dict[int, list[AbortedRow]] = {}
        for row in rows.within(Offset(0), Offset(2**63 - 1)):
            self._rows.setdefault(row.producer_id, []).append(row)

    def has(self, header: BatchHeader) -> bool:
        rows = self._rows.get(header.producer_id) if header.is_transactional else None
        if rows is None:
            return False
        # The first transaction of the producer that ends behind the batch.
        at = bisect_left(rows, header.base_offset, key=lambda row: row.marker_offset)
        return at < len(rows) and rows[at].first_offset <= header.base_offset
