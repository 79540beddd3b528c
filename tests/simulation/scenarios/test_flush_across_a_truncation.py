"""RFC 0002 section 5: a flush that crosses a truncation is repeated for what remains (counterexample 18)."""

import pytest

from model.ids import Index
from runtime.workers import Pool
from storage.log import Log
from tests.simulation.scenarios.log_story import LogStory, data


def _a_truncation_during_an_fsync() -> None:
    with LogStory(1) as story:
        log = story.open()
        story.append(log, data(log, 6))
        story.machine.workers.stall(Pool.FSYNC, 0.5)
        flush = story.machine.spawn(log.flush())
        story.world.run_until(story.world.time + 0.1)
        story.run(log.truncate(Index(5)))
        story.world.run_until(flush.done, story.world.time + 2.0)
        story.world.check()
        assert flush.done()
        assert log.flushed_index == 4, "nobody else will ask for entries 1 to 4"
        story.lose_power()
        assert story.open().dirty_index == 4


def test_what_remains_is_flushed_without_being_asked_for_again() -> None:
    _a_truncation_during_an_fsync()


def test_what_remains_waits_for_ever_if_the_flush_just_ends(monkeypatch) -> None:
    async def flush(log: Log) -> Index:
        await log._flusher.fsync()
        return log.flushed_index

    monkeypatch.setattr(Log, "flush", flush)
    with pytest.raises(AssertionError):
        _a_truncation_during_an_fsync()
