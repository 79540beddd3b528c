"""No entry of kind 2 and no snapshot with a configuration comes to a node before its owner lets it."""

import pytest

from model.ids import NO_INDEX, Index, Offset, Term
from raft import append_entries_buffer
from raft.configuration_entry import encode_configuration
from raft.group_configuration import GroupConfiguration
from raft.messages import InstallSnapshotRequest
from raft.snapshot_chunks import seal_chunk
from storage.entry import EntryKind
from storage.log_start import LogStart
from storage.snapshot_file import Snapshot, encode_snapshot
from tests.unit.raft.message_wire import replica
from tests.unit.raft.stage import GROUP
from tests.unit.raft.test_living_group import STEPS, Living
from tests.unit.raft.test_reconfiguration import Group, target

SEEDS = range(1, 9)


class Guard:
    """A disk that needs a while for its stamp."""

    def __init__(self):
        self.is_open = False
        self.asked = 0

    def open_soon(self):
        self.asked += 1


class LateGuard(Guard):
    """The planted bug: the node writes first, and stamps then."""

    def __init__(self):
        super().__init__()
        self.is_durable = False

    @property
    def is_open(self):
        self.asked += 1
        return True

    @is_open.setter
    def is_open(self, is_open):
        self.is_durable = is_open


def is_durable(guard):
    return guard.is_durable if isinstance(guard, LateGuard) else guard.is_open


class Guarded(Living):
    """A living group of nodes without stamps. A stamp takes a few steps."""

    def __init__(self, seed, make=Guard):
        super().__init__(seed)
        self.wanted = {}
        for actor in self.stage.actors.values():
            actor.guard = make()

    def step(self):
        self.stamp()
        super().step()

    def stamp(self):
        for node, actor in self.stage.actors.items():
            if actor.guard.asked and not is_durable(actor.guard):
                self.wanted[node] = self.wanted.get(node, 0) + 1
                actor.guard.is_open = self.wanted[node] > 5

    def check(self):
        super().check()
        for node in self.running():
            is_bare = self.stage.replica(node).state.configurations.index == NO_INDEX
            assert is_bare or is_durable(self.stage.actors[node].guard), f"a configuration at node {node}"

    def tell(self, node):
        super().tell(node)
        self.stamp()


def run(seed, make=Guard):
    living = Guarded(seed, make)
    with living.stage as stage:
        for node in stage.actors:
            stage.start(node)
        for _ in range(STEPS):
            living.step()
        living.finish()
        return living


@pytest.mark.parametrize("seed", SEEDS)
def test_a_group_gets_its_voters_and_no_node_holds_a_configuration_before_its_stamp(seed):
    living = run(seed)
    assert any(is_durable(actor.guard) for actor in living.stage.actors.values())
    assert living.revision


def _finds(**how):
    for seed in SEEDS:
        try:
            run(seed, **how)
        except AssertionError as error:
            if "a configuration at node" in str(error):
                return True
            raise
    return False


def test_a_stamp_after_the_first_entry_of_kind_2_is_found():
    assert _finds(make=LateGuard)


def test_a_follower_that_does_not_look_at_the_kind_is_found(monkeypatch):
    monkeypatch.setattr(append_entries_buffer, "_KIND_OF", lambda _: EntryKind.DATA)
    assert _finds()


def test_a_leader_says_what_its_next_configuration_waits_for():
    with Group(4, 1, 2, 3) as group:
        guard = group.actors[1].guard = Guard()
        group.begin(1, 1, 2, 3, 4)
        group.aim(target(1, 2, 4))
        group.tick(3)
        assert group.replica(1).reconfiguration.waits_for == "this node may not hold configurations yet"
        assert guard.asked
        assert group.replica(1).state.configurations.index == NO_INDEX
        group.write()
        assert group.is_done("w1")
        guard.is_open = True
        group.reach(target(1, 2, 4))


def test_a_group_that_keeps_its_voters_asks_for_nothing():
    with Group(3, 1, 2, 3) as group:
        for actor in group.actors.values():
            actor.guard = Guard()
        group.begin(1, 1, 2, 3)
        group.write()
        group.tick(5)
        assert [actor.guard.asked for actor in group.actors.values()] == [0, 0, 0]


def test_a_snapshot_with_a_configuration_is_taken_once_the_stamp_is_there():
    configuration = encode_configuration(GroupConfiguration.of(tuple(map(replica, (1, 2)))))
    start = LogStart(Index(6), Offset(0), Offset(0), Term(1))
    snapshot = Snapshot(start, Index(5), Term(1), b"state", configuration)
    checksum = int.from_bytes(encode_snapshot(snapshot)[:4], "big")
    with Group(2, 1, 2) as group:
        guard = group.actors[2].guard = Guard()
        group.start(2)

        def install(configuration):
            request = InstallSnapshotRequest(GROUP, 3, start, 5, 1, 0, 5, checksum, configuration)
            # Twice: the first request of a term is answered BUSY until the term is durable.
            for _ in range(2):
                group.say(1, 2, request, bytes(seal_chunk(request, b"state")))
                group.settle()
            return group.actors[2].probe.snapshots_installed

        assert (install(configuration), guard.asked) == (0, 1)
        guard.is_open = True
        assert install(configuration) == 1
        assert group.replica(2).state.configurations.index == 5
