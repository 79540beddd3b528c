"""Entries of a peer whose offsets do not follow: a named error, never an assert of the log."""

from collections.abc import Iterator

import pytest

from model.ids import ConsistencyLevel, Index, Offset, Term
from raft.append_dispatch import wire_buffers
from raft.errors import InvariantViolatedError
from raft.messages import AppendEntriesRequest
from raft.options import RaftOptions
from raft.replicate_item import NewEntry
from raft.service import parse_run
from rpc.errors import MalformedBodyError
from storage.entry import Entry, EntryKind
from tests.unit.raft.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Three nodes; node 1 leads in term 1, and all have its barrier, with offset 0 behind it."""
    with Stage(3, RaftOptions()) as made:
        for node_id in made.actors:
            made.start(node_id)
        made.elect(1)
        yield made


def _entry(index: int, offset: int, records: int = 0) -> Entry:
    return Entry(Index(index), Term(1), EntryKind.COMMAND, Offset(offset), records, b"c")


def _payload(*entries: Entry) -> bytes:
    return b"".join(map(bytes, wire_buffers(entries)))


def _request(stage: Stage, prev_index: int) -> AppendEntriesRequest:
    return AppendEntriesRequest(stage.replica(1).group, 1, prev_index, 1, 0, 0, False)


@pytest.mark.parametrize("offset", [-7, 5])
def test_a_follower_stops_by_name_where_an_entry_does_not_begin_at_the_end_of_its_log(
    stage: Stage, offset: int
) -> None:
    end = stage.replica(2).log.dirty_index
    stage.say(1, 2, _request(stage, end), _payload(_entry(end + 1, offset)))
    stage.settle()
    failure = stage.replica(2).failure
    assert isinstance(failure, InvariantViolatedError)
    assert f"entry {end + 1} at offset {offset}, the log ends at 0" in str(failure)
    # The others go on.
    done = []
    entry = NewEntry(EntryKind.COMMAND, b"x", 0)
    stage.call(lambda: done.append(stage.replica(1).replicate([entry], ConsistencyLevel.QUORUM_ACK)))
    stage.settle()
    stage.deliver(lambda _: True)
    assert done[0].replicated.result().first_index == end + 1


def test_a_run_of_entries_with_a_gap_in_its_offsets_is_no_body(stage: Stage) -> None:
    request = _request(stage, 1)
    assert len(parse_run(request, memoryview(_payload(_entry(2, 0, 3), _entry(3, 3))))) == 2
    with pytest.raises(MalformedBodyError, match="entry 3 is at 2, the one before ends at 3"):
        parse_run(request, memoryview(_payload(_entry(2, 0, 3), _entry(3, 2))))
