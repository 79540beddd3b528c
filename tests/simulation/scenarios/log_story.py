"""One log on the disk of a simulated machine, from process to process: for schedules that need no other replica."""

from collections.abc import Coroutine, Sequence
from typing import Any, Self, TypeVar

from model.ids import DirectoryId, GroupId, Index, Offset, Term
from model.record_batch import stamp
from storage.entry import Entry, EntryKind
from storage.errors import StorageError
from storage.log import Log
from storage.options import LogIdentity, LogOptions
from tests.simulation.clients.workload import record_batch
from tests.simulation.world.world import World

T = TypeVar("T")

DIRECTORY = "/data/groups/0123-7"
_IDENTITY = LogIdentity(GroupId("0123-7"), DirectoryId("here"))


class LogStory:
    """Use as a context manager. A process that was killed or lost its power is followed by the next `open`."""

    def __init__(self, seed: int, *, segment_bytes: int = 64 * 1024) -> None:
        self.world = World(seed)
        self.machine = self.world.add_node(1)
        self.disk = self.machine.disk
        self._options = LogOptions(segment_bytes=segment_bytes, index_interval_bytes=150, tail_cache_bytes=1)
        for path in ("/data", "/data/groups"):
            self.machine.environment.files.mkdir(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.world.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run to its end in the process of now."""
        return self.world.run(self.machine, coroutine)

    def open(self) -> Log:
        """Open the log, in a new process if there is none."""
        if not self.machine.is_alive:
            self.machine.restart()
        return self.run(Log.open(self.machine.environment, DIRECTORY, _IDENTITY, self._options))

    def kill(self) -> None:
        """SIGKILL: the page cache stays."""
        self.machine.crash(power_loss=False)

    def lose_power(self) -> None:
        self.machine.crash(power_loss=True)

    def loses_power_after(self, effects: int, act: Coroutine[Any, Any, object]) -> bool:
        """Run `act` and lose power right after so many changes of the disk, or at its end; whether it was cut short."""
        record, left = self.disk.record, effects

        def dying(operation: str, path: str, *detail: int) -> None:
            nonlocal left
            record(operation, path, *detail)
            left -= 1
            if left < 0:
                raise OSError("the power is lost")

        self.disk.record = dying  # type: ignore[method-assign]
        try:
            self.run(act)
        except StorageError:
            pass
        finally:
            self.disk.record = record  # type: ignore[method-assign]
        self.lose_power()
        return left < 0

    async def reopen(self) -> None:
        """Open as a coroutine, for `loses_power_after`."""
        await Log.open(self.machine.environment, DIRECTORY, _IDENTITY, self._options)

    def append(self, log: Log, entries: Sequence[Entry]) -> list[Entry]:
        self.run(log.append(entries))
        return list(entries)

    def entries(self, log: Log) -> list[Entry]:
        """Read the whole log.

        Raises:
            CorruptLogError: What the disk has is not what was written.
        """
        found: list[Entry] = []
        while len(found) < log.dirty_index:
            found += self.run(log.read(Index(len(found) + 1), 1 << 20))
        return found


def data(log: Log, count: int, *, term: int = 1, size: int = 40) -> list[Entry]:
    """Return batches of one record that follow the log's end."""
    made = []
    for number in range(1, count + 1):
        index, offset = Index(log.dirty_index + number), Offset(log.next_offset + number - 1)
        batch = record_batch([b"%d-%d-" % (index, term) + b"x" * size])
        stamp(batch, offset, Term(term))
        made.append(Entry(index, Term(term), EntryKind.DATA, offset, 1, bytes(batch)))
    return made


def barrier(log: Log, term: int) -> Entry:
    """Return the first entry of a term, behind the log's end."""
    return Entry(Index(log.dirty_index + 1), Term(term), EntryKind.BARRIER, log.next_offset, 0, b"")


def plain(entries: Sequence[Entry]) -> list[tuple[int, int, int, bytes]]:
    """Return what makes entries equal."""
    return [(entry.index, entry.term, entry.base_offset, bytes(entry.payload)) for entry in entries]
