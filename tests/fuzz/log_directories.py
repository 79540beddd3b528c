"""A replica's directory after anything: recovered to entries whose checksums are right, or refused and left as it was.

An input is a row of files: for each a byte that names it, a length of two bytes, and its content.
"""

import random

from model.ids import GroupId, Index
from runtime.open_files import OPEN_FILES_MIN, OpenFiles
from storage.aborted_rows import NO_ROWS, aborted_row
from storage.compacted_mark import COMPACTED_NAME
from storage.errors import StorageError
from storage.log_recovery import LogRecovery, RecoveredLog, RecoveryRequest
from storage.options import LogOptions
from storage.segment import SegmentView, is_control, scan, segment_name
from tests.fuzz.checksums import sealed_body, sealed_entries
from tests.simulation.world.sim_disk import Inode, SimDisk, SimFileSystem
from tests.simulation.world.trace import Trace
from tests.simulation.world.virtual_loop import Scheduler, VirtualLoop

DIRECTORY = "/g"
NAMES = (
    *(segment_name(1, 1), segment_name(3, 1), segment_name(5, 2)),
    *(segment_name(1, 1).replace(".log", ".index"), segment_name(3, 1).replace(".log", ".index")),
    *("snapshot", f"{segment_name(3, 1)}.damaged", "snapshot.tmp", COMPACTED_NAME),
)
OPTIONS = LogOptions(segment_bytes=4096, index_interval_bytes=128, tail_cache_bytes=1)
_SEALED, _ISOLATE, _RESCAN = 1, 2, 4


def packed_files(flags: int, files: dict[str, bytes]) -> bytes:
    """Return the input that stands for these files."""
    rows = (bytes([NAMES.index(name)]) + len(content).to_bytes(2, "big") + content for name, content in files.items())
    return bytes([flags]) + b"".join(rows)


def unpacked_files(data: bytes) -> dict[str, bytes]:
    """Return the files of an input; with bit 0 of the first byte all checksums in them are right."""
    files: dict[str, bytes] = {}
    position = 1
    while position < len(data):
        name = NAMES[data[position] % len(NAMES)]
        length = int.from_bytes(data[position + 1 : position + 3], "big")
        content = data[position + 3 : position + 3 + length]
        if data[0] & _SEALED and name != COMPACTED_NAME:
            content = sealed_entries(content) if name.endswith((".log", ".damaged")) else sealed_body(content)
        files[name] = content
        position += 3 + length
    return files


def log_directory(data: bytes) -> None:
    """Recover a directory twice: the second time nothing is left to be done."""
    flags = data[0] if data else 0
    disk = disk_with(unpacked_files(data))
    before = _content(disk)
    paths = frozenset(f"{DIRECTORY}/{name}" for name in NAMES) if flags & _RESCAN else frozenset()
    request = RecoveryRequest(Index(0), bool(flags & _ISOLATE), paths, now_ms=1_000)
    try:
        log = _recover(disk, request)
    except StorageError:
        assert _content(disk) == before, "refused, and yet something was changed"
        raise
    _check_entries(log)
    again = _recover(disk, request)
    assert (again.start, again.last_index, again.next_offset) == (log.start, log.last_index, log.next_offset)
    if not log.is_isolated:
        assert (again.cut_bytes, again.damage) == (0, None)


def disk_with(files: dict[str, bytes]) -> SimFileSystem:
    """Return a disk that holds these files in one directory."""
    scheduler = Scheduler()
    disk = SimDisk(1, random.Random(0), Trace(scheduler, recent=1))
    system = SimFileSystem(disk, VirtualLoop(scheduler, lambda _: None))
    system.mkdir(DIRECTORY)
    for name, content in files.items():
        file = system.open(f"{DIRECTORY}/{name}", create=True)
        file.pwritev([content], 0)
        file.fsync()
        file.close()
    system.fsync_dir(DIRECTORY)
    return system


def _content(system: SimFileSystem) -> dict[str, bytes]:
    entries = system.disk.root.entries["g"].entries
    return {name: bytes(inode.data) for name, inode in entries.items() if isinstance(inode, Inode)}


def _recover(system: SimFileSystem, request: RecoveryRequest) -> RecoveredLog:
    return LogRecovery(OpenFiles(system, OPEN_FILES_MIN), DIRECTORY, GroupId("g"), OPTIONS, request).run()


def _check_entries(log: RecoveredLog) -> None:
    """What is kept is dense, ends where the log says, and every checksum in it is right."""
    due = log.segments[0].base_index if log.segments else Index(log.last_index + 1)
    for segment in log.segments:
        assert segment.base_index == due
        if segment.has_index_file:
            # Trusted without a look at the entries: that is what the file is for.
            due = Index(segment.last_index + 1)
            continue
        lowest = NO_ROWS
        for position, parsed in scan(SegmentView(segment.path, segment.file, 0, segment.size)):
            assert parsed.entry.index == due
            assert position + parsed.entry.size <= segment.size
            due = Index(parsed.entry.last_index + 1)
            row = aborted_row(parsed.entry) if is_control(parsed.entry) else None
            lowest = min(lowest, NO_ROWS if row is None else row.first_offset)
        assert segment.lowest_first == lowest
        assert (segment.rows is not None) == segment.has_rows
    assert due == log.last_index + 1
