"""A state at its bound is saved; a larger one is not, until it is smaller; the log works on all the while."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from model.ids import ConsistencyLevel, Index, Offset, Term
from raft.options import RaftOptions
from raft.replicate_item import NewEntry, ReplicateStages
from runtime.environment import system_environment
from storage.entry import Entry, EntryKind
from storage.errors import SnapshotTooLargeError
from storage.log_start import LogStart
from storage.snapshot_file import STATE_BYTES_MAX, Snapshot, read_snapshot, write_snapshot
from tests.unit.raft.stage import Stage

_BYTES_MAX = 1000


class SizedState:
    """A state of as many bytes as the test says."""

    def __init__(self, size: int) -> None:
        self.size = size

    def admit(self, entry: NewEntry) -> None:
        """Nothing is refused."""

    def note(self, entry: Entry) -> None:
        """Nothing is kept."""

    def truncate(self, first_removed: Index) -> None:
        """Nothing is kept."""

    def commit(self, index: Index) -> None:
        """Nothing is kept."""

    def snapshot(self) -> Iterator[bytes]:
        yield from (bytes(min(300, self.size - position)) for position in range(0, self.size, 300))

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        self.size = len(state)
        yield

    def reset(self) -> None:
        """Nothing is kept."""


def _write(stage: Stage) -> None:
    made: list[ReplicateStages] = []
    entries = [NewEntry(EntryKind.COMMAND, b"c", 0)] * 5
    stage.call(lambda: made.append(stage.replica(1).replicate(entries, ConsistencyLevel.QUORUM_ACK)))
    stage.advance(0.5)
    assert made[0].replicated.result()


@pytest.mark.parametrize(("share", "is_saved"), [(90, True), (100, True), (101, False)])
def test_a_state_is_saved_up_to_its_bound(share: int, is_saved: bool) -> None:
    options = RaftOptions(snapshot_entries=3, state_bytes_max=_BYTES_MAX)
    state = SizedState(10 * share)
    with Stage(1, options, log_state=lambda: state) as stage:
        stage.start(1)
        stage.elect(1)
        _write(stage)
        replica = stage.replica(1)
        assert (replica.log.snapshot_index > 0) == is_saved
        assert (replica.snapshot_refusal is None) == is_saved
        assert replica._context.probe.snapshots_refused == (not is_saved)
        # Looked at once a minute, and written while nobody looks.
        _write(stage)
        stage.advance(30.0)
        assert replica._context.probe.snapshots_refused == (not is_saved)
        stage.run(replica.save_before_stop())
        state.size = 900
        stage.advance(61.0)
        assert replica.log.snapshot_index > 5
        assert replica.snapshot_refusal is None
        assert replica.failure is None


def _snapshot(size: int) -> Snapshot:
    return Snapshot(LogStart(Index(1), Offset(0), Offset(0), Term(0)), Index(1), Term(1), bytes(size))


def test_a_snapshot_file_holds_what_it_may_hold_and_not_a_byte_more(tmp_path: Path) -> None:
    files, directory = system_environment().files, str(tmp_path)
    write_snapshot(files, directory, _snapshot(STATE_BYTES_MAX))
    with pytest.raises(SnapshotTooLargeError, match=f"state of {STATE_BYTES_MAX + 1} bytes"):
        write_snapshot(files, directory, _snapshot(STATE_BYTES_MAX + 1))
    found = read_snapshot(files, directory)
    assert found is not None
    assert len(found.state) == STATE_BYTES_MAX
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot"]


@pytest.mark.parametrize("wrong", [0, STATE_BYTES_MAX + 1])
def test_no_bound_of_a_state_is_above_what_a_snapshot_holds(wrong: int) -> None:
    with pytest.raises(ValueError, match="state_bytes_max"):
        RaftOptions(state_bytes_max=wrong)
