"""A founded cluster under a script, mostly of one partition: who leads, who hears whom, who dies, and what is written.

The script runs outside the nodes. It moves election deadlines (which is always safe: they only say who tries when),
links, disks and processes; everything else is the production code's doing, and every invariant is asked after each
instant.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from model.features import LevelRange
from model.ids import ConsistencyLevel, GroupId
from raft.consensus import Consensus
from raft.election_timer import ElectionTimer
from raft.errors import RaftError
from raft.options import RaftOptions
from raft.replicate_item import ReplicateResult
from tests.engine import consensus_of
from tests.feature_levels import LEVEL_0
from tests.simulation.clients.workload import record_batch
from tests.simulation.world.cluster import ClusterOptions, SimCluster
from tests.simulation.world.replica_view import Ghost, ReplicaView, content_key
from tests.simulation.world.world import SimNode, World

QUORUM = ConsistencyLevel.QUORUM_ACK
LEADER = ConsistencyLevel.LEADER_ACK
NO_ACK = ConsistencyLevel.NO_ACK

_WRITE_SECONDS = 60.0


@dataclass(slots=True, eq=False)
class Write:
    """One produce call; `result` or `error` once it is answered, for ever neither if its node died before."""

    content: bytes
    level: ConsistencyLevel
    result: ReplicateResult | None = None
    error: RaftError | None = None

    @property
    def is_answered(self) -> bool:
        return self.result is not None or self.error is not None


class Scenario:
    """Use as a context manager; `converge` ends it.

    What is said of logs, leaders and elections is said of the first partition.
    """

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        replicas: int | None = None,
        features: Mapping[str, LevelRange] = LEVEL_0,
        partitions: int = 1,
        segment_bytes: int = 64 * 1024,
        raft: RaftOptions | None = None,
        topic_configs: dict[str, str | None] | None = None,
        telemetry: bool = False,
        kafka: bool = False,
        transactions_level: int = 0,
        idle_probe_interval: float = 0.0,
    ) -> None:
        self.world = World(seed)
        options = ClusterOptions(
            nodes=nodes,
            replicas=replicas,
            features=features,
            partitions=partitions,
            segment_bytes=segment_bytes,
            raft=raft or RaftOptions(),
            topic_configs=topic_configs or {},
            telemetry=telemetry,
            kafka=kafka,
            transactions_level=transactions_level,
            idle_probe_interval=idle_probe_interval,
        )
        self.cluster = SimCluster(self.world, options)
        self.writes: list[Write] = []
        # Whose election timer counts; None: everybody's. The others' deadlines are put off when they are due.
        self.candidates: set[int] | None = None
        self._timed: dict[int, Consensus] = {}

    def __enter__(self) -> Self:
        self.cluster.found()
        self.world.scheduler.observers.append(self._hold_timers)
        self.candidates = set()
        # Not before everybody has the partition and knows its first leader.
        placed = self.replica(self.leader).configuration.node_ids
        self.wait(lambda: all(self._knows_leader(node_id) for node_id in placed))
        return self

    def __exit__(self, *_: object) -> None:
        self.world.close()

    def _knows_leader(self, node_id: int) -> bool:
        consensus = self.cluster.consensus(node_id, self.group)
        return consensus is not None and consensus.leader_id is not None and consensus.log.dirty_index > 0

    # -- what is there ------------------------------------------------------------------------------------------

    @property
    def group(self) -> GroupId:
        return self.cluster.data_groups()[0]

    @property
    def leader(self) -> int:
        """The node that leads the newest term, in office."""
        node_id = self.cluster.leader_of(self.group)
        assert node_id is not None
        return node_id

    @property
    def followers(self) -> list[int]:
        """All other nodes, up or down."""
        return [node_id for node_id in self.world.nodes if node_id != self.leader]

    @property
    def counts(self):
        """What the observer has counted."""
        return self.cluster.history.counts

    def machine(self, node_id: int) -> SimNode:
        return self.world.nodes[node_id]

    def replica(self, node_id: int) -> Consensus:
        """Return the replica of a node that is up."""
        consensus = self.cluster.consensus(node_id, self.group)
        assert consensus is not None, f"node {node_id} has no replica now"
        return consensus

    def probe(self, node_id: int):
        """Return a node's counters."""
        return self.cluster.nodes[node_id].groups.probe

    def view(self, node_id: int) -> ReplicaView:
        """Return what a replica holds, or held when its process ended."""
        return self.cluster.observer.view_of(node_id, self.group)

    def log(self, node_id: int) -> list[Ghost]:
        return list(self.view(node_id).entries)

    def terms(self, node_id: int) -> list[int]:
        """Return the term of each entry of a replica, from index 1 on."""
        return [entry.term for entry in self.view(node_id).entries]

    def holds(self, node_id: int, write: Write) -> bool:
        return any(entry.content == write.content for entry in self.view(node_id).entries)

    # -- time ---------------------------------------------------------------------------------------------------

    def wait(self, goal: Callable[[], bool], seconds: float = 10.0) -> None:
        """Run until the end of the first instant at which `goal` holds."""
        done = goal() or self.world.run_until(goal, self.world.time + seconds)
        self.world.check()
        assert done, "\n".join([f"not reached within {seconds} virtual seconds", *self.cluster.describe()])

    def run_for(self, seconds: float) -> None:
        self.world.run_until(self.world.time + seconds)
        self.world.check()

    # -- who leads ----------------------------------------------------------------------------------------------

    def _hold_timers(self) -> None:
        for node_id in self.cluster.nodes:
            consensus = self.cluster.consensus(node_id, self.group)
            if consensus is not None and self._timed.get(node_id) is not consensus:
                self._timed[node_id] = consensus
                timer = consensus._election
                timer._deadline._callback = self._held(node_id, timer, timer._on_due)

    def _held(self, node_id: int, timer: ElectionTimer, on_due: Callable[[], None]) -> Callable[[], None]:
        def fire() -> None:
            if self.candidates is None or node_id in self.candidates:
                on_due()
            else:
                timer.rearm()

        return fire

    def elect(self, node_id: int, seconds: float = 8.0) -> None:
        """Run until the very instant at which `node_id` is elected: nothing of its term has been sent yet."""
        deadline = self.world.time + seconds
        self.candidates = {node_id}
        while not self.replica(node_id).state.is_leader:
            assert self.world.time < deadline, "\n".join([f"node {node_id} is not elected", *self.cluster.describe()])
            for other in self.cluster.nodes:
                consensus = self.cluster.consensus(other, self.group)
                if consensus is not None:
                    self.machine(other).spawn(_steer(consensus, stands=other == node_id))
            self.world.run_until(lambda: self._leads(node_id), self.world.time + 0.2)
            self.world.check()
        self.candidates = set()

    def _leads(self, node_id: int) -> bool:
        consensus = self.cluster.consensus(node_id, self.group)
        return consensus is not None and consensus.state.is_leader

    def elect_into_office(self, node_id: int) -> None:
        """Elect, and run until its barrier is committed."""
        self.elect(node_id)
        self.wait(lambda: self.replica(node_id).is_in_office)

    # -- links and lives ----------------------------------------------------------------------------------------

    def connect(self, *islands: Iterable[int]) -> None:
        """Nodes of one island hear each other; everybody else is cut off."""
        home = {node_id: number for number, island in enumerate(islands) for node_id in island}
        for one in self.world.nodes:
            for other in self.world.nodes:
                if one == other:
                    continue
                if one in home and home.get(other) == home[one]:
                    self._join(one, other)
                else:
                    self.world.network.cut(one, other)

    def heal(self) -> None:
        """All links work; what was waiting behind a cut is lost with its connection."""
        self.connect(self.world.nodes)
        self.world.network.heal_all()

    def join(self, one: int, other: int) -> None:
        """Let two nodes hear each other again, whoever else does."""
        self._join(one, other)
        self._join(other, one)

    def _join(self, one: int, other: int) -> None:
        if self.world.network.link(one, other).cut_at is not None:
            # Otherwise the kernel would still deliver what was sent during the cut: not what these stories tell.
            self.world.network.reset(one, other)
            self.world.network.heal(one, other)

    def bound_kernel_buffers(self, size: int) -> None:
        """Let the kernels take so many bytes of a connection that works now before its peer has them."""
        for node in self.world.nodes.values():
            for transport in node.host.endpoints:
                transport._window = size

    def kill(self, *node_ids: int) -> None:
        """SIGKILL; what a cut has held back of it is lost."""
        for node_id in node_ids:
            for other in self.world.nodes:
                if other != node_id and self.world.network.link(node_id, other).cut_at is not None:
                    self.world.network.reset(node_id, other)
            self.cluster.crash(node_id, power_loss=False)

    def lose_power(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.cluster.crash(node_id, power_loss=True)

    def restart(self, *node_ids: int) -> None:
        """Start brokers again and run until their replicas are open."""
        for node_id in node_ids:
            self.cluster.start(node_id)
        self.wait(lambda: all(self.cluster.consensus(node_id, self.group) is not None for node_id in node_ids))

    # -- writes -------------------------------------------------------------------------------------------------

    def write(
        self,
        node_id: int,
        level: ConsistencyLevel,
        *,
        size: int = 0,
        records: int = 1,
        within: float = _WRITE_SECONDS,
    ) -> Write:
        """Hand one batch to a replica; it is in the batcher once a moment has passed.

        Args:
            size: Bytes of padding in the batch.
            within: Seconds after which the producer wants an answer.
        """
        number = len(self.writes) + 1
        values = [b"%d-%d" % (number, position) for position in range(records)]
        values[0] += b"x" * size
        batch = record_batch(values)
        write = Write(content_key(batch), level)
        self.writes.append(write)
        self.cluster.history.sent.add(write.content)
        self.machine(node_id).spawn(self._produce(node_id, write, batch, records, within))
        return write

    def written(self, node_id: int, level: ConsistencyLevel, count: int = 1, *, size: int = 0) -> list[Write]:
        """Write `count` batches one after the other, each once the leader's log holds the one before."""
        writes = []
        for _ in range(count):
            write = self.write(node_id, level, size=size)
            self.wait(lambda last=write: self.holds(node_id, last))
            writes.append(write)
        return writes

    async def _produce(self, node_id: int, write: Write, batch: bytearray, records: int, within: float) -> None:
        partition = self.cluster.partition(node_id, self.group)
        assert partition is not None
        deadline = asyncio.get_running_loop().time() + within
        stages = partition.produce(batch, records, write.level, deadline)
        await stages.enqueued
        try:
            result = await stages.replicated
        except RaftError as error:
            write.error = error
            return
        self.cluster.observe(node_id)
        # What is answered before it is fsynced is promised no more than a relaxed write (RFC 0003, levels).
        is_cached = write.level is QUORUM and consensus_of(partition).state.write_caching
        promised = LEADER if is_cached else write.level
        self.cluster.observer.answered(node_id, self.group, promised, write.content, result)
        write.result = result

    # -- the end ------------------------------------------------------------------------------------------------

    def converge(self, seconds: float = 20.0) -> None:
        """Free all elections, heal everything, restart who is down, and run until all replicas are equal and everything is committed."""
        self.candidates = None
        for node in self.world.nodes.values():
            node.disk.clear_faults()
        self.heal()
        self.restart(*[node_id for node_id in self.world.nodes if not self.cluster.is_up(node_id)])
        self.wait(self.cluster.has_converged, seconds)
        self.run_for(0.5)
        self.cluster.observer.at_end()
        logs = {tuple(entry.chain for entry in self.log(node_id)) for node_id in self.world.nodes}
        assert len(logs) == 1


async def _steer(consensus: Consensus, *, stands: bool) -> None:
    """Let a replica forget the leader it hears, and stand now if it is the one; the leader itself knows nothing of it."""
    timer = consensus._election
    if consensus.state.is_leader:
        return
    timer._heard_at = None
    if stands and not timer._is_standing:
        timer._deadline.arm(asyncio.get_running_loop().time())
