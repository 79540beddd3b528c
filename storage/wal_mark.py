"""How far RocksDB's WAL was fsynced: the file `synced.mark` beside it, so that a torn tail can be told from damage.

After a power loss any of the pages that no fsync covered may be missing, earlier ones too. RocksDB's recovery modes
either refuse such a WAL or open one whose synced records are damaged; none of them knows which bytes were synced
(RFC 0002 section 8 has the table). The mark knows:

    damage in front of the mark    durable bytes have changed: refused, nothing is touched
    damage behind it               un-fsynced bytes: the WAL may be cut where the damage begins

    slot, at 0 and at 4096, written in turn and fsynced before a sync is answered:
    0  crc       u32   CRC32C of what follows
    4  format    u8    1
    5  sequence  u64   the valid slot with the larger one counts
    13 wal       u64   number of the newest WAL file
    21 size      u64   so many bytes of it were fsynced, and all of older ones

A directory of an earlier version has no mark; then nothing is known, and RocksDB judges alone. Blocking: runs on a
worker.
"""

import re
import struct
from typing import NamedTuple

import crc32c

from runtime.files import File, FileSystem
from storage.errors import KvStoreError

FORMAT_VERSION = 1
MARK_NAME = "synced.mark"
_SLOT = struct.Struct(">BQQQ")
_SLOT_BYTES = 4096
_WAL_NAME = re.compile(r"(\d{6,})\.log")

# RocksDB's log format: physical records in blocks, each with CRC (masked), length and type before its payload.
_BLOCK_BYTES = 32 * 1024
_HEADER = struct.Struct("<IHB")
_RECYCLABLE = range(5, 9)
_LOG_NUMBER_BYTES = 4
_CRC_DELTA = 0xA282EAD8


class Synced(NamedTuple):
    """`size` bytes of WAL file `wal` and all of those before it were fsynced."""

    sequence: int
    wal: int
    size: int


class WalMark:
    """The mark of one store. Made by `open`, after RocksDB has opened the directory; ended by `close`."""

    def __init__(self, files: FileSystem, directory: str, file: File, sequence: int) -> None:
        self._files = files
        self._directory = directory
        self._file = file
        self._sequence = sequence

    @classmethod
    def open(cls, files: FileSystem, directory: str) -> "WalMark":
        """Note that everything there is before the newest WAL is durable in tables, and open the mark for what comes.

        Raises:
            OSError: The disk refuses.
        """
        found = read_mark(files, directory)
        path = f"{directory}/{MARK_NAME}"
        is_new = not files.exists(path)
        mark = cls(files, directory, files.open(path, create=is_new), found.sequence if found is not None else 0)
        try:
            if is_new:
                mark._file.pwritev([bytes(2 * _SLOT_BYTES)], 0)
            # RocksDB has unlinked the WALs that its tables hold. One that a power loss brought back would be older than
            # the mark and so count as synced: first the directory, then the mark.
            files.fsync_dir(directory)
            mark.write(mark.look()._replace(size=0))
        except BaseException:
            mark.close()
            raise
        return mark

    def look(self) -> Synced:
        """Return what an fsync that begins now covers."""
        wals = list_wals(self._files, self._directory)
        if not wals:
            return Synced(self._sequence, 0, 0)
        number, path = wals[-1]
        return Synced(self._sequence, number, _size_of(self._files, path))

    def write(self, synced: Synced) -> None:
        """Make it durable that so much was fsynced.

        Raises:
            OSError: Nobody may be told that it was.
        """
        self._sequence += 1
        covered = _SLOT.pack(FORMAT_VERSION, self._sequence, synced.wal, synced.size)
        slot = crc32c.crc32c(covered).to_bytes(4, "big") + covered
        self._file.pwritev([slot], self._sequence % 2 * _SLOT_BYTES)
        self._file.fsync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_mark(files: FileSystem, directory: str) -> Synced | None:
    """Return the newest valid mark; None if there is none.

    Raises:
        KvStoreError: A newer version wrote it.
    """
    path = f"{directory}/{MARK_NAME}"
    if not files.exists(path):
        return None
    content = _read(files, path)
    best: Synced | None = None
    for start in (0, _SLOT_BYTES):
        covered = content[start + 4 : start + 4 + _SLOT.size]
        if len(covered) < _SLOT.size or crc32c.crc32c(covered) != int.from_bytes(content[start : start + 4], "big"):
            continue  # Never written, or torn: the sync that wrote it was not answered.
        version, *numbers = _SLOT.unpack(covered)
        if version != FORMAT_VERSION:
            raise KvStoreError(f"{path} has format {version}, this version reads {FORMAT_VERSION}")
        found = Synced(*numbers)
        if best is None or found.sequence > best.sequence:
            best = found
    return best


def list_wals(files: FileSystem, directory: str) -> list[tuple[int, str]]:
    """Return number and path of the WAL files in a directory, oldest first."""
    names = [(name, _WAL_NAME.fullmatch(name)) for name in files.listdir(directory)]
    return sorted((int(match[1]), f"{directory}/{name}") for name, match in names if match is not None)


def torn_tails(files: FileSystem, directory: str) -> list[tuple[str, int]]:
    """Return which WAL files may be cut, and where; none if nothing is damaged or nothing is known.

    Raises:
        KvStoreError: Bytes that had been fsynced are damaged or missing; nothing was touched.
    """
    mark = read_mark(files, directory)
    if mark is None:
        return []
    tails = []
    for number, path in list_wals(files, directory):
        content = _read(files, path)
        synced = len(content) if number < mark.wal else mark.size if number == mark.wal else 0
        damage = first_damage(content, synced)
        if damage is not None and damage < synced:
            raise KvStoreError(
                f"{directory} cannot be opened: {path} is damaged at byte {damage}, and {synced} bytes of it had been"
                " fsynced: votes may be lost; bring the data directory back"
            )
        if damage is not None:
            tails.append((path, damage))
    return tails


def cut(files: FileSystem, tails: list[tuple[str, int]]) -> None:
    """Cut the WAL files, durably. What is cut was never fsynced."""
    for path, size in tails:
        file = files.open(path)
        try:
            file.truncate(size)
            file.fsync()
        finally:
            file.close()


def first_damage(content: bytes, synced: int) -> int | None:
    """Return where the records of a WAL end in something else than the end of the file; None if they do not.

    Zeros to the end are no damage behind the first `synced` bytes, which hold records to their end.
    """
    position = 0
    while position < len(content):
        left = _BLOCK_BYTES - position % _BLOCK_BYTES
        if left < _HEADER.size:
            if any(content[position : position + left]):
                return position
            position += left
            continue
        end = _end_of_record(content, position, left)
        if end is None:
            is_blank = position >= synced and content.count(0, position) == len(content) - position
            return None if is_blank else position
        position = end
    return position if position < synced else None


def _end_of_record(content: bytes, position: int, left: int) -> int | None:
    """Return the end of the valid physical record at `position`, None if there is none."""
    if len(content) - position < _HEADER.size:
        return None
    crc, length, kind = _HEADER.unpack_from(content, position)
    extra = _LOG_NUMBER_BYTES if kind in _RECYCLABLE else 0
    end = position + _HEADER.size + extra + length
    if kind == 0 or end > position + left or end > len(content):
        return None
    found = crc32c.crc32c(content[position + _HEADER.size - 1 : end])
    masked = ((found >> 15 | found << 17) + _CRC_DELTA) & 0xFFFFFFFF
    return end if masked == crc else None


def _size_of(files: FileSystem, path: str) -> int:
    file = files.open(path)
    try:
        return file.size()
    finally:
        file.close()


def _read(files: FileSystem, path: str) -> bytes:
    file = files.open(path)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()
