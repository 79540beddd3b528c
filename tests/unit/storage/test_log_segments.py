"""Which segments there are, which are dirty, and whose index file is due: three facts that move in one step."""

from pathlib import Path

import pytest
from log_harness import Disk

from model.ids import NO_INDEX, Index, Offset, Term
from runtime.open_files import OPEN_FILES_MIN, OpenFiles
from storage.log_segments import LogSegments
from storage.rows_budget import RowsBudget
from storage.segment import Cut, Segment, segment_name
from storage.segment_index import SegmentIndex

# Entries of each segment, and bytes of each entry.
COUNT, SIZE = 10, 100


class Stage:
    """A log of whole segments, none of which has an index file; the last one is active."""

    def __init__(self, directory: Path, count: int) -> None:
        self._directory = directory
        self._files = OpenFiles(Disk(), OPEN_FILES_MIN)
        self.log = LogSegments([], RowsBudget(0))
        for _ in range(count):
            self.begin()

    def begin(self, base_index: int | None = None) -> Segment:
        base = Index(base_index or len(self.log) * COUNT + 1)
        path = str(self._directory / segment_name(base, 1))
        file, offset = self._files.create_cached(path), Offset(base - 1)
        segment = Segment(path, base, offset, Term(1), file, SegmentIndex(150), 0, Index(base - 1))
        self.log.begin(segment)
        segment.last_index, segment.size = Index(base + COUNT - 1), COUNT * SIZE
        self.log.mark_dirty(segment)
        file.unpin()
        return segment

    def open_files(self) -> int:
        return self._files.descriptors.pinned_count


@pytest.fixture
def three(tmp_path: Path) -> Stage:
    return Stage(tmp_path, 3)


def test_a_log_without_an_entry_has_no_segment() -> None:
    log = LogSegments([], RowsBudget(0))
    assert (len(log), log.active, log.size_bytes, log.closed_index, log.newest_timestamp) == (0, None, 0, NO_INDEX, -1)
    assert log.split(Index(1)) == (None, [])


def test_an_entry_is_held_by_the_segments_from_its_own_on(three: Stage) -> None:
    first, second, third = three.log
    assert three.log.holding(Index(10)) == [first, second, third]
    assert three.log.holding(Index(11)) == [second, third]
    assert three.log.holding(Index(30)) == [third]
    assert three.log.of_offset(Offset(19)) is second
    assert three.log.after(second) is third


def test_what_is_before_the_first_segment_is_held_by_none(tmp_path: Path) -> None:
    stage = Stage(tmp_path, 0)
    stage.begin(11)
    with pytest.raises(AssertionError):
        stage.log.holding(Index(10))


def test_a_segment_begins_where_the_one_before_it_ends(three: Stage) -> None:
    with pytest.raises(AssertionError):
        three.begin(32)


def test_the_end_is_cut_within_a_segment_which_is_active_again(three: Stage) -> None:
    first, second, third = three.log
    last, removed = three.log.cut_end(Index(15), Cut(Index(15), 4 * SIZE, Offset(14), -1), None)
    assert (last, removed) == (second, [third])
    assert three.log[:] == [first, second]
    assert (second.last_index, second.size, second.closed_ms, second.file.is_active) == (14, 4 * SIZE, None, True)
    assert third.file.is_nameless
    assert not second.file.is_nameless
    assert three.log.next_due(Index(14)) is first
    three.log.on_index_begun(first)
    assert three.log.next_due(Index(14)) is None, "an active segment gets none"
    assert three.log.take_dirty() == [first, second]


def test_the_end_is_cut_between_two_segments(three: Stage) -> None:
    first, second, third = three.log
    assert three.log.cut_end(Index(11), None, None) == (first, [second, third])
    assert three.log.active is first
    assert three.log.cut_end(Index(1), None, None) == (None, [first])
    assert three.log.active is None
    assert three.open_files() == 0, "nothing is dirty any more"


def test_segments_leave_that_end_before_the_start(three: Stage) -> None:
    first, second, third = three.log
    assert three.log.remove_below(Index(10)) == []
    assert three.log.remove_below(Index(11)) == [first]
    assert three.log.next_due(Index(30)) is second
    assert three.log.take_dirty() == [second, third]
    assert three.log.remove_below(Index(1000)) == [second], "the last one stays"


def test_what_was_written_during_an_fsync_is_dirty_after_it(three: Stage) -> None:
    taken = three.log.take_dirty()
    assert len(taken) == three.open_files() == 3
    three.log.mark_dirty(taken[2])
    three.log.on_fsync_ended(taken)
    assert three.open_files() == 1
    assert three.log.take_dirty() == taken[2:]


def test_an_fsync_that_crossed_a_truncation_leaves_dirty_what_is_still_there(three: Stage) -> None:
    taken = three.log.take_dirty()
    three.log.cut_end(Index(21), None, None)
    three.log.mark_dirty(taken[1])
    three.log.on_fsync_crossed(taken)
    assert three.log.take_dirty() == taken[:2]
    assert three.open_files() == 2, "each is pinned once"


def test_an_index_file_is_due_once_its_segment_is_durable(three: Stage) -> None:
    first, second, _ = three.log
    assert three.log.next_due(Index(9)) is None
    assert three.log.next_due(Index(10)) is first
    with pytest.raises(AssertionError):
        three.log.on_index_begun(second)
    three.log.on_index_begun(first)
    assert three.log.next_due(Index(30)) is second


def test_nothing_stays_open_behind_a_log(three: Stage) -> None:
    segments = list(three.log)
    three.log.close()
    assert three.open_files() == len(three.log) == 0
    assert not any(segment.file.is_open for segment in segments)
