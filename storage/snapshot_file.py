"""The file `snapshot` of a replica: where its log starts and the state as of a committed entry, one atomic fact.

    0  crc       u32   CRC32C of everything behind it
    4  format    u8    1; format 2 has parts: `snapshot_parts`
    5  body            msgpack: start, applied index, applied term, state

Format 2 is written only with a configuration, which a group has once its members have changed (RFC 0019): an older
version reads format 1.

Replaced as a whole: written beside, fsynced, renamed, directory fsynced (RFC 0008). What it says holds before the
first segment that it makes needless is deleted.
"""

import asyncio
import contextlib
import errno
from collections.abc import Iterator

import crc32c
import msgspec

from model.error_text import reason_of
from model.ids import Index, Term
from runtime.files import File, FileSystem
from runtime.open_files import NO_DESCRIPTORS
from storage.errors import (
    CorruptLogError,
    DiskFullError,
    OpenFilesError,
    SnapshotTooLargeError,
    UnknownFormatError,
)
from storage.log_start import LogStart
from storage.snapshot_parts import (
    CRC_BYTES,
    FORMAT_POSITION,
    FORMAT_WITH_PARTS,
    MARK_BYTES,
    PART_BYTES_MAX,
    Buffer,
    Read,
    SnapshotHeader,
    count_parts,
    covered_checksum,
    encoded,
    is_in_parts,
    read_parts,
)

FORMAT_IN_ONE = 1
FORMAT_VERSION = FORMAT_WITH_PARTS
SNAPSHOT_NAME = "snapshot"
STATE_BYTES_MAX = 64 * 1024 * 1024
CONFIGURATION_BYTES_MAX = 64 * 1024
# Also a limit on the size of files (RLIMIT_FSIZE): like a quota it may be raised, and what is written is sound.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_TEMPORARY_SUFFIX = ".tmp"
# A smaller file is read at one go, and so much of a larger one before its format is known.
_FIRST_BYTES = 2 * PART_BYTES_MAX
# Of the checksum: a quarter of a millisecond's work.
_STEP_BYTES = 4 * 1024 * 1024


class UnsettledSnapshotError(Exception):
    """The snapshot was replaced, and its directory could not be opened for the fsync: that is still to be done."""


class Snapshot(msgspec.Struct, frozen=True):
    """Start and state of a replica. Invariant: applied_index >= start.index - 1.

    Attributes:
        start: Where the log starts.
        applied_index: The committed entry as of which `state` is.
        applied_term: Its term.
        state: At most STATE_BYTES_MAX; its meaning is the owner's.
        configuration: Payload of the configuration that was in force at `applied_index`, at most
            CONFIGURATION_BYTES_MAX; empty: the one that the group was created with.
    """

    start: LogStart
    applied_index: Index
    applied_term: Term
    state: bytes
    configuration: bytes = b""

    def flaw(self) -> str | None:
        """Return what makes it impossible; None if nothing does."""
        if self.applied_index < self.start.prev_index:
            return f"state as of entry {self.applied_index} before a log start at {self.start.index}"
        if len(self.state) > STATE_BYTES_MAX:
            return f"state of {len(self.state)} bytes, over {STATE_BYTES_MAX}"
        if len(self.configuration) > CONFIGURATION_BYTES_MAX:
            return f"configuration of {len(self.configuration)} bytes, over {CONFIGURATION_BYTES_MAX}"
        if self.applied_term < self.start.prev_term:
            return f"state of term {self.applied_term} behind a log start after term {self.start.prev_term}"
        return self.start.flaw()


# As in `index_file`.
_body_decoder = msgspec.msgpack.Decoder(tuple[LogStart, Index, Term, bytes])


def snapshot_path(directory: str) -> str:
    """Return where a replica's snapshot lies."""
    return f"{directory}/{SNAPSHOT_NAME}"


def has_parts(snapshot: Snapshot) -> bool:
    """Whether a snapshot is written in format 2: it says what format 1 cannot."""
    return bool(snapshot.configuration)


def encode_snapshot(snapshot: Snapshot, part_bytes: int = PART_BYTES_MAX) -> bytes:
    """Return the bytes of a snapshot file, whose parts in format 2 have so many bytes. It takes time: see below."""
    if has_parts(snapshot):
        covered = b"".join(buffer for piece in _pieces(snapshot, part_bytes) for buffer in piece)
    else:
        covered = _head(snapshot) + snapshot.state
    return crc32c.crc32c(covered).to_bytes(CRC_BYTES, "big") + covered


async def snapshot_checksum(snapshot: Snapshot) -> int:
    """Return the checksum, in [0, 2^32), that the file of `snapshot` has; other tasks run meanwhile."""
    if has_parts(snapshot):
        crc = 0
        for piece in _pieces(snapshot):
            crc = covered_checksum(piece, crc)
            await asyncio.sleep(0)
        return crc
    crc, state = crc32c.crc32c(_head(snapshot)), memoryview(snapshot.state)
    for position in range(0, len(state), _STEP_BYTES):
        crc = crc32c.crc32c(state[position : position + _STEP_BYTES], crc)
        await asyncio.sleep(0)
    return crc


def _pieces(snapshot: Snapshot, part_bytes: int = PART_BYTES_MAX) -> Iterator[list[Buffer]]:
    """Yield what the checksum of format 2 covers, a part at a time."""
    size = len(snapshot.state)
    header = SnapshotHeader(
        *(snapshot.start, snapshot.applied_index, snapshot.applied_term),
        *(count_parts(size, part_bytes), size, snapshot.configuration),
    )
    return encoded(header, snapshot.state, part_bytes)


def _head(snapshot: Snapshot) -> bytes:
    """Return what the checksum of format 1 covers before the bytes of the state, which are not copied for it."""
    head = msgspec.msgpack.encode([snapshot.start, snapshot.applied_index, snapshot.applied_term, b""])
    size = len(snapshot.state)
    mark, length_bytes = (0xC4, 1) if size < 1 << 8 else (0xC5, 2) if size < 1 << 16 else (0xC6, 4)
    # The mark and the length of no bytes give way to those of the state.
    return bytes([FORMAT_IN_ONE]) + head[:-2] + bytes([mark]) + size.to_bytes(length_bytes, "big")


def decode_snapshot(content: bytes, path: str) -> Snapshot:
    """Read the bytes of a snapshot file; `path` is for messages.

    Raises:
        UnknownFormatError: It is whole, and a newer version wrote it.
        CorruptLogError: It is damaged.
    """
    if is_in_parts(content):
        return _decode_parts(lambda size, position: content[position : position + size], len(content), path)
    if len(content) <= MARK_BYTES or crc32c.crc32c(content[CRC_BYTES:]) != int.from_bytes(content[:CRC_BYTES], "big"):
        raise CorruptLogError(f"{path} is damaged: wrong checksum", path)
    version = content[FORMAT_POSITION]
    if version != FORMAT_IN_ONE:
        raise UnknownFormatError(
            f"{path} has format {version}, this version reads {FORMAT_IN_ONE} and {FORMAT_WITH_PARTS}"
        )
    try:
        snapshot = Snapshot(*_body_decoder.decode(content[MARK_BYTES:]))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptLogError(f"{path} is damaged: {error}", path) from error
    return _possible(snapshot, path)


def _decode_parts(read: Read, size: int, path: str) -> Snapshot:
    header, state = read_parts(read, size, path, STATE_BYTES_MAX)
    snapshot = Snapshot(header.start, header.applied_index, header.applied_term, state, header.configuration)
    return _possible(snapshot, path)


def _possible(snapshot: Snapshot, path: str) -> Snapshot:
    if flaw := snapshot.flaw():
        raise CorruptLogError(f"{path} is damaged: {flaw}", path)
    return snapshot


def read_snapshot(files: FileSystem, directory: str) -> Snapshot | None:
    """Return the snapshot in a replica's directory, None if there is none. Blocking.

    Raises:
        UnknownFormatError: A newer version wrote it.
        CorruptLogError: It is damaged.
    """
    path = snapshot_path(directory)
    if not files.exists(path):
        return None
    file = files.open(path)
    try:
        size = file.size()
        first = file.pread(min(size, _FIRST_BYTES), 0)
        if is_in_parts(first):
            return _decode_parts(_behind(first, file), size, path)
        content = first if size <= len(first) else first + file.pread(size - len(first), len(first))
    finally:
        file.close()
    return decode_snapshot(content, path)


def _behind(first: bytes, file: File) -> Read:
    """Return what reads a file whose first bytes were read already."""

    def read(size: int, position: int) -> bytes:
        end = position + size
        return first[position:end] if end <= len(first) else file.pread(size, position)

    return read


def write_snapshot(files: FileSystem, directory: str, snapshot: Snapshot) -> None:
    """Replace the snapshot; it is durable when this returns. Blocking.

    Raises:
        SnapshotTooLargeError: The former one is still there, and nothing was written.
        RefusedError: The former one is still there, and nothing else: there is no room, or no descriptor.
        UnsettledSnapshotError: The new one has its name, which is not durable for want of a descriptor.
        OSError: Which of the two a restart finds is not known.
    """
    path = snapshot_path(directory)
    if len(snapshot.state) > STATE_BYTES_MAX:
        raise SnapshotTooLargeError(
            f"{path}: state of {len(snapshot.state)} bytes, at most {STATE_BYTES_MAX} are saved"
        )
    assert snapshot.flaw() is None, snapshot.flaw()
    temporary = path + _TEMPORARY_SUFFIX
    try:
        _write_durably(files, temporary, snapshot)
        files.rename(temporary, path)
    except OSError as error:
        # What is left is never read, and goes with the next save or the next start.
        with contextlib.suppress(OSError):
            files.unlink(temporary)
        if error.errno in DISK_FULL:
            raise DiskFullError(f"{path}: {reason_of(error)}") from error
        if error.errno in NO_DESCRIPTORS:
            raise OpenFilesError(f"{path}: {reason_of(error)}: raise `ulimit -n`") from error
        raise
    try:
        files.fsync_dir(directory)
    except OSError as error:
        if error.errno in NO_DESCRIPTORS:
            raise UnsettledSnapshotError(directory) from error
        raise


def _write_durably(files: FileSystem, path: str, snapshot: Snapshot) -> None:
    if files.exists(path):
        files.unlink(path)
    file = files.open(path, create=True)
    try:
        if has_parts(snapshot):
            _write_parts(file, snapshot)
        else:
            file.pwritev([encode_snapshot(snapshot)], 0)
        file.fsync()
    finally:
        file.close()


def _write_parts(file: File, snapshot: Snapshot) -> None:
    """Write part by part, and last the checksum of the whole: no copy of the state is made."""
    crc, position = 0, 0
    # Its place, so that the file has no hole.
    ahead: list[Buffer] = [bytes(CRC_BYTES)]
    for piece in _pieces(snapshot):
        buffers = ahead + piece
        file.pwritev(buffers, position)
        position += sum(map(len, buffers))
        crc = covered_checksum(piece, crc)
        ahead = []
    file.pwritev([crc.to_bytes(CRC_BYTES, "big")], 0)
