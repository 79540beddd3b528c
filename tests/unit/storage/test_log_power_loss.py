"""Any sequence of operations, cut at any effect on the disk by a power loss or a kill: what was flushed is there."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_harness import Spec, append, entries_after, plain
from test_log_crash_points import Life, new_disk

from model.ids import Index, Offset, Term
from storage.entry import Entry
from storage.errors import StorageError
from storage.log import Log
from storage.log_start import ORIGIN, LogStart
from storage.snapshot_file import Snapshot

STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "flush", "truncate", "save", "save", "install"]), st.integers(0, 9)),
    min_size=1,
    max_size=14,
)


class History:
    """What the log did, and what may be found after the power is lost.

    `entries` holds the newest entry of each index; `flushed` is what must be there; `snapshots` are those that may be
    found: the newest durable one and the one that was being written.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.entries: dict[int, Entry] = {}
        self.snapshots: list[Snapshot | None] = [None]
        self.flushed = 0
        self.is_installing = False

    def start_at(self, index: int) -> LogStart:
        log = self.log
        if index == log.start_index:
            return log.start
        before = self.entries[index - 1]
        return LogStart(Index(index), before.end_offset, before.end_offset, before.term)

    async def step(self, name: str, number: int) -> None:
        log = self.log
        if name == "append":
            term = max(1, int(log.last_term)) + (number == 7)
            specs = [Spec(term=term, size=30 * number)] * (1 + number % 3)
            made = entries_after(log.last_index, log.next_offset, specs)
            self.entries.update({entry.index: entry for entry in made})
            await log.append(made)
        elif name == "flush":
            await log.flush()
            self.flushed = int(log.flushed_index)
        elif name == "truncate":
            lowest = max(int(log.start_index), int(log.snapshot_index) + 1)
            first = max(lowest, int(log.last_index) - number)
            if first <= log.last_index:
                self.flushed = min(self.flushed, first - 1)
                await log.truncate(Index(first))
        elif name == "save":
            index = min(int(log.flushed_index), int(log.start_index) + number) + 1
            start = self.start_at(max(index, int(log.start_index)))
            log.advance_start(start)
            await self.save(Snapshot(start, max(start.prev_index, log.snapshot_index), Term(99), b"s" * 700))
        else:
            index = int(log.last_index) + 2 + number
            start = LogStart(
                Index(index), log.next_offset, Offset(log.next_offset + 1), Term(max(1, int(log.last_term)))
            )
            snapshot = Snapshot(start, start.prev_index, start.prev_term, b"i" * 700)
            self.snapshots = [self.snapshots[-1], snapshot]
            self.is_installing = True
            await log.install(snapshot)
            self.is_installing = False
            self.snapshots = [snapshot]
            self.flushed = index - 1

    async def save(self, snapshot: Snapshot) -> None:
        self.snapshots = [self.snapshots[-1], snapshot]
        await self.log.save_snapshot(snapshot)
        self.snapshots = [snapshot]

    async def check(self, log: Log) -> None:
        found = log.take_snapshot()
        assert found in self.snapshots
        assert log.start == (found.start if found is not None else ORIGIN)
        if self.is_installing and found == self.snapshots[-1]:
            assert (log.last_index, log.size_bytes) == (log.start.prev_index, 0)
            return
        assert log.last_index >= self.flushed
        assert log.flushed_index == log.last_index
        run = await log.read(log.start_index, 1 << 30)
        assert plain(run) == plain([self.entries[index] for index in range(log.start_index, log.last_index + 1)])


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, effects=st.integers(0, 120), seed=st.one_of(st.none(), st.integers(0, 1000)))
def test_what_was_flushed_survives_and_nothing_is_mixed(
    steps: list[tuple[str, int]], effects: int, seed: int | None
) -> None:
    async def scenario() -> None:
        disk = new_disk(seed)
        life = Life(disk)
        history = History(await life.log())
        life.left = effects
        try:
            for name, number in steps:
                await history.step(name, number)
        except StorageError:
            pass
        if seed is not None:
            disk.lose_power()
        for _ in range(2):
            log = await Life(disk).log()
            found = (log.start, log.last_index)
            await history.check(log)
            await log.close()
        log = await Life(disk).log()
        assert (log.start, log.last_index) == found, "a second start finds what the first one found"
        await append(log, Spec(term=100))
        await log.close()

    asyncio.run(scenario())
