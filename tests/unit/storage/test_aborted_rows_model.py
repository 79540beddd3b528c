"""Rows of aborted transactions against a replay of the log, for each [a, b), through all that may happen to a log."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from log_harness import Place, Spec, append, barrier, ends, flip, steps

from model.control_batch import MarkerType
from model.ids import Index, Offset, Term
from storage.aborted_rows import NO_ROWS, AbortedRow
from storage.entry import Entry
from storage.log import Log
from storage.log_start import ORIGIN, LogStart
from storage.read_ahead import ReadAheadBudget
from storage.read_cache import CacheBudgets, ReadCacheBudget
from storage.rows_budget import RowsBudget
from storage.snapshot_file import Snapshot
from storage.tail_cache import TailBudget
from storage.verified_ranges import VerifiedBudget

EVERYTHING = 1 << 20
PRODUCERS = st.integers(1, 4)
# Of one producer: batches of its transaction, or the end of it. 0 is a batch of nobody's, and -1 an entry without any.
ACTS = st.one_of(
    st.tuples(st.sampled_from([-1, 0]), st.just("write")),
    st.tuples(PRODUCERS, st.just("write")),
    st.tuples(PRODUCERS, st.sampled_from(["abort", "commit"])),
    st.tuples(PRODUCERS, st.just("abort")),
)
STORIES = st.lists(ACTS, min_size=1, max_size=8)


class RowsMachine(RuleBasedStateMachine):
    """`entries` is what was written, and `rows` what each of them adds: one row for an ABORT marker, else None.

    `begun` has, for each entry, where the transactions begin that are open behind it.
    """

    @initialize(
        segment_bytes=st.sampled_from([200, 700, 2000]),
        budget=st.sampled_from([0, 1100, EVERYTHING]),
        tail=st.sampled_from([1, EVERYTHING]),
    )
    def begin(self, segment_bytes: int, budget: int, tail: int) -> None:
        self.folder = tempfile.mkdtemp(prefix="rows-model-")
        self.place = Place(Path(self.folder), segment_bytes=segment_bytes, tail_cache_bytes=tail)
        others = (TailBudget(EVERYTHING), ReadCacheBudget(0), ReadAheadBudget(0), VerifiedBudget(1000, 100))
        self.caches = CacheBudgets(*others, RowsBudget(budget))
        self.runner = asyncio.Runner()
        self.entries: list[Entry] = []
        self.rows: list[AbortedRow | None] = []
        self.begun: list[dict[int, int]] = []
        self.start = ORIGIN
        self.saved = ORIGIN
        self.log: Log = self.runner.run(self.place.open(caches=self.caches))

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.log.close())
            self.runner.close()
            shutil.rmtree(self.folder)
            assert self.caches.rows.used == 0

    # -- what is done ---------------------------------------------------------------------------------------------

    @rule(story=STORIES, next_term=st.booleans(), size=st.sampled_from([0, 60, 400]))
    def write(self, story: list[tuple[int, str]], next_term: bool, size: int) -> None:
        term = max(1, int(self.log.last_term)) + next_term
        begun = dict(self.begun[-1]) if self.begun else {}
        offset, specs = int(self.log.next_offset), []
        for producer, act in story:
            if act == "write" and producer < 0:
                spec = barrier(term)
            elif act == "write":
                spec = Spec(term=term, size=size, records=1 + (producer + size) % 3)
                if producer:
                    begun.setdefault(producer, offset)
            elif producer not in begun:
                continue
            else:
                first = begun.pop(producer)
                spec = ends(producer, first, MarkerType.ABORT if act == "abort" else MarkerType.COMMIT, term)
                if act == "abort":
                    self.rows += [None] * (len(self.entries) + len(specs) - len(self.rows))
                    self.rows.append(AbortedRow(producer, Offset(first), Offset(offset)))
            specs.append(spec)
            self.begun.append(dict(begun))
            offset += spec.records if spec.marker is None else 1
        if specs:
            self.entries += self.runner.run(append(self.log, *specs))
        self.rows += [None] * (len(self.entries) - len(self.rows))

    @rule()
    def flush(self) -> None:
        self.runner.run(self.log.flush())
        self.runner.run(steps(60))  # Index files.

    def is_readable(self) -> bool:
        return len(self.entries) >= self.start.index

    @precondition(is_readable)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        lowest = max(int(self.start.index), int(self.saved.index))
        first_removed = data.draw(st.integers(lowest, len(self.entries)), label="first removed")
        self.runner.run(self.log.truncate(Index(first_removed)))
        self.forget_from(first_removed)

    def forget_from(self, index: int) -> None:
        for each in (self.entries, self.rows, self.begun):
            del each[index - 1 :]

    @precondition(is_readable)
    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        """Delete the segments wholly below an entry."""
        self.runner.run(self.log.flush())
        index = data.draw(st.integers(self.start.index, len(self.entries)), label="start")
        entry = self.entries[index - 1]
        before = self.entries[index - 2].term if index > 1 else Term(0)
        self.start = self.saved = LogStart(Index(index), entry.base_offset, entry.base_offset, before)
        self.log.advance_start(self.start)
        self.runner.run(self.log.save_snapshot(Snapshot(self.start, self.start.prev_index, before, b"")))

    @rule(data=st.data(), how=st.sampled_from(["kept", "lost", "damaged"]), is_crash=st.booleans())
    def restart(self, data: st.DataObject, how: str, is_crash: bool) -> None:
        self.runner.run(self.place.crash(self.log) if is_crash else self.log.close())
        self.spoil(data, how)
        self.log = self.runner.run(self.place.open(caches=self.caches))
        assert self.log.dirty_index == len(self.entries)

    @rule(data=st.data(), how=st.sampled_from(["lost", "damaged"]))
    def spoil_index_files(self, data: st.DataObject, how: str) -> None:
        self.spoil(data, how)

    def spoil(self, data: st.DataObject, how: str) -> None:
        for name in self.place.names(".index"):
            path = self.place.directory / name
            if how != "kept" and data.draw(st.booleans(), label=f"{name} {how}"):
                if how == "lost":
                    path.unlink()
                else:
                    flip(path, data.draw(st.integers(0, path.stat().st_size - 1), label="at byte"))

    # -- what must hold -------------------------------------------------------------------------------------------

    def wanted(self, first: int, begin: int, end: int) -> list[AbortedRow]:
        """What a replay from entry `first` on finds for [begin, end)."""
        rows = [each for each in self.rows[first - 1 :] if each is not None]
        return [each for each in rows if each.marker_offset >= begin and each.first_offset < end]

    @precondition(is_readable)
    @rule()
    def each_range_has_its_rows(self) -> None:
        async def look() -> None:
            for first in range(self.start.index, len(self.entries) + 1):
                begin = self.entries[first - 1].base_offset
                for end in range(begin, int(self.log.next_offset) + 1):
                    found = await self.log.reader._aborted.within(Index(first), begin, Offset(end))
                    assert found == self.wanted(first, begin, end)

        self.runner.run(look())

    @precondition(is_readable)
    @rule(data=st.data(), max_bytes=st.sampled_from([1, 600, EVERYTHING]))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        first = data.draw(st.integers(self.start.index, len(self.entries)), label="first")
        last = data.draw(st.integers(first, len(self.entries)), label="last")
        entries, rows = self.runner.run(self.log.reader.read_with_aborted(Index(first), max_bytes, Index(last)))
        assert [entry.index for entry in entries] == list(range(first, first + len(entries)))
        assert rows == self.wanted(first, entries[0].base_offset, entries[-1].end_offset)

    @precondition(is_readable)
    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(self.start.index, len(self.entries)), label="first")
        begin = self.entries[first - 1].base_offset
        find = self.log.reader.ranges_with_aborted(Index(first), Index(len(self.entries)), EVERYTHING, begin)
        ranges, rows = self.runner.run(find)
        end = begin + sum(each.record_count for each in ranges)
        assert rows == (self.wanted(first, begin, end) if ranges else [])

    @invariant()
    def memory_knows_which_segments_have_rows(self) -> None:
        for segment in self.log._segments:
            firsts = [each.first_offset for each in self.rows[segment.base_index - 1 : segment.last_index] if each]
            assert segment.lowest_first == min(firsts, default=NO_ROWS)
            assert all(self.log._segments.may_have_rows_before(Offset(first + 1)) for first in firsts)
        active = self.log._segments.active
        assert active is None or (active.rows is not None) == active.has_rows
        assert self.caches.rows.used <= self.caches.rows.limit


RowsMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.timeout(300)
class TestRowsAgainstAReplay(RowsMachine.TestCase):
    """Run by pytest."""
