"""The `.index` file beside a closed segment: its sparse index and its facts, so that a restart need not scan it.

Only an accelerator where it is missing, damaged, of another group or of other bytes. It is also a witness (RFC 0002,
2): it exists only where everything up to its last index was fsynced.
"""

import contextlib
from typing import NamedTuple

import crc32c
import msgspec

from model.ids import GroupId, Index
from runtime.files import FileSystem
from storage.segment_index import TermStart

FORMAT_VERSION = 3
# Without rows of aborted transactions: written where there are none, so that an older version need not scan these
# segments again.
FORMAT_WITHOUT_ROWS = 2
# Of columns of rows, and of what log compaction has added; left out where they hold nothing.
_ROW_COLUMNS, _CLEANED_FIELDS = 3, 3


class CleanedTime(NamedTuple):
    """When entries were cleaned first, by the wall clock: those up to `last_index`, behind those of the pair before."""

    last_index: Index
    time_ms: int


TEMPORARY_SUFFIX = ".tmp"
_CRC_BYTES = 4


class IndexRecord(msgspec.Struct, frozen=True, array_like=True):
    """The content. `terms` begins at the segment's first entry; `data_term` is 0 without data; columns are i64.

    `producers`, `firsts` and `markers` are those of the rows of aborted transactions, from format 3 on. Of a segment
    that a pass has written, `cleaned_to` is the end of the pass, `cleaned_times` are of its entries, and `delete_bytes`
    those of its tombstones and markers (RFC 0022).
    """

    format_version: int
    group: str
    base_index: int
    size: int
    last_index: int
    end_offset: int
    max_timestamp: int
    created_ms: int
    closed_ms: int
    data_term: int
    terms: list[TermStart]
    indexes: bytes
    offsets: bytes
    timestamps: bytes
    positions: bytes
    producers: bytes = b""
    firsts: bytes = b""
    markers: bytes = b""
    cleaned_to: int = 0
    cleaned_times: list[CleanedTime] = []
    delete_bytes: int = 0

    @property
    def columns(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Of the sparse index, as `SegmentIndex.columns`."""
        return self.indexes, self.offsets, self.timestamps, self.positions

    @property
    def rows(self) -> tuple[bytes, bytes, bytes]:
        """Of aborted transactions, as `AbortedRows.columns`."""
        return self.producers, self.firsts, self.markers

    def with_rows(self, columns: tuple[bytes, bytes, bytes]) -> "IndexRecord":
        """Return the record with these rows of aborted transactions, in the format that has them."""
        producers, firsts, markers = columns
        return msgspec.structs.replace(
            self, format_version=FORMAT_VERSION, producers=producers, firsts=firsts, markers=markers
        )


# Made here, and not at the first file: logs open on several threads at once, and where two threads are the first to use
# a type, msgspec 0.22 ends the process with a segmentation fault. No module of storage decodes by a type otherwise.
_decoder = msgspec.msgpack.Decoder(IndexRecord)


def index_path(segment_path: str) -> str:
    """Return where a closed segment's index file lies."""
    return segment_path.removesuffix(".log") + ".index"


def encode_index(record: IndexRecord) -> bytes:
    """Return the bytes of an `.index` file: CRC32C, then msgpack."""
    fields = msgspec.structs.astuple(record)
    if not record.cleaned_to:
        fields = fields[:-_CLEANED_FIELDS]
    if record.format_version == FORMAT_WITHOUT_ROWS:
        assert not record.cleaned_to
        assert not any(record.rows)
        fields = fields[:-_ROW_COLUMNS]
    body = msgspec.msgpack.encode(fields)
    return crc32c.crc32c(body).to_bytes(_CRC_BYTES, "big") + body


def decode_index(content: bytes, group: GroupId, base_index: int) -> IndexRecord | None:
    """Read an `.index` file; None if it is damaged, of another format or group, or of a segment with another base."""
    body = content[_CRC_BYTES:]
    if not body or crc32c.crc32c(body) != int.from_bytes(content[:_CRC_BYTES], "big"):
        return None
    try:
        record = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if (record.group, record.base_index) != (group, base_index):
        return None
    if record.format_version != FORMAT_VERSION and (record.format_version != FORMAT_WITHOUT_ROWS or any(record.rows)):
        return None
    if not record.terms or record.terms[0].first_index != base_index or record.last_index < base_index:
        return None
    if record.cleaned_to < 0 or record.cleaned_times != sorted(record.cleaned_times):
        return None
    for columns in (record.columns, record.rows):
        if len({len(column) for column in columns}) != 1 or len(columns[0]) % 8:
            return None
    return record


def write_index_file(files: FileSystem, path: str, content: bytes) -> None:
    """Write an index file: temporary, fsync, rename. Its directory entry may be lost: then it is built again.

    Raises:
        OSError: There is none; what was written of it is removed again if possible.
    """
    temporary = path + TEMPORARY_SUFFIX
    if files.exists(temporary):
        files.unlink(temporary)
    try:
        file = files.open(temporary, create=True)
        try:
            file.pwritev([content], 0)
            file.fsync()
        finally:
            file.close()
        files.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            files.unlink(temporary)
        raise


def read_index_file(files: FileSystem, path: str, group: GroupId, base_index: int) -> IndexRecord | None:
    """Return the index file's content, None if there is none or it cannot be used."""
    if not files.exists(path):
        return None
    file = files.open(path)
    try:
        return decode_index(file.pread(file.size(), 0), group, base_index)
    finally:
        file.close()


def remove_index_file(files: FileSystem, directory: str, path: str) -> None:
    """Delete an index file durably, if there is one: its segment is about to change."""
    if files.exists(path):
        files.unlink(path)
        files.fsync_dir(directory)
