"""Options of groups that change while they run: who waits at a bound goes on, and the reserve of the disk moves."""

from dataclasses import replace

from model.ids import ConsistencyLevel, NodeId
from raft.disk_reserve import DiskReserve
from raft.options import RaftOptions
from tests.unit.raft.stage import Stage

# Nothing is fsynced that nobody waits for.
_UNFLUSHED = RaftOptions(unflushed_bytes=200, flush_interval=1000.0, flush_bytes=10**9)


def _produce(stage: Stage, name: str) -> list[str]:
    """Write 150 bytes at acks=1; return what has been answered."""
    stage.replicate(1, name, ConsistencyLevel.LEADER_ACK, 150, None, None)
    return _told(stage)


def _told(stage: Stage) -> list[str]:
    stage.settle()
    told, stage.events[:] = [event.split(":")[0] for event in stage.events], []
    return [each for each in told if each.endswith("done")]


def test_a_producer_that_waits_at_a_bound_goes_on_when_the_bound_is_raised() -> None:
    with Stage(1, _UNFLUSHED) as stage:
        stage.start(1)
        _told(stage)
        written = []
        # As much as the bound lets pass, and one that waits.
        while _produce(stage, f"p{len(written)}"):
            written.append(len(written))
            assert len(written) < 10
        assert written
        replica = stage.replica(1)

        def raise_bound() -> None:
            replica._context.node.options = replace(_UNFLUSHED, unflushed_bytes=10_000)
            replica.on_options()

        stage.call(raise_bound)
        assert _told(stage) == [f"p{len(written)} done"]


def test_a_larger_reserve_refuses_producers_and_a_smaller_one_takes_them_again() -> None:
    disk = DiskReserve(NodeId(1), 100)
    disk.change_reserve(200)
    assert (disk.spare_bytes, disk.nodes_below) == (0, ())
    disk.update_free(250)
    disk.count_appended(20)
    assert (disk.spare_bytes, disk.nodes_below) == (30, ())
    disk.change_reserve(240)
    assert (disk.spare_bytes, disk.nodes_below) == (-10, (1,))
    disk.change_reserve(0)
    assert (disk.spare_bytes, disk.nodes_below) == (230, ())
