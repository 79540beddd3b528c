"""Faults of one run, drawn as a swarm: each seed has its own kinds, rates and durations (verification 3)."""

from collections.abc import Callable
from random import Random

from runtime.workers import Pool
from tests.simulation.cluster import SimCluster
from tests.simulation.sim_disk import Operation
from tests.simulation.world import SimNode

KINDS = (
    "kill",
    "power_loss",
    "power_loss_of_all",
    "kill_all",
    "cut",
    "cut_one_way",
    "isolate",
    "reset",
    "slow_link",
    "pause",
    "slow_disk",
    "hung_fsync",
    "failed_fsync",
    "failed_write",
    "full_disk",
    "clock_step",
    "bit_rot",
)


class Nemesis:
    """Injects faults until `stop`; whatever it breaks it mends later, and `mend_all` mends at once."""

    def __init__(
        self,
        cluster: SimCluster,
        rng: Random,
        on_started: Callable[[int], None],
        note_fault: Callable[[str], None] = lambda kind: None,
    ) -> None:
        self._cluster = cluster
        self._note_fault = note_fault
        self._world = cluster.world
        self._rng = rng
        self._on_started = on_started
        self._is_stopped = False
        self._capacity = self._world.nodes[1].disk.capacity
        self.kinds = [kind for kind in KINDS if rng.random() < 0.45] or [rng.choice(KINDS)]
        self._mean_pause = rng.choice([0.7, 2.0, 5.0])
        self.injected = 0
        # One disk rots in a run: an entry that rots on two of three may be gone, and nobody promises otherwise.
        self._rotting = self._any()
        cluster.on_refused_start = self._start_again

    def start(self) -> None:
        """Begin."""
        self._schedule()

    def stop(self) -> None:
        """No new faults, and everything is mended: links healed, processes running, disks quick and with room."""
        self._is_stopped = True
        for node in self._world.nodes.values():
            node.resume()
            node.disk.clear_faults()
            node.disk.capacity = self._capacity
        self._world.network.heal_all()
        for node_id in self._world.nodes:
            # A replica that has failed stays failed for the life of its process.
            if self._has_failed(node_id):
                self._cluster.crash(node_id, power_loss=False)
            self._restart(node_id)

    def restart_failed(self) -> None:
        """After `stop`: restart what has failed because of a fault that was under way."""
        for node_id in self._world.nodes:
            if self._has_failed(node_id):
                self._cluster.crash(node_id, power_loss=False)
                self._restart(node_id)

    def _schedule(self) -> None:
        self._world.after(self._rng.expovariate(1 / self._mean_pause), self._inject)

    def _inject(self) -> None:
        if self._is_stopped:
            return
        kind = self._rng.choice(self.kinds)
        self._world.record("fault", None, kind)
        self._note_fault(kind)
        self._cluster.history.counts[f"fault {kind}"] += 1
        self.injected += 1
        getattr(self, f"_{kind}")()
        self._schedule()

    def _later(self, low: float, high: float, mend: Callable[[], None]) -> None:
        self._world.after(self._rng.uniform(low, high), lambda: None if self._is_stopped else mend())

    def _any(self) -> int:
        return self._rng.choice(list(self._world.nodes))

    def _pair(self) -> tuple[int, int]:
        first, second = self._rng.sample(list(self._world.nodes), 2)
        return first, second

    def _crash(self, node_id: int, power_loss: bool) -> None:
        if self._cluster.is_up(node_id):
            self._cluster.crash(node_id, power_loss=power_loss)
            self._later(0.05, self._rng.choice([0.3, 4.0]), lambda: self._restart(node_id))

    def _restart(self, node_id: int) -> None:
        if not self._cluster.is_up(node_id):
            self._cluster.start(node_id)
            self._on_started(node_id)

    def _start_again(self, node_id: int) -> None:
        """A start was refused by the disk."""
        self._world.after(0.2, lambda: self._restart(node_id))

    def _has_failed(self, node_id: int) -> bool:
        """Whether some replica of a broker has stopped or could not be opened."""
        node = self._cluster.nodes.get(node_id)
        if node is None or not hasattr(node, "backend"):
            return False
        return bool(node.backend.failed) or any(consensus.failure is not None for consensus in node.groups)

    # -- processes and machines ---------------------------------------------------------------------------------

    def _kill(self) -> None:
        self._crash(self._any(), power_loss=False)

    def _power_loss(self) -> None:
        self._crash(self._any(), power_loss=True)

    def _kill_all(self) -> None:
        for node_id in self._world.nodes:
            self._crash(node_id, power_loss=False)

    def _power_loss_of_all(self) -> None:
        for node_id in self._world.nodes:
            self._crash(node_id, power_loss=True)

    def _pause(self) -> None:
        node = self._world.nodes[self._any()]
        if node.is_alive:
            node.pause()
            self._later(0.1, 5.0, lambda: self._resume(node))

    def _resume(self, node: SimNode) -> None:
        if node.is_alive:
            node.resume()

    def _clock_step(self) -> None:
        self._world.nodes[self._any()].wall_clock.step(self._rng.randrange(-3_600_000, 3_600_000))

    # -- links --------------------------------------------------------------------------------------------------

    def _cut_way(self, source: int, target: int) -> Callable[[], None]:
        self._world.network.cut(source, target)
        return lambda: self._world.network.heal(source, target)

    def _cut(self) -> None:
        first, second = self._pair()
        mends = [self._cut_way(first, second), self._cut_way(second, first)]
        self._later(0.1, 8.0, lambda: [mend() for mend in mends])

    def _cut_one_way(self) -> None:
        self._later(0.1, 8.0, self._cut_way(*self._pair()))

    def _isolate(self) -> None:
        node_id = self._any()
        others = [other for other in self._world.nodes if other != node_id]
        mends = [self._cut_way(*way) for other in others for way in ((node_id, other), (other, node_id))]
        self._later(0.1, 8.0, lambda: [mend() for mend in mends])

    def _reset(self) -> None:
        self._world.network.reset(*self._pair())

    def _slow_link(self) -> None:
        first, second = self._pair()
        self._world.network.slow(first, second, self._rng.choice([10.0, 100.0, 500.0]))
        self._later(0.5, 5.0, lambda: self._world.network.slow(first, second, 1.0))

    # -- disks --------------------------------------------------------------------------------------------------

    def _slow_disk(self) -> None:
        disk = self._world.nodes[self._any()].disk
        disk.slow_factor = self._rng.choice([10.0, 100.0])
        self._later(0.5, 5.0, lambda: setattr(disk, "slow_factor", 1.0))

    def _hung_fsync(self) -> None:
        node = self._world.nodes[self._any()]
        if node.is_alive:
            node.workers.stall(Pool.FSYNC, self._rng.uniform(0.5, 4.0))

    def _failed_fsync(self) -> None:
        self._fail_disk("fsync")

    def _failed_write(self) -> None:
        self._fail_disk("write")

    def _fail_disk(self, what: Operation) -> None:
        node_id = self._any()
        self._world.nodes[node_id].disk.fail_next(what)
        self._later(0.5, 3.0, lambda: self._restart_failed(node_id))

    def _restart_failed(self, node_id: int) -> None:
        """Whoever operates the broker restarts one whose replica has stopped; the disk is sound again."""
        self._world.nodes[node_id].disk.clear_faults()
        if self._cluster.is_up(node_id) and self._has_failed(node_id):
            self._cluster.crash(node_id, power_loss=self._rng.random() < 0.3)
        self._restart(node_id)

    def _bit_rot(self) -> None:
        """A bit flips in a closed segment, below the flushed mark; sometimes the process dies before anybody reads it."""
        cluster, node_id = self._cluster, self._rotting
        group = self._rng.choice(cluster.data_groups())
        consensus = cluster.consensus(node_id, group)
        # The mark of the entries before the last two segments stands in those.
        segments = [] if consensus is None else consensus.log._segments[:-2]
        closed = [segment for segment in segments if segment.last_index <= consensus.log.flushed_index]
        if not closed or consensus.state.is_refilling:
            return
        segment = self._rng.choice(closed)
        self._world.nodes[node_id].disk.rot(segment.path, self._rng.randrange(segment.size), self._rng.randrange(8))
        cluster.history.counts["bits flipped"] += 1
        if self._rng.random() < 0.7:
            self._crash(node_id, power_loss=False)

    def _full_disk(self) -> None:
        disk = self._world.nodes[self._any()].disk
        disk.capacity = disk.used + self._rng.randrange(0, 5000)
        self._later(0.5, 4.0, lambda: setattr(disk, "capacity", self._capacity))
