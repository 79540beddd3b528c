"""RFC 0002 section 7: what a restart keeps above the mark is written again, in its place (counterexamples 9b, 34)."""

import pytest

from model.ids import Index
from storage.errors import LogPoisonedError, StorageError
from storage.log_recovery import LogRecovery
from storage.segment import Segment
from tests.simulation.scenarios.log_story import DIRECTORY, LogStory, data, plain


def _an_fsync_fails_and_the_process_restarts() -> None:
    for seed in range(8):
        with LogStory(seed) as story:
            log = story.open()
            written = story.append(log, data(log, 2))
            story.run(log.flush())
            written += story.append(log, data(log, 3, size=600))
            story.disk.fail_next("fsync", path_part=".log")
            with pytest.raises(LogPoisonedError):
                story.run(log.flush())
            story.kill()
            log = story.open()
            assert plain(story.entries(log)) == plain(written), "the page cache has it"
            assert log.flushed_index == 5, "and the replica counts it from now on"
            story.lose_power()
            assert plain(story.entries(story.open())) == plain(written)


def test_what_a_failed_fsync_left_in_the_cache_is_durable_once_it_counts() -> None:
    _an_fsync_fails_and_the_process_restarts()


def fsync_again(recovery: LogRecovery, kept: list[Segment], mark: Index) -> None:
    """The kernel calls the failed pages clean: the next fsync succeeds and writes nothing."""
    for segment in kept:
        segment.file.fsync()


def test_what_a_failed_fsync_left_is_lost_if_a_restart_only_fsyncs_again(monkeypatch) -> None:
    monkeypatch.setattr(LogRecovery, "_rewrite_tail", fsync_again)
    with pytest.raises((AssertionError, StorageError)):
        _an_fsync_fails_and_the_process_restarts()


def _a_second_crash_while_the_tail_is_kept() -> None:
    """The newest flush is in no header yet: what it covered was counted, and lies above the mark."""
    cut_short = 0
    for seed in range(4):
        was_cut, effects = True, 0
        while was_cut:
            with LogStory(seed) as story:
                log = story.open()
                written = story.append(log, data(log, 2))
                story.run(log.flush())
                written += story.append(log, data(log, 4, size=600))
                story.run(log.flush())
                story.kill()
                story.machine.restart()
                was_cut = story.loses_power_after(effects, story.reopen())
                assert plain(story.entries(story.open())) == plain(written)
            effects += 1
            cut_short += was_cut
    assert cut_short > 4, "more than one place per seed"


def test_a_second_crash_at_any_point_loses_nothing_that_was_counted() -> None:
    _a_second_crash_while_the_tail_is_kept()


def _tail(kept: list[Segment], mark: Index) -> tuple[Segment, int, bytes]:
    last = kept[-1]
    position = last.index.position_of_index(Index(mark + 1))
    return last, position, last.file.pread(last.size - position, position)


def cut_then_write(recovery: LogRecovery, kept: list[Segment], mark: Index) -> None:
    """The old tail goes first."""
    if kept and kept[-1].last_index > mark:
        last, position, tail = _tail(kept, mark)
        last.file.truncate(position)
        last.file.fsync()
        last.file.pwritev([tail], position)
        last.file.fsync()


def write_then_cut(recovery: LogRecovery, kept: list[Segment], mark: Index) -> None:
    """A new segment takes the tail first."""
    if kept and kept[-1].last_index > mark:
        last, position, tail = _tail(kept, mark)
        new = recovery._files.open(f"{DIRECTORY}/{mark + 1:020}-1.log", create=True)
        new.pwritev([tail], 0)
        new.fsync()
        recovery._files.fsync_dir(DIRECTORY)
        last.file.truncate(position)
        last.file.fsync()


@pytest.mark.parametrize("rewrite", [cut_then_write, write_then_cut])
def test_a_second_crash_loses_entries_if_the_tail_moves_to_another_place(monkeypatch, rewrite) -> None:
    monkeypatch.setattr(LogRecovery, "_rewrite_tail", rewrite)
    with pytest.raises((AssertionError, StorageError)):
        _a_second_crash_while_the_tail_is_kept()
