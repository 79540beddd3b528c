"""Faults of one run, drawn as a swarm: each seed has its own kinds, rates and durations (RFC 0006)."""

import posixpath
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from model.ids import RAFT0, GroupId, NodeId
from runtime.workers import Pool
from storage.index_file import index_path
from storage.snapshot_file import SNAPSHOT_NAME
from tests.simulation.world.ambush import wait_for_uncommitted
from tests.simulation.world.cluster import DATA_DIR, SimCluster
from tests.simulation.world.sim_disk import Inode, Operation
from tests.simulation.world.witnessed_segments import witnessed_segments
from tests.simulation.world.world import SimNode

KINDS = (
    "kill",
    "power_loss",
    "power_loss_of_all",
    "power_loss_of_others",
    "kill_all",
    "cut",
    "cut_one_way",
    "cut_client",
    "isolate",
    "isolate_from_all",
    "reject",
    "moving_cut",
    "reset",
    "black_hole",
    "slow_link",
    "small_segments",
    "pause",
    "slow_disk",
    "hung_append",
    "hung_fsync",
    "hung_kvstore",
    "hung_read",
    "hung_reads",
    "hung_directory",
    "loop_stall",
    "failed_fsync",
    "failed_write",
    "failed_read",
    "failed_open",
    "failed_name",
    "few_descriptors",
    "full_disk",
    "wiped_disk",
    "vanish_directory",
    "clock_step",
    "bit_rot",
    "flip_frame_bit",
)

# In a cluster of five brokers or more: of three, a deposed leader has no company that has not voted for the next one.
KINDS_OF_LARGE_CLUSTERS = ("deposed_company",)

_LAG_LOOK_SECONDS = 0.5
_LEADER_LOOK_SECONDS = 0.25
_AMBUSH_LOOK_SECONDS = 0.0005
_HOUR_MS = 3_600_000
_AWAY = "/away"


class InjectedFault(NamedTuple):
    """A fault of a run, by its number, and its virtual second."""

    number: int
    second: float
    kind: str


class _Flip(NamedTuple):
    """A bit of a group's file that has rotted."""

    group: GroupId
    inode: Inode
    position: int
    bit: int


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
        # Times and kinds come from one stream, all else from a stream of the fault's own: one that is left out moves no
        # other.
        self._rng = rng
        self._fault = rng
        self._on_started = on_started
        self._without = cluster.options.plan.without_faults
        self._is_stopped = False
        self._calm_from = 0.0
        self._number = 0
        self._capacity = self._world.nodes[1].disk.capacity
        self.kinds = [kind for kind in KINDS if rng.random() < 0.45] or [rng.choice(KINDS)]
        if len(self._world.nodes) >= 5 and rng.random() < 0.7:
            self.kinds += KINDS_OF_LARGE_CLUSTERS
        self._mean_pause = rng.choice([1.0, 2.0, 4.0])
        self.injected: list[InjectedFault] = []
        # One disk rots in a run: an entry that rots on a majority of its group's voters may be gone, and nobody promises
        # otherwise.
        self._rotting = self._any()
        # What has rotted, and the groups that must not, because few brokers hold them or are to hold them.
        self._flips: list[_Flip] = []
        self._sound: dict[GroupId, None] = {}
        self._wiped: dict[int, None] = {}
        # Brokers whose data directory is away.
        self._vanished: dict[int, None] = {}
        # Brokers whose disk is nobody else's to take: they join, or leave, or get another one.
        self.spared: dict[int, None] = {}
        self.on_stopped: Callable[[], None] = lambda: None
        cluster.on_refused_start = self._start_again

    def start(self) -> None:
        """Begin."""
        self._schedule()
        self._look_at_leaders()

    @property
    def is_stopped(self) -> bool:
        """Whether all is mended, and nothing more is broken."""
        return self._is_stopped

    def stop(self) -> None:
        """No new faults, and everything is mended: links healed, processes running, disks quick and with room."""
        self._is_stopped = True
        for node in self._world.nodes.values():
            node.resume()
            node.workers.mend()
            node.disk.clear_faults()
            node.disk.capacity = self._capacity
        self._world.network.heal_all()
        # What slow links hold comes late, and all behind it; so does what slow disks have begun.
        alive = [node for node in self._world.nodes.values() if node.is_alive]
        self._calm_from = max(
            self._world.network.all_arrived_at(), *(node.workers.all_ended_at() for node in alive), 0.0
        )
        for node_id in list(self._wiped):
            self._give_back(node_id)
        for node_id in list(self._vanished):
            self._bring_back(node_id)
        for node_id in self._world.nodes:
            # A replica that has failed stays failed for the life of its process.
            if self._has_failed(node_id):
                self._cluster.crash(node_id, power_loss=False)
            self._restart(node_id)
        self.on_stopped()

    @property
    def rotting(self) -> int | None:
        """The broker on whose disk bits flip in this run."""
        return self._rotting if "bit_rot" in self.kinds else None

    def keep_sound(self, group: GroupId) -> None:
        """Let nothing of a group rot from now on, and mend what has: fewer than three brokers are to hold it.

        Nobody has read what has rotted, so its replica may become the only one (seed 52597).
        """
        self._sound[group] = None
        for flip in self._flips:
            if flip.group == group:
                flip.inode.flip(flip.position, flip.bit)
        self._flips = [flip for flip in self._flips if flip.group != group]

    def is_away(self, node_id: int) -> bool:
        """Whether a broker's disk or its data directory is away."""
        return node_id in self._wiped or node_id in self._vanished

    def restart(self, node_id: int) -> None:
        """Start a broker that is down, unless its directory is away or an operator keeps it down."""
        self._restart(node_id)

    def crash(self, node_id: int, *, power_loss: bool) -> None:
        """End a broker's process, and start it again later."""
        self._crash(node_id, power_loss)

    def cut_off(self, node_id: int, others: list[int], seconds: float) -> None:
        """Cut a node off from others for so long."""
        mends = self._cut_off(node_id, others)
        self._world.after(seconds, lambda: None if self._is_stopped else [mend() for mend in mends])

    def restart_failed(self) -> None:
        """After `stop`: restart what has failed because of a fault that was under way."""
        for node_id in self._world.nodes:
            if self._has_failed(node_id):
                self._cluster.crash(node_id, power_loss=False)
                self._restart(node_id)
        self._look_at_lags()

    def _look_at_lags(self) -> None:
        if self._world.time >= self._calm_from:
            self._cluster.observer.quiet(self._world.time)
        self._world.after(_LAG_LOOK_SECONDS, self._look_at_lags)

    def _look_at_leaders(self) -> None:
        for node_id in self._cluster.nodes:
            node = self._world.nodes[node_id]
            if not node.loop.blocked:
                self._cluster.observer.look(node_id, node.incarnation, node.loop.time())
                self._cluster.observer.look_at_links(self._cluster.nodes[node_id])
        self._world.after(_LEADER_LOOK_SECONDS, self._look_at_leaders)

    def _schedule(self) -> None:
        # Bounded: no run is without faults.
        self._world.after(min(self._rng.expovariate(1 / self._mean_pause), 3 * self._mean_pause), self._inject)

    def _inject(self) -> None:
        if self._is_stopped:
            return
        kind = self._rng.choice(self.kinds)
        self._schedule()
        if self.begin(kind) is not None:
            getattr(self, f"_{kind}")()

    def begin(self, kind: str) -> Random | None:
        """Count a fault, or whatever else is done to the cluster, and return its stream; None: the plan leaves it out."""
        self._number += 1
        if self._number in self._without:
            return None
        self._fault = self._world.stream(f"fault/{self._number}")
        self._world.record("fault", None, (self._number, kind))
        self._note_fault(kind)
        self._cluster.history.counts[f"fault {kind}"] += 1
        self.injected.append(InjectedFault(self._number, self._world.time, kind))
        return self._fault

    def _later(self, low: float, high: float, mend: Callable[[], None]) -> None:
        self._world.after(self._fault.uniform(low, high), lambda: None if self._is_stopped else mend())

    def _any(self) -> int:
        return self._fault.choice(list(self._world.nodes))

    def _pair(self) -> tuple[int, int]:
        first, second = self._fault.sample(list(self._world.nodes), 2)
        return first, second

    def _crash(self, node_id: int, power_loss: bool) -> None:
        if self._cluster.is_up(node_id):
            self._cluster.crash(node_id, power_loss=power_loss)
            self._later(0.05, self._fault.choice([0.3, 4.0]), lambda: self._restart(node_id))

    def _restart(self, node_id: int) -> None:
        # Nobody starts a broker whose directory is away: it would make another one.
        is_kept_down = node_id in self._vanished or node_id in self._cluster.kept_down
        if not self._cluster.is_up(node_id) and not is_kept_down:
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

    def _power_loss_of_others(self) -> None:
        """One broker is cut off while all others lose power: it alone keeps what nobody had fsynced, and cannot tell."""
        survivor = self._any()
        self._isolate_from(survivor, self._others(survivor))
        for node_id in self._others(survivor):
            self._crash(node_id, power_loss=True)

    def _pause(self) -> None:
        node = self._world.nodes[self._any()]
        if node.is_alive:
            node.pause()
            self._later(0.1, 5.0, lambda: self._resume(node))

    def _loop_stall(self) -> None:
        """The loop of a process stands still (a collection, a computation, a slow disk); its threads go on."""
        node = self._world.nodes[self._any()]
        if node.is_alive and not node.loop.blocked:
            node.stall_loop()
            self._later(0.1, 3.0, lambda: self._resume(node))

    def _resume(self, node: SimNode) -> None:
        if node.is_alive:
            node.resume()

    def _clock_step(self) -> None:
        """By up to an hour, or by more than a day: what goes by this clock alone sees an age that nobody has lived."""
        by_ms = self._fault.choice([self._fault.randrange(-_HOUR_MS, _HOUR_MS), -25 * _HOUR_MS, 25 * _HOUR_MS])
        self._world.nodes[self._any()].wall_clock.step(by_ms)

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

    def _cut_client(self) -> None:
        client, node_id = self._fault.choice(list(self._world.clients) or [self._any()]), self._any()
        ways = self._fault.choice([[(client, node_id)], [(node_id, client)], [(client, node_id), (node_id, client)]])
        mends = [self._cut_way(*way) for way in ways]
        self._later(0.1, 8.0, lambda: [mend() for mend in mends])

    def _isolate(self) -> None:
        node_id = self._any()
        self._isolate_from(node_id, self._others(node_id))

    def _isolate_from_all(self) -> None:
        node_id = self._any()
        self._isolate_from(node_id, [other for other in (*self._world.nodes, *self._world.clients) if other != node_id])

    def _moving_cut(self) -> None:
        """A leader is cut off from the brokers, and clients reach it still; it comes back as its successor is cut off.

        So what the first has taken alone meets what the second has committed since, and nobody is there to cut it.
        """
        group, seconds = self._fault.choice(self._cluster.data_groups()), self._fault.uniform(1.5, 6.0)
        leader = self._cluster.leader_of(group) or self._any()
        mends = self._cut_off(leader, self._others(leader))

        def move() -> None:
            for mend in mends:
                mend()
            successor = self._cluster.leader_of(group)
            if successor is not None:
                again = self._cut_off(successor, self._others(successor))
                self._world.after(seconds, lambda: [mend() for mend in again])

        self._later(1.5, 4.0, move)

    def _isolate_from(self, node_id: int, others: list[int]) -> None:
        mends = self._cut_off(node_id, others)
        self._later(0.1, 8.0, lambda: [mend() for mend in mends])

    def _reject(self) -> None:
        """A leader is refused by the other brokers and not by clients, while it has something that is not committed.

        Its connections are reset, and no new ones come about: what was under way on them is lost, the others elect at
        once, and until its check-quorum it believes that it leads.
        """

        def strike(leader: int) -> None:
            others = [other for other in self._world.nodes if other != leader]
            for other in others:
                self._world.network.reset(leader, other)
            self._isolate_from(leader, others)

        # As often the topics' as a topic's own.
        group = self._fault.choice([RAFT0, self._fault.choice(self._cluster.data_groups())])
        wait_for_uncommitted(self._cluster, group, self._strikes(strike))

    def _deposed_company(self) -> None:
        """raft0's leader and one other broker are cut off from all others, and that one starts again.

        The others elect at once. Until its check-quorum the deposed leader believes that it leads, and the other one,
        which has not voted for the next, believes it, too.
        """
        leader = self._cluster.leader_of(RAFT0) or self._any()
        company = self._fault.choice(self._others(leader))
        others = [other for other in self._others(leader) if other != company]
        for other in others:
            self._world.network.reset(leader, other)
        mends = [*self._cut_off(leader, others), *self._cut_off(company, others)]
        if self._cluster.is_up(company):
            self._cluster.crash(company, power_loss=False)
            self._later(0.05, 0.6, lambda: self._restart(company))
        self._later(1.0, 5.0, lambda: [mend() for mend in mends])

    def _strikes(self, strike: Callable[[int], None]) -> Callable[[int], None]:
        return lambda leader: None if self._is_stopped else strike(leader)

    def _cut_off(self, node_id: int, others: list[int]) -> list[Callable[[], None]]:
        return [self._cut_way(*way) for other in others for way in ((node_id, other), (other, node_id))]

    def _others(self, node_id: int) -> list[int]:
        return [other for other in self._world.nodes if other != node_id]

    def _machines(self) -> tuple[int, int]:
        """A broker, and another one or a machine of clients."""
        first = self._any()
        return first, self._fault.choice([each for each in (*self._world.nodes, *self._world.clients) if each != first])

    def _reset(self) -> None:
        self._world.network.reset(*self._machines())

    def _black_hole(self) -> None:
        """Something on the way forgets the connections there are: their bytes vanish, and nobody is told."""
        self._world.network.black_hole(*self._machines())

    def _small_segments(self) -> None:
        first, second = self._machines()
        links = [self._world.network.link(first, second), self._world.network.link(second, first)]
        for link in links:
            link.segment_bytes = self._fault.choice([7, 61, 536])
        self._later(0.5, 3.0, lambda: [setattr(link, "segment_bytes", None) for link in links])

    def _flip_frame_bit(self) -> None:
        """Bits flip on the way from one broker to another, one in each of the next pieces, and no checksum of TCP notices.

        Clients' links are left alone: what a producer sends is covered by its batch's own checksum only.
        """
        source, target = self._pair()
        link = self._world.network.link(source, target)
        # A broker that has just begun has no links yet.
        links = getattr(self._cluster.nodes.get(target), "links", None)
        damaged = links.damaged if links is not None else {}
        before, counts = damaged.get(NodeId(source), 0), self._cluster.history.counts
        link.flips = [(self._fault.random(), self._fault.randrange(8)) for _ in range(self._fault.choice([1, 3, 20]))]
        counts["bits flipped on a link"] += len(link.flips)

        def end() -> None:
            link.flips = []
            if damaged.get(NodeId(source), 0) > before:
                counts["damage on a link noticed"] += 1

        self._later(0.5, 3.0, end)

    def _slow_link(self) -> None:
        first, second = self._machines()
        self._world.network.slow(first, second, self._fault.choice([10.0, 100.0, 500.0]))
        self._later(0.5, 5.0, lambda: self._world.network.slow(first, second, 1.0))

    # -- disks --------------------------------------------------------------------------------------------------

    def _slow_disk(self) -> None:
        disk = self._world.nodes[self._any()].disk
        disk.slow_factor = self._fault.choice([10.0, 100.0])
        self._later(0.5, 5.0, lambda: setattr(disk, "slow_factor", 1.0))

    def _hung_fsync(self) -> None:
        self._hang(Pool.FSYNC)

    def _hung_append(self) -> None:
        self._hang(Pool.APPEND)

    def _hung_kvstore(self) -> None:
        self._hang(Pool.KVSTORE)

    def _hung_reads(self) -> None:
        self._hang(Pool.READ)

    def _hang(self, pool: Pool) -> None:
        """No job of a kind ends: for as long as a leader stays in office, for longer, or until somebody mends the disk."""
        node = self._world.nodes[self._any()]
        if not node.is_alive:
            return
        seconds = self._fault.choice([(0.5, 3.0), (3.0, 8.0), None])
        if seconds is not None:
            node.workers.stall(pool, self._fault.uniform(*seconds))
        else:
            self._until_mended(node, lambda: node.workers.stall(pool))

    def _until_mended(self, node: SimNode, hang: Callable[[], object]) -> None:
        hang()
        workers = node.workers
        self._later(5.0, 15.0, workers.mend)

    def _hung_read(self) -> None:
        """The reads that run when there are some; others go on."""
        node = self._world.nodes[self._any()]

        def strike() -> None:
            if not self._is_stopped and node.is_alive and not node.workers.hang(Pool.READ):
                self._world.after(_AMBUSH_LOOK_SECONDS, strike)

        self._until_mended(node, strike)

    def _hung_directory(self) -> None:
        """What makes, renames or removes a name does not come back; the name is changed, and others go on."""
        node = self._world.nodes[self._any()]
        if node.is_alive:
            self._until_mended(node, node.workers.hang_directories)

    def _failed_fsync(self) -> None:
        self._fail_disk("fsync")

    def _failed_write(self) -> None:
        self._fail_disk("write")

    def _failed_read(self) -> None:
        self._fail_disk("read")

    def _failed_open(self) -> None:
        self._fail_disk("open")

    def _failed_name(self) -> None:
        """A directory refuses a change, or a file to be cut."""
        what: list[Operation] = ["rename", "unlink", "truncate", "fsync_dir"]
        self._fail_disk(self._fault.choice(what))

    def _few_descriptors(self) -> None:
        """The process, or its machine, has none left for some time, or almost none."""
        disk = self._world.nodes[self._any()].disk
        disk.no_descriptor = self._fault.choice([0.5, 0.9, 1.0])
        self._later(0.5, 4.0, lambda: setattr(disk, "no_descriptor", 0.0))

    def _fail_disk(self, what: Operation) -> None:
        node_id = self._any()
        self._world.nodes[node_id].disk.fail_next(what)
        power_loss = self._fault.random() < 0.3
        self._later(0.5, 3.0, lambda: self._restart_failed(node_id, power_loss))

    def _restart_failed(self, node_id: int, power_loss: bool) -> None:
        """Whoever operates the broker restarts one whose replica has stopped; the disk is sound again."""
        self._world.nodes[node_id].disk.clear_faults()
        if self._cluster.is_up(node_id) and self._has_failed(node_id):
            self._cluster.crash(node_id, power_loss=power_loss)
        self._restart(node_id)

    def _wiped_disk(self) -> None:
        """A machine comes back with an empty disk; its own is put back later, for the broker has no other copy of it."""
        node_id = self._any()
        if self._wiped or node_id in self._vanished or self._is_spared(node_id):
            return
        self._wiped[node_id] = None
        if self._cluster.is_up(node_id):
            self._cluster.crash(node_id, power_loss=self._fault.random() < 0.5)
        self._cluster.swap_disk(node_id)
        self._restart(node_id)
        self._later(1.0, 6.0, lambda: self._give_back(node_id))

    def _is_spared(self, node_id: int) -> bool:
        return node_id in self.spared or node_id in self._cluster.kept_down

    def _give_back(self, node_id: int) -> None:
        del self._wiped[node_id]
        if self._cluster.is_up(node_id):
            self._cluster.crash(node_id, power_loss=False)
        self._cluster.swap_disk(node_id)
        self._restart(node_id)

    def _vanish_directory(self) -> None:
        """The data directory of a broker that serves goes, as often as not with an empty one in its place.

        The broker ends by itself, once it looks, and is started when the directory is back.
        """
        node_id = self._any()
        node = self._cluster.nodes.get(node_id)
        if node is None or self.is_away(node_id) or not node.is_registered.is_set() or self._is_spared(node_id):
            return
        disk = self._world.nodes[node_id].disk
        disk.move(DATA_DIR, _AWAY)
        if self._fault.random() < 0.5:
            disk.make_empty(DATA_DIR)
        self._vanished[node_id] = None
        self._later(1.5, 6.0, lambda: self._bring_back(node_id))

    def _bring_back(self, node_id: int) -> None:
        del self._vanished[node_id]
        disk = self._world.nodes[node_id].disk
        if made := disk.names(DATA_DIR):
            self._world.fail(node_id, f"{made} were made in the place of a data directory that was away")
        disk.move(_AWAY, DATA_DIR)
        self._restart(node_id)

    def _bit_rot(self) -> None:
        """A bit flips below the flushed mark; sometimes the process dies before anybody reads it.

        In any group's closed segment, in the index file of one, or in a snapshot.
        """
        node_id, disk = self._rotting, self._world.nodes[self._rotting].disk
        # As often the topic's as any that the broker has: raft0, other topics, consumer groups.
        here = [each for each in self._groups_of(node_id) if self._may_rot(node_id, each)]
        of_topic = [each for each in self._cluster.data_groups() if each in here]
        if not here:
            return
        group = self._fault.choice(self._fault.choice([of_topic or here, here]))
        consensus = self._cluster.consensus(node_id, group)
        assert consensus is not None
        witnessed = witnessed_segments(disk, consensus.log._segments, {each.inode for each in self._flips})
        closed = [each.path for each in witnessed if each.last_index <= consensus.log.flushed_index]
        snapshot = posixpath.join(posixpath.dirname(consensus.log._segments[-1].path), SNAPSHOT_NAME)
        files = {"a segment": closed, "an index file": [index_path(path) for path in closed], "a snapshot": [snapshot]}
        found = {kind: [path for path in paths if disk.durable_bytes(path)] for kind, paths in files.items()}
        # A segment as often as one of the others.
        kinds = [kind for kind in ("a segment", "a segment", "an index file", "a snapshot") if found[kind]]
        if not kinds:
            return
        kind = self._fault.choice(kinds)
        paths = found[kind]
        path = self._fault.choice(paths)
        position = self._fault.randrange(len(disk.durable_bytes(path) or b""))
        bit = self._fault.randrange(8)
        if not disk.rot(path, position, bit):
            return
        inode = disk.inode(path)
        assert inode is not None
        self._flips.append(_Flip(group, inode, position, bit))
        counts = self._cluster.history.counts
        counts["bits flipped"] += 1
        counts[f"bits flipped in {kind}"] += 1
        # What is read at a start only must have one, and what raft0 has lost comes back with the next one (RFC 0008).
        if kind != "a segment" or consensus.group == RAFT0 or self._fault.random() < 0.7:
            self._crash(node_id, power_loss=False)

    def _may_rot(self, node_id: int, group: GroupId) -> bool:
        """Whether others have what rots here, and a start can tell what is gone."""
        consensus = self._cluster.consensus(node_id, group)
        # A damaged snapshot of a log without a segment is refused for good (RFC 0002 section 7); of what has one voter
        # only nobody has a copy, and nobody promises that it comes back.
        return (
            consensus is not None
            and group not in self._sound
            and not consensus.state.is_refilling
            and bool(consensus.log._segments)
            # Of two, the other one may lack what was never committed and is damaged here: nobody is elected then.
            and len(consensus.configuration.node_ids) > 2
        )

    def _groups_of(self, node_id: int) -> list[GroupId]:
        groups = getattr(self._cluster.nodes.get(node_id), "groups", None)
        return [] if groups is None else sorted(groups._groups)

    def _full_disk(self) -> None:
        disk = self._world.nodes[self._any()].disk
        disk.capacity = disk.used + self._fault.randrange(0, 5000)
        self._later(0.5, 4.0, lambda: setattr(disk, "capacity", self._capacity))
