"""Who is woken when positions move, and when leadership has ended."""

from collections.abc import Iterator

import pytest

from model.ids import ConsistencyLevel, Index, Offset, Term
from raft.errors import LeadershipLostError
from raft.options import RaftOptions
from raft.replicate_item import NewEntry, ReplicateItem, ReplicateResult
from raft.replication_monitor import ReplicationMonitor
from storage.entry import EntryKind
from tests.unit.raft.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A leader in office of three, whose followers have everything up to its barrier."""
    with Stage(3, RaftOptions()) as made:
        for node_id in made.actors:
            made.start(node_id)
        made.elect(1)
        yield made


def waiting(stage: Stage, monitor: ReplicationMonitor, last_index: int) -> ReplicateItem:
    """Add an item that ends at an index."""

    async def add() -> ReplicateItem:
        item = ReplicateItem([NewEntry(EntryKind.COMMAND, b"x", 0)], ConsistencyLevel.QUORUM_ACK, None)
        item.result = ReplicateResult(Index(last_index), Index(last_index), Offset(0), Term(1))
        monitor.add(item)
        return item

    return stage.run(add())


def test_items_are_answered_in_log_order_as_far_as_they_may_be(stage: Stage) -> None:
    monitor = ReplicationMonitor(stage.replica(1).state)
    items = [waiting(stage, monitor, index) for index in (1, 2, 3)]
    monitor.on_moved()
    assert [item.is_done for item in items] == [True, False, False]


def test_a_duplicate_waits_for_the_slot_of_its_original(stage: Stage) -> None:
    monitor = ReplicationMonitor(stage.replica(1).state)
    later, duplicate = waiting(stage, monitor, 3), waiting(stage, monitor, 1)
    again = waiting(stage, monitor, 3)
    monitor.on_moved()
    assert [item.is_done for item in (later, duplicate, again)] == [False, True, False]


def test_a_follower_answers_nobody_however_far_it_commits(stage: Stage) -> None:
    monitor = ReplicationMonitor(stage.replica(2).state)
    item = waiting(stage, monitor, 1)
    monitor.on_moved()
    assert not item.is_done


def test_the_end_of_a_leadership_fails_all_once(stage: Stage) -> None:
    monitor = ReplicationMonitor(stage.replica(1).state)
    item = waiting(stage, monitor, 5)
    woken: list[str] = []
    monitor.watch(lambda: woken.append("end"))
    monitor.fail_all(LeadershipLostError("it was"))
    assert isinstance(item.stages.replicated.exception(), LeadershipLostError)
    monitor.on_moved()
    assert woken == ["end", "end"], "the watchers are told of both"


def test_watchers_are_called_in_order_and_may_leave_while_they_are_called(stage: Stage) -> None:
    monitor = ReplicationMonitor(stage.replica(1).state)
    woken: list[str] = []

    def once() -> None:
        woken.append("once")
        monitor.unwatch(first)

    first = monitor.watch(once)
    monitor.watch(lambda: woken.append("always"))
    monitor.on_moved()
    monitor.on_moved()
    monitor.unwatch(first)
    assert woken == ["once", "always", "always"]
