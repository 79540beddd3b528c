"""The log against a model that is a list of entries, through appends, flushes, truncations, restarts and crashes."""

import asyncio
import errno
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from log_harness import Place, Spec, append, plain, steps

from model.ids import Index, Offset, Term
from storage.entry import Entry, EntryKind
from storage.errors import DiskFullError, LogTruncatedError
from storage.log import Log
from storage.log_start import ORIGIN, LogStart
from storage.snapshot_file import Snapshot

SIZES = st.sampled_from([0, 1, 13, 60, 250, 900])
KINDS = st.sampled_from([EntryKind.DATA] * 4 + [EntryKind.BARRIER, EntryKind.COMMAND])
SPECS = st.lists(
    st.builds(
        Spec,
        term=st.sampled_from([0] * 8 + [1, 3]),
        records=st.integers(1, 4),
        timestamp=st.integers(-1, 50),
        size=SIZES,
        kind=KINDS,
    ),
    min_size=1,
    max_size=6,
)


class LogMachine(RuleBasedStateMachine):
    """`model` is what the log must hold, None for what an install jumped over; a crash must leave `durable` of it.

    `start` is where reading begins, `saved` the snapshot that a restart finds.
    """

    @initialize(
        segment_bytes=st.sampled_from([200, 700, 4000]),
        interval=st.sampled_from([1, 150, 5000]),
        cache=st.sampled_from([1, 500, 100_000]),
    )
    def begin(self, segment_bytes: int, interval: int, cache: int) -> None:
        self.folder = tempfile.mkdtemp(prefix="log-model-")
        self.place = Place(
            Path(self.folder), segment_bytes=segment_bytes, index_interval_bytes=interval, tail_cache_bytes=cache
        )
        self.runner = asyncio.Runner()
        self.model: list[Any] = []
        self.durable = 0
        self.start = ORIGIN
        self.saved: Snapshot | None = None
        # As of the newest snapshot: raft never truncates what is committed.
        self.committed = 0
        self.log: Log = self.runner.run(self.place.open())

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.close())
            self.runner.close()
            shutil.rmtree(self.folder)

    async def close(self) -> None:
        await self.log.close()
        assert self.place.disk.opened == {}

    def with_terms(self, specs: list[Spec]) -> list[Spec]:
        """Turn the drawn terms, which are steps, into terms; where the start lies inside a batch, begin with one."""
        term, made = max(1, int(self.log.last_term)), []
        inside = self.start.offset - self.start.base_offset if len(self.model) + 1 == self.start.index else 0
        for spec in specs:
            term += spec.term
            if inside and not made:
                spec = Spec(term, max(spec.records, inside + 1), spec.timestamp, spec.size, EntryKind.DATA)
            made.append(Spec(term, spec.records, spec.timestamp, spec.size, spec.kind))
        return made

    # -- what is done ---------------------------------------------------------------------------------------------

    @rule(specs=SPECS)
    def append(self, specs: list[Spec]) -> None:
        self.model += self.runner.run(append(self.log, *self.with_terms(specs)))

    @rule(specs=SPECS, half_done=st.booleans(), skip=st.integers(0, 2))
    def append_to_a_full_disk(self, specs: list[Spec], half_done: bool, skip: int) -> None:
        self.place.disk.fail("pwritev", ".log", errno.ENOSPC, half_done=half_done, skip=skip)
        try:
            self.model += self.runner.run(append(self.log, *self.with_terms(specs)))
        except DiskFullError:
            # The cut is fsynced, and with it what lay before it; the log need not know that.
            pass
        finally:
            self.place.disk.faults.clear()

    @rule()
    def flush(self) -> None:
        assert self.runner.run(self.log.flush()) == len(self.model)
        self.durable = len(self.model)
        self.runner.run(steps())  # Index files.

    @rule(specs=SPECS)
    def flush_and_append_at_once(self, specs: list[Spec]) -> None:
        async def both() -> tuple[Index, list[Entry]]:
            return await asyncio.gather(self.log.flush(), append(self.log, *self.with_terms(specs)))

        before = len(self.model)
        flushed, written = self.runner.run(both())
        self.model += written
        assert before <= flushed <= len(self.model)
        self.durable = int(flushed)

    def is_readable(self) -> bool:
        return len(self.model) >= self.start.index

    def readable(self) -> list[Entry]:
        return self.model[self.start.index - 1 :]

    @precondition(is_readable)
    @rule(data=st.data(), with_flush=st.booleans())
    def truncate(self, data: st.DataObject, with_flush: bool) -> None:
        lowest = max(int(self.start.index), self.committed + 1)
        if lowest > len(self.model):
            return
        first_removed = data.draw(st.integers(lowest, len(self.model)), label="first removed")

        async def both() -> None:
            jobs = [self.log.flush()] if with_flush else []
            await asyncio.gather(*jobs, self.log.truncate(Index(first_removed)))

        self.runner.run(both())
        del self.model[first_removed - 1 :]
        assert self.log.flushed_index >= min(self.durable, len(self.model))
        assert not with_flush or self.log.flushed_index == len(self.model)
        self.durable = int(self.log.flushed_index)

    def before(self, index: int) -> tuple[Offset, Term]:
        """Base offset of an entry at or behind the start, and the term before it."""
        if index == self.start.index:
            return self.start.base_offset, self.start.prev_term
        entry = self.model[index - 2]
        return entry.end_offset, entry.term

    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(self.start.index, int(self.log.flushed_index) + 1), label="start")
        base, term = self.before(index)
        records = self.model[index - 1].record_count if index <= len(self.model) else 0
        lowest = max(base, self.start.offset)
        offset = data.draw(st.integers(lowest, max(lowest, base + max(0, records - 1))), label="offset")
        self.start = LogStart(Index(index), base, Offset(offset), term)
        self.log.advance_start(self.start)
        self.committed = max(self.committed, index - 1)

    @rule(data=st.data(), with_append=st.booleans(), specs=SPECS)
    def save_snapshot(self, data: st.DataObject, with_append: bool, specs: list[Spec]) -> None:
        highest = int(self.log.flushed_index)
        applied = data.draw(st.integers(max(self.start.prev_index, min(self.committed, highest)), highest))
        term = self.model[applied - 1].term if applied >= self.start.index else self.start.prev_term
        snapshot = Snapshot(self.start, Index(applied), term, b"state" * applied)
        older = self.saved is not None and applied < self.saved.applied_index
        if not older:
            self.saved = snapshot

        async def both() -> None:
            job = append(self.log, *self.with_terms(specs)) if with_append else asyncio.sleep(0, [])
            _, written = await asyncio.gather(self.log.save_snapshot(snapshot), job)
            self.model += written

        self.runner.run(both())
        self.committed = max(self.committed, applied)
        assert self.saved is not None
        assert self.log.snapshot_index == self.saved.applied_index

    @rule(jump=st.integers(1, 4), records=st.integers(0, 3), into=st.integers(0, 1))
    def install(self, jump: int, records: int, into: int) -> None:
        index, offset = len(self.model) + 1 + jump, self.log.next_offset + records
        start = LogStart(Index(index), Offset(offset), Offset(offset + into), Term(max(1, int(self.log.last_term))))
        self.saved = Snapshot(start, start.prev_index, start.prev_term, b"installed")
        truncations = self.log.truncations
        assert self.runner.run(self.log.install(self.saved))
        assert self.log.truncations == truncations + 1
        self.start, self.model = start, [None] * (index - 1)
        self.durable = self.committed = index - 1

    def after_restart(self) -> None:
        found = self.log.pop_snapshot()
        assert found == self.saved
        self.start = self.saved.start if self.saved is not None else ORIGIN
        assert self.log.start == self.start

    @rule()
    def restart(self) -> None:
        self.runner.run(self.close())
        self.log = self.runner.run(self.place.open())
        self.after_restart()
        assert self.log.dirty_index == len(self.model)
        self.durable = len(self.model)

    @rule(data=st.data(), how=st.sampled_from(["nothing", "cut", "zeros", "flips", "gone"]))
    def crash(self, data: st.DataObject, how: str) -> None:
        """Kill the process; above what is durable the disk holds what it likes."""
        self.runner.run(self.place.crash(self.log))
        self.damage(data, how)
        self.log = self.runner.run(self.place.open())
        self.after_restart()
        last = int(self.log.dirty_index)
        assert self.durable <= last <= len(self.model)
        assert how != "nothing" or last == len(self.model)
        assert self.log.flushed_index == last
        del self.model[last:]
        assert plain(self.runner.run(self.log.read(self.start.index, 1 << 30))) == plain(self.readable())
        self.durable = last

    def damage(self, data: st.DataObject, how: str) -> None:
        spans = self.place.spans()
        loose = sorted(index for index in spans if index > self.durable)
        if not loose or how == "nothing":
            return
        for index in data.draw(st.lists(st.sampled_from(loose), min_size=1, max_size=3), label="damaged entries"):
            path, start, end = spans[index]
            content = bytearray(path.read_bytes())
            if start >= len(content):
                continue
            at = data.draw(st.integers(start, min(end, len(content)) - 1), label="at byte")
            if how == "cut":
                del content[at:]
            elif how == "gone":
                # The size that the last fsync made durable: an entry's end. The name is durable, too.
                first = min(each for each in loose if spans[each][0] == path)
                del content[spans[first][1] :]
            elif how == "zeros":
                content[at:] = bytes(len(content) - at)
            else:
                content[at] ^= 1 << data.draw(st.integers(0, 7), label="bit")
            path.write_bytes(content)

    # -- what must hold -------------------------------------------------------------------------------------------

    @invariant()
    def positions_are_those_of_the_model(self) -> None:
        log, model = self.log, self.model
        assert (log.start, log.start_index, log.start_offset) == (self.start, self.start.index, self.start.offset)
        assert log.dirty_index == log.pending_index == len(model)
        offset, term = self.before(len(model) + 1)
        assert log.last_term == log.pending_term == term
        assert log.next_offset == offset
        if self.start == ORIGIN:
            assert log.size_bytes == sum(entry.size for entry in model)
        assert log.size_bytes >= sum(entry.size for entry in self.readable())
        assert log.flushed_index >= self.durable
        assert log.unflushed_bytes == sum(entry.size for entry in model[log.flushed_index :])
        for index, entry in enumerate(self.readable(), self.start.index):
            assert log.term_at(Index(index)) == entry.term
            assert log.end_offset(Index(index)) in (None, entry.end_offset)
        assert log.term_at(self.start.prev_index) == self.start.prev_term
        assert log.end_offset(self.start.prev_index) == self.start.base_offset

    @invariant()
    def epochs_are_those_of_the_model(self) -> None:
        entries = self.readable()
        for term in {1, 2, 3, 5, int(self.log.last_term), int(self.log.last_term) + 1}:
            held = [entry for entry in entries if entry.term <= term]
            after = [entry.base_offset for entry in entries if entry.term > term]
            end = max(after[0] if after else self.log.next_offset, self.start.offset)
            expected = (held[-1].term, end) if held else (0, self.start.offset)
            assert self.log.epoch_end(Term(term)) == expected

    @invariant()
    def retention_is_told_of_all_readable_entries(self) -> None:
        facts = self.log.segments_for_retention()
        assert bool(facts) == self.is_readable()
        for each, following in pairwise(facts):
            assert each.last_index + 1 == following.base_index
        assert not facts or facts[0].base_index <= self.start.index <= facts[0].last_index
        assert not facts or facts[-1].last_index == len(self.model)

    @precondition(is_readable)
    @rule(data=st.data(), max_bytes=st.sampled_from([1, 300, 2000, 100_000]))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        first = data.draw(st.integers(self.start.index, len(self.model)), label="first")
        last = data.draw(st.integers(first, len(self.model) + 2), label="last")
        run = plain(self.runner.run(self.log.read(Index(first), max_bytes, Index(last))))
        assert run == plain(self.model[first - 1 : first - 1 + len(run)])
        assert 1 <= len(run) <= last - first + 1
        sizes = [entry.size for entry in self.model[first - 1 : last]]
        assert len(run) == 1 or sum(sizes[: len(run)]) <= max_bytes
        assert len(run) == len(sizes) or sum(sizes[: len(run) + 1]) > max_bytes

    @precondition(lambda self: self.start.index > 1)
    @rule(data=st.data())
    def read_below_the_start(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(1, self.start.prev_index), label="index")
        with pytest.raises(LogTruncatedError):
            self.runner.run(self.log.read(Index(index), 1))
        if self.start.offset > 0:
            offset = data.draw(st.integers(0, self.start.offset - 1), label="offset")
            with pytest.raises(LogTruncatedError):
                self.runner.run(self.log.reader.index_of_offset(Offset(offset)))

    @precondition(is_readable)
    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        log, entries = self.log, self.readable()
        last = data.draw(st.integers(self.start.prev_index, len(self.model)), label="last")
        timestamp = data.draw(st.integers(0, 52), label="timestamp")
        batches = [
            (e.base_offset, self.timestamp_of(e), e.index)
            for e in entries
            if e.index <= last and e.kind is EntryKind.DATA
        ]
        hit = self.runner.run(log.reader.offset_of_timestamp(timestamp, Index(last)))
        assert hit == next((each for each in batches if each[1] >= timestamp), None)
        largest = max((each[1] for each in batches), default=-1)
        assert self.runner.run(log.reader.max_timestamp(Index(last))) == (largest if largest >= 0 else None)
        offset = data.draw(st.integers(self.start.offset, int(log.next_offset) + 1), label="offset")
        holder = next((entry for entry in entries if entry.end_offset > offset), None)
        found = self.runner.run(log.reader.index_of_offset(Offset(offset)))
        assert found == (holder.index if holder else len(self.model) + 1)
        assert log.term_of_offset(Offset(offset)) == (holder.term if holder else log.last_term)
        assert self.runner.run(log.reader.locate_end_offset(Index(last))) == self.before(last + 1)[0]

    @staticmethod
    def timestamp_of(entry: Entry) -> int:
        return int.from_bytes(bytes(entry.payload[35:43]), "big", signed=True)


LogMachine.TestCase.settings = settings(
    max_examples=120, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.timeout(300)
class TestLogAgainstItsModel(LogMachine.TestCase):
    """Run by pytest."""
