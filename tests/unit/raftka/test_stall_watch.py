"""Stalled partitions: an entry of the newest leader that was not committed for ten seconds, whoever can be reached."""

import asyncio
from types import SimpleNamespace

import pytest

from cluster.health_counts import STALL_SECONDS, HealthCounts
from cluster.replica_gauges import LogIndexes
from model.ids import GroupId, Index, NodeId
from raftka.broker import stall_watch
from raftka.broker.leader_memory import LEADERLESS_SECONDS
from raftka.broker.stall_watch import StallWatch
from raftka.health.picture import STALLED_SECONDS

ME, OTHER = NodeId(1), NodeId(2)


class Partitions(dict):
    def __iter__(self):
        return iter(list(self.values()))


class Watched:
    """A watch over one partition, and a clock that the test moves."""

    def __init__(self, monkeypatch) -> None:
        self.now = 100.0
        self.partition = SimpleNamespace(
            group=GroupId("g"), is_in_office=True, gauges=SimpleNamespace(), transactional=None
        )
        self.newest_leader = ME
        self.partitions = Partitions({"g": self.partition})
        self.leader = SimpleNamespace(node_id=ME)
        leadership = SimpleNamespace(
            newest_leader=lambda group: self.newest_leader, leader_of=lambda group: self.leader
        )
        health = HealthCounts(SimpleNamespace(), self.partitions, leadership, lambda node_id: True, ME)
        node = SimpleNamespace(partitions=self.partitions, health=health, leadership=leadership)
        self.watch = StallWatch(node)
        monkeypatch.setattr(
            stall_watch,
            "asyncio",
            SimpleNamespace(get_running_loop=lambda: SimpleNamespace(time=lambda: self.now), sleep=asyncio.sleep),
        )

    def look(self, commit: int, dirty: int, *, after: float = 1.0) -> int:
        """Return how many are stalled when the log looks so after a time."""
        self.now += after
        self.partition.gauges.indexes = LogIndexes(Index(dirty), Index(dirty), Index(commit), Index(commit))
        asyncio.run(self.watch.look())
        return len(self.watch.groups())


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


def test_a_log_that_is_committed_is_not_stalled(watched):
    assert [watched.look(5, 5, after=60) for _ in range(3)] == [0, 0, 0]


def test_an_entry_that_waits_ten_seconds_stalls_its_partition_until_it_is_committed(watched):
    assert watched.look(5, 6) == 0
    assert watched.look(5, 6, after=STALLED_SECONDS - 0.5) == 0
    assert watched.look(5, 6, after=0.5) == 1
    assert watched.look(5, 9, after=5) == 1
    assert watched.look(9, 9) == 0


def test_a_busy_partition_always_has_entries_that_wait_and_is_not_stalled(watched):
    assert [watched.look(10 * second, 10 * second + 7) for second in range(1, 40)] == [0] * 39


def test_a_leader_that_lost_its_majority_counts_until_another_one_is_known(watched):
    watched.look(5, 6)
    watched.partition.is_in_office = False
    assert watched.look(5, 6, after=STALLED_SECONDS) == 1
    watched.newest_leader = OTHER
    assert watched.look(5, 6) == 0


def test_a_follower_with_entries_that_are_not_committed_counts_nothing(watched):
    watched.partition.is_in_office, watched.newest_leader = False, OTHER
    assert watched.look(5, 6) == 0
    assert watched.look(5, 6, after=60) == 0


def test_an_entry_that_was_truncated_waits_no_more(watched):
    watched.look(5, 9)
    assert watched.look(5, 7, after=STALLED_SECONDS) == 0
    assert watched.look(5, 7, after=STALLED_SECONDS) == 1


def test_a_partition_that_is_gone_is_forgotten(watched):
    watched.look(5, 9)
    watched.partitions.clear()
    assert watched.look(5, 9, after=STALLED_SECONDS) == 0
    watched.partitions["g"] = watched.partition
    assert watched.look(5, 9) == 0


def test_findings_and_counts_have_the_same_bound():
    assert STALL_SECONDS == STALLED_SECONDS


def test_each_look_notes_which_partitions_have_a_leader(watched):
    leaders = watched.watch.leaders
    leaders.note_ready()
    watched.look(5, 5)
    watched.leader = None
    watched.look(5, 5, after=LEADERLESS_SECONDS - 1)
    assert not leaders.is_missed(GroupId("g"), watched.now, has_leader=False)
    watched.look(5, 5)
    assert leaders.is_missed(GroupId("g"), watched.now, has_leader=False)
    watched.partitions.clear()
    watched.look(5, 5)
    assert not leaders.is_missed(GroupId("g"), watched.now, has_leader=False), "it was forgotten"
