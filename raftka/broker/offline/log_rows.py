"""One log directory as rows: what its files say, entry after entry, with every damage and its place.

A row is a dict that JSON can hold; its key `type` says which kind it is:

    log       whose log it is, and how many segments it has
    snapshot  where the log starts, and the configuration of that moment, if it has one
    segment   a segment file begins
    entry     an entry with right checksums; of a record batch its header, and never a record; of a configuration its
              members and revision
    blank     zeros at the end of a segment, made ahead of what is written
    file      a file that is no part of the log
    damage    a file, a byte position and a reason
    end       totals
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

from cluster.commands import decode_command
from model.error_text import reason_of
from model.ids import RAFT0, GroupId
from model.record_batch import CODECS, read_header
from model.record_codec import CorruptRecordsError
from raft.configuration_entry import decode_configuration
from raft.group_configuration import GroupConfiguration
from raftka.broker.offline.read_only_files import ReadOnlyFiles
from raftka.broker.offline.segment_walk import Blank, Damage, Found, walk
from raftka.broker.offline.transaction_rows import marker_row, pending_rows
from runtime.files import File
from storage.cleaned_output import CLEANED_SUFFIX
from storage.compacted_mark import COMPACTED_NAME, read_compacted_mark
from storage.entry import Entry, EntryKind, ParsedEntry
from storage.errors import StorageError
from storage.index_file import index_path, read_index_file
from storage.log_directory import read_log_identity
from storage.log_start import ORIGIN, LogStart, decode_log_start
from storage.segment import parse_segment_name
from storage.segment_loader import NamedSegment, list_segments
from storage.segment_swap import SWAP_SUFFIX
from storage.snapshot_file import SNAPSHOT_NAME, read_snapshot, snapshot_path

Row = dict[str, Any]
_IDENTITY_NAME = "replica.id"


class Wanted(NamedTuple):
    """Which entries are shown.

    Attributes:
        first: From this index on; segments wholly before it are not read.
        limit: At most so many; None: all.
    """

    first: int = 1
    limit: int | None = None


class LogRows:
    """One pass over a log directory. Blocking.

    Attributes:
        damages: How many there were so far.
    """

    def __init__(self, files: ReadOnlyFiles, directory: str, name: str | None, wanted: Wanted) -> None:
        self._files = files
        self._directory = directory
        self._name = name
        self._wanted = wanted
        self._group: GroupId | None = None
        self.damages = 0
        self._shown = 0
        self._last: int | None = None
        # The largest flushed mark of a valid header or index file: entries up to there had been fsynced. None: none was
        # read.
        self._flushed: int | None = None
        # A segment could not be read: it may hold a larger mark.
        self._has_unread = False
        # What should come next, None where nothing tells.
        self._due_index: int | None = None
        self._due_offset: int | None = None
        self._term = 0
        self._first_damaged: int | None = None

    def rows(self) -> Iterator[Row]:
        """Yield the rows.

        Raises:
            OSError: The directory cannot be listed.
        """
        named = list_segments(self._files, self._directory)
        yield from self._identity(len(named))
        start = ORIGIN
        for row in self._snapshot():
            if row["type"] == "snapshot":
                start = LogStart(row["start_index"], row["base_offset"], row["start_offset"], row["prev_term"])
            yield row
        yield from self._other_files()
        yield from self._segments(named, start)
        yield {
            "type": "end",
            "entries": self._shown,
            "last": self._last,
            "flushed": self._flushed,
            "unread": self._has_unread,
            "damages": self.damages,
            "first_damaged": self._first_damaged,
        }

    # -- around the segments --------------------------------------------------------------------------------------

    def _identity(self, segments: int) -> Iterator[Row]:
        path = f"{self._directory}/{_IDENTITY_NAME}"
        flaw, directory_id = None, None
        try:
            identity = read_log_identity(self._files, self._directory)
            if identity is None:
                flaw = "it is missing: nothing says whose log this is"
            else:
                self._group, directory_id = identity.group, identity.directory_id
        except (StorageError, OSError) as error:
            flaw = reason_of(error)
        yield {
            "type": "log",
            "directory": self._directory,
            "name": self._name,
            "group": self._group,
            "data_directory_id": directory_id,
            "segments": segments,
        }
        if flaw is not None:
            yield self._damage(path, 0, flaw)

    def _snapshot(self) -> Iterator[Row]:
        path = snapshot_path(self._directory)
        try:
            snapshot = read_snapshot(self._files, self._directory)
        except (StorageError, OSError) as error:
            yield self._damage(path, 0, reason_of(error))
            return
        if snapshot is not None:
            configuration, pending, flaw = None, None, None
            try:
                pending = pending_rows(self._name, snapshot.state)
                if snapshot.configuration:
                    configuration = _configuration(decode_configuration(snapshot.configuration))
            except StorageError as error:
                flaw = reason_of(error)
            yield {
                "type": "snapshot",
                "start_index": snapshot.start.index,
                "base_offset": snapshot.start.base_offset,
                "start_offset": snapshot.start.offset,
                "prev_term": snapshot.start.prev_term,
                "applied_index": snapshot.applied_index,
                "applied_term": snapshot.applied_term,
                "state_bytes": len(snapshot.state),
                # None: the group's first one, with which it was created.
                "configuration": configuration,
                # Of `__consumer_offsets` only.
                "pending_offsets": pending,
            }
            if flaw is not None:
                yield self._damage(path, 0, flaw)

    def _other_files(self) -> Iterator[Row]:
        for name in self._files.listdir(self._directory):
            is_index = name.endswith(".index") and parse_segment_name(name.removesuffix(".index") + ".log") is not None
            if name in (_IDENTITY_NAME, SNAPSHOT_NAME) or parse_segment_name(name) is not None or is_index:
                continue
            what = "of no use to the log"
            if name == COMPACTED_NAME:
                yield from self._compacted_mark()
                continue
            if name.endswith(".damaged"):
                what = "a copy of damaged bytes, kept until the replica is whole again"
            elif name.endswith(CLEANED_SUFFIX):
                what = "a pass of log compaction that was cut short; a start removes it"
            elif name.endswith(SWAP_SUFFIX):
                what = "a segment that takes the place of others; a start finishes that"
            elif name.endswith(".tmp"):
                what = "a write that was cut short; a start removes it"
            yield {"type": "file", "file": name, "what": what}

    def _compacted_mark(self) -> Iterator[Row]:
        mark = read_compacted_mark(self._files, self._directory)
        if mark is None:
            yield self._damage(f"{self._directory}/{COMPACTED_NAME}", 0, "this file says how far the log is compacted")
        else:
            yield {"type": "compacted", "index": int(mark)}

    def _damage(self, path: str, position: int, reason: str, **more: Any) -> Row:
        self.damages += 1
        return {"type": "damage", "file": path, "position": position, "reason": reason, **more}

    # -- segments -------------------------------------------------------------------------------------------------

    def _segments(self, named: list[NamedSegment], start: LogStart) -> Iterator[Row]:
        # The last segment that begins at or before what is wanted, and all behind it.
        first = max(0, sum(each.base_index <= self._wanted.first for each in named) - 1)
        if named and named[0].base_index > start.index:
            words = f"entries {start.index} to {named[0].base_index - 1}, with which the log starts, are missing"
            self._first_damaged = int(start.index)
            yield self._damage(named[0].path, 0, words)
        for each in named[first:]:
            if self._is_enough():
                return
            yield from self._border(each, start)
            yield from self._segment(each)

    def _is_enough(self) -> bool:
        return self._wanted.limit is not None and self._shown >= self._wanted.limit

    def _border(self, named: NamedSegment, start: LogStart) -> Iterator[Row]:
        due = self._due_index
        if due is not None and due != named.base_index:
            if named.base_index < due:
                yield self._broken(named.path, 0, f"it overlaps the segment before: entry {due} should be next")
            elif named.base_index > start.index:
                # Below the start a power loss may bring back any removed segment.
                yield self._broken(named.path, 0, f"entries {due} to {named.base_index - 1} before it are missing")
            self._due_offset = None
        self._due_index = named.base_index

    def _broken(self, path: str, position: int, reason: str, **more: Any) -> Row:
        """Return a damage of the entries, not of a file beside them."""
        if self._first_damaged is None:
            self._first_damaged = self._due_index
        return self._damage(path, position, reason, **more)

    def _segment(self, named: NamedSegment) -> Iterator[Row]:
        try:
            file = self._files.open(named.path)
        except OSError as error:
            self._has_unread = True
            yield self._broken(named.path, 0, f"it cannot be read: {reason_of(error)}")
            self._forget_due()
            return
        with closing(file):
            size = file.size()
            index, flaw, witnessed = self._index_file(named)
            yield {
                "type": "segment",
                "file": named.path.rpartition("/")[2],
                "base_index": named.base_index,
                "term": named.term,
                "bytes": size,
                "index_file": index,
            }
            if flaw is not None:
                yield self._damage(index_path(named.path), 0, flaw)
            yield from self._walk(named, file, size)
        if not self._is_enough() and self._due_index is not None and self._due_index <= witnessed:
            yield self._broken(named.path, size, f"its index file says that it held entries up to {witnessed}")
            self._forget_due()

    def _index_file(self, named: NamedSegment) -> tuple[str, str | None, int]:
        """Return how the index file is, what is wrong with it, and up to where it says that entries were fsynced."""
        path = index_path(named.path)
        try:
            if not self._files.exists(path):
                return "none", None, 0
            if self._group is None:
                return "unknown", None, 0
            record = read_index_file(self._files, path, self._group, named.base_index)
        except OSError as error:
            return "damaged", f"it cannot be read: {reason_of(error)}", 0
        if record is None:
            return "damaged", "its checksum or its content is wrong; a start reads the segment instead", 0
        # It exists only where all this was fsynced.
        self._learn_flushed(record.last_index)
        return "ok", None, record.last_index

    def _walk(self, named: NamedSegment, file: File, size: int) -> Iterator[Row]:
        for each in walk(file, named.path, size):
            match each:
                case Found(position, parsed):
                    yield from self._found(named, position, parsed)
                    if self._is_enough():
                        return
                case Blank(position, blank):
                    yield {"type": "blank", "position": position, "bytes": blank}
                case Damage():
                    yield self._told(named, each)

    def _told(self, named: NamedSegment, damage: Damage) -> Row:
        more: Row = {"bytes": damage.size}
        self._has_unread = self._has_unread or damage.is_unread
        if damage.head is not None:
            # As recovery: the header is whole, whatever the payload is.
            self._learn_flushed(damage.head.flushed)
            more |= {"index": damage.head.index, "term": damage.head.term}
        row = self._broken(named.path, damage.position, damage.reason, **more)
        if damage.head is None:
            self._forget_due()
        else:
            self._due_index = damage.head.last_index + 1
            self._due_offset = damage.head.base_offset + damage.head.record_count
        return row

    def _learn_flushed(self, index: int) -> None:
        self._flushed = max(self._flushed or 0, int(index))

    def _forget_due(self) -> None:
        self._due_index = self._due_offset = None

    def _found(self, named: NamedSegment, position: int, parsed: ParsedEntry) -> Iterator[Row]:
        entry = parsed.entry
        self._learn_flushed(parsed.flushed)
        for reason in self._disorders(named, position, entry):
            yield self._broken(named.path, position, reason, index=entry.index, term=entry.term)
        self._due_index, self._due_offset, self._term = entry.last_index + 1, entry.end_offset, entry.term
        if entry.last_index >= self._wanted.first:
            self._shown += 1
            self._last = int(entry.last_index)
            row, flaw = _entry_row(position, parsed, is_raft0=self._group == RAFT0)
            yield row
            if flaw is not None:
                yield self._broken(named.path, position, flaw, index=entry.index, term=entry.term)

    def _disorders(self, named: NamedSegment, position: int, entry: Entry) -> Iterator[str]:
        if self._due_index is not None and entry.index != self._due_index:
            yield f"entry {entry.index} where {self._due_index} should be"
        elif self._due_offset is not None and entry.base_offset != self._due_offset:
            yield f"entry {entry.index} has the base offset {entry.base_offset}, {self._due_offset} should be next"
        if entry.term < self._term:
            yield f"entry {entry.index} has term {entry.term}, behind term {self._term}"
        if position == 0 and entry.term != named.term:
            yield f"the first entry has term {entry.term}, the name of the file says {named.term}"


def _entry_row(position: int, parsed: ParsedEntry, *, is_raft0: bool) -> tuple[Row, str | None]:
    """Return an entry's row, and what is wrong inside it although its checksums are right."""
    entry, flaw = parsed.entry, None
    row: Row = {
        "type": "entry",
        "index": entry.index,
        "term": entry.term,
        "kind": entry.kind.name.lower(),
        "position": position,
        "bytes": entry.size,
        "base_offset": entry.base_offset,
        "records": entry.record_count,
        "flushed": parsed.flushed,
        "checksum": "ok",
    }
    try:
        if entry.kind is EntryKind.DATA:
            row["batch"], flaw = _batch(entry)
        elif entry.kind is EntryKind.PLACEHOLDER:
            row["last_index"] = entry.last_index
        elif entry.kind is EntryKind.LOG_START:
            start = decode_log_start(entry.payload)
            row["start"] = {"index": start.index, "offset": start.offset}
        elif entry.kind is EntryKind.CONFIGURATION:
            row["configuration"] = _configuration(decode_configuration(entry.payload))
        elif entry.kind is EntryKind.COMMAND and is_raft0:
            row["command"] = str(decode_command(entry.payload).__struct_config__.tag)
    except (StorageError, ValueError) as error:
        flaw = f"entry {entry.index}: {reason_of(error)}"
    return row, flaw


def _configuration(configuration: GroupConfiguration) -> Row:
    """Return who votes and learns, as [node id, directory id], and the revision as [generation, index]."""
    return {
        "revision": list(configuration.revision),
        "voter_sets": [[list(voter) for voter in voters] for voters in configuration.voter_sets],
        "learners": [list(learner) for learner in configuration.learners],
    }


def _batch(entry: Entry) -> tuple[Row, str | None]:
    """Return the header of a record batch, and what in it contradicts the entry."""
    header, size = read_header(entry.payload), len(entry.payload)
    row: Row = {
        "bytes": header.size,
        "base_offset": header.base_offset,
        "records": header.record_count,
        "leader_epoch": header.leader_epoch,
        "codec": CODECS[header.codec] if header.codec < len(CODECS) else f"unknown ({header.codec})",
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "is_log_append_time": header.uses_log_append_time,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        # What a control batch says.
        "marker": None,
    }
    if header.size != size:
        return row, f"entry {entry.index}: a batch of {header.size} bytes in a payload of {size}"
    if header.record_count != entry.record_count:
        return (
            row,
            f"entry {entry.index}: a batch of {header.record_count} records, the entry says {entry.record_count}",
        )
    if header.base_offset != entry.base_offset:
        return row, f"entry {entry.index}: a batch at offset {header.base_offset}, the entry says {entry.base_offset}"
    if header.is_control:
        try:
            row["marker"] = marker_row(entry.payload)
        except CorruptRecordsError as error:
            return row, f"entry {entry.index}: {error}"
    return row, None
