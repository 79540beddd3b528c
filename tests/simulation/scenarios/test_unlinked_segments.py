"""RFC 0002 section 6: segments that a truncation removed stay away, and leave no hole (counterexample 16)."""

import pytest

import storage.log_truncation
from model.ids import Index
from runtime.files import FileSystem
from storage.errors import StorageError
from storage.log import Log
from storage.segment import Segment
from tests.simulation.scenarios.log_story import LogStory, barrier, data, plain

_SEGMENT_BYTES = 500
_FIRST_REMOVED = Index(3)


async def _cut_and_go_on(log: Log) -> None:
    """What a deposed leader does: the new entry lands in the segment that was cut, so no file is created."""
    await log.truncate(_FIRST_REMOVED)
    await log.append([barrier(log, 2)])
    await log.flush()


def _power_is_lost_around_a_truncation() -> None:
    for seed in range(6):
        was_cut, effects = True, 0
        while was_cut:
            with LogStory(seed, segment_bytes=_SEGMENT_BYTES) as story:
                log = story.open()
                written = story.append(log, data(log, 12, size=60))
                story.run(log.flush())
                assert len(log._segments) >= 4
                stays = plain(written[: _FIRST_REMOVED - 1])
                expected = [*stays, (_FIRST_REMOVED, 2, written[_FIRST_REMOVED - 1].base_offset, b"")]
                was_cut = story.loses_power_after(effects, _cut_and_go_on(log))
                found = plain(story.entries(story.open()))
                if was_cut and len(found) >= _FIRST_REMOVED and found[_FIRST_REMOVED - 1][1] == 1:
                    assert found == plain(written[: len(found)])
                else:
                    assert found == expected[: len(found)]
                assert len(found) >= _FIRST_REMOVED - was_cut
            effects += 1


def test_a_truncated_segment_never_comes_back_and_never_leaves_a_hole() -> None:
    _power_is_lost_around_a_truncation()


def names_of_new_files_only(
    files: FileSystem, directory: str, removed: list[Segment], last: Segment | None, position: int | None
) -> None:
    """The directory is fsynced after a create and a rename, and not after an unlink."""
    for segment in reversed(removed):
        files.unlink(segment.path)
    if last is not None and position is not None:
        last.file.truncate(position)
        last.file.fsync()


def oldest_first(
    files: FileSystem, directory: str, removed: list[Segment], last: Segment | None, position: int | None
) -> None:
    """The segments go in the order in which they were written."""
    for segment in removed:
        files.unlink(segment.path)
        files.fsync_dir(directory)
    if last is not None and position is not None:
        last.file.truncate(position)
        last.file.fsync()


@pytest.mark.parametrize("remove", [names_of_new_files_only, oldest_first])
def test_a_truncated_segment_comes_back_if_an_unlink_is_not_made_durable_newest_first(monkeypatch, remove) -> None:
    monkeypatch.setattr(storage.log_truncation, "remove_and_cut", remove)
    with pytest.raises((AssertionError, StorageError)):
        _power_is_lost_around_a_truncation()
