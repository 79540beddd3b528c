"""Brokers' engines (cluster.node.Node, the production code) on a simulated world, with an observer; mostly three."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from cluster.admin_messages import AdminReply, CreateTopicRequest, RegisterBrokerRequest
from cluster.commands import BrokerRecord
from cluster.compaction import CompactionOptions
from cluster.data_directory import GROUPS, lock_data_directory
from cluster.errors import ClusterError, PermanentStartupError, RefusedDirectoryError, StartupError
from cluster.first_contact import FirstContact
from cluster.founding_words import Seed
from cluster.node import Node
from cluster.node_options import NodeOptions
from cluster.partition import Partition
from cluster.state_bounds import StateOptions
from kafka_api.groups.options import GroupOptions
from kafka_api.options import KafkaOptions
from kafka_api.server import KafkaServer
from kafka_api.transactions.options import TransactionOptions
from model.features import LevelRange
from model.ids import RAFT0, GroupId, NodeId, topic_of
from model.topic_config import TopicConfig
from raft.consensus import Consensus
from raft.options import RaftOptions
from storage.errors import CorruptLogError, LogPoisonedError, RefusedError
from storage.memory_kvstore import MemoryKvStore
from tests.feature_levels import LEVEL_0
from tests.simulation.campaign.plan import Plan
from tests.simulation.clients.history import History
from tests.simulation.world.convergence import Broker, what_is_missing, what_is_open
from tests.simulation.world.digested_state import DigestedState
from tests.simulation.world.observer import Observer
from tests.simulation.world.older_node import OlderNode
from tests.simulation.world.sim_cleaner import SimCleaner
from tests.simulation.world.sim_disk import Directory
from tests.simulation.world.watched_leaves import watch_leaves
from tests.simulation.world.watched_partitions import watch_partitions
from tests.simulation.world.watched_reports import look_at_reports, watch_events, watch_lags
from tests.simulation.world.world import World

_RAFT0_SEGMENT_BYTES = 1024
_RPC_PORT = 33145
KAFKA_PORT = 9092
TOPIC = "orders"
# Where topics are compacted, the one whose keys are overwritten and deleted.
TABLE = "table"
DATA_DIR = "/data"
_MIB = 1024 * 1024

# What a machine's disk holds: its files, and the kvstore.
DiskImage = tuple[Directory, dict[str, bytes]]
# Groups that move quickly: of the order of the nemesis.
_GROUPS = GroupOptions(
    min_session_timeout_ms=500, initial_rebalance_delay_ms=500, topic_partitions=1, lag_interval_ms=1_000
)
_TRANSACTIONS = TransactionOptions(topic_partitions=1, timeout_check_interval_ms=200)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """What one simulated cluster looks like.

    Attributes:
        nodes: Brokers that found the cluster; all of them vote in raft0.
        is_older: All brokers begin in the version before `raftka.membership`; those of `spare` machines do not.
        spare: Machines on which no broker runs at first. With some, brokers come and go (RFC 0020).
        replicas: Replicas of each partition of the topic; None: one on each broker.
        digests: The replicas' states carry what proves that they fit the log; off for tests of other proofs.
        kafka: Each broker listens for Kafka clients.
        telemetry: Each broker publishes its replicas' figures.
        idle_probe_interval: How often silent links are asked for a sign of life; 0.0: never.
        plan: What the run leaves out.
        state: Bounds of the tables of raft0 and of groups; None: those of a broker.
        features: The levels of features that each broker can work at; the cluster is founded at the highest.
        compaction: How passes are made of topics that are compacted; None: there are none, and records have no keys.
        has_table: A second compacted topic has keys that are overwritten and deleted.
        has_group: A consumer group is at work in a run.
        transactions_level: Of `transaction.version`; 0: there are no transactions.
        write_caching: acks=all of the topic promises what write caching does, and `topic_configs` say so.
    """

    nodes: int = 3
    spare: int = 0
    is_older: bool = False
    replicas: int | None = None
    partitions: int = 2
    segment_bytes: int = 64 * 1024
    raft: RaftOptions = field(default_factory=RaftOptions)
    digests: bool = True
    kafka: bool = False
    telemetry: bool = False
    idle_probe_interval: float = 0.0
    state: StateOptions | None = None
    plan: Plan = field(default_factory=lambda: Plan(0))
    retention_bytes: int = -1
    features: Mapping[str, LevelRange] = field(default_factory=lambda: LEVEL_0)
    compaction: CompactionOptions | None = None
    has_table: bool = False
    has_group: bool = False
    transactions_level: int = 0
    write_caching: bool = False
    topic_configs: dict[str, str | None] = field(default_factory=dict)

    @property
    def drawn(self) -> dict[str, object]:
        """What runs differ in, to be read."""
        names = ("nodes", "replicas", "segment_bytes", "retention_bytes", "write_caching")
        of_raft = ("snapshot_entries", "state_step_entries", "flush_interval", "unreplicated_bytes", "batcher_bytes")
        raft = {name: getattr(self.raft, name) for name in of_raft}
        return {name: getattr(self, name) for name in names} | raft


class SimCluster:
    """Brokers by node id; each may be down. All methods are called from outside the nodes' loops."""

    def __init__(self, world: World, options: ClusterOptions) -> None:
        self.world = world
        self.options = options
        min_in_sync = int(options.topic_configs.get("min.insync.replicas") or 1)
        self.history = History(min_in_sync=min_in_sync, has_transactions=options.transactions_level > 0)
        self.observer = Observer(self.history)
        self.nodes: dict[int, Node] = {}
        self.on_refused_start: Callable[[int], None] = lambda node_id: None
        self.on_power_loss: Callable[[], None] = lambda: None
        self._groups: list[GroupId] = []
        # Of the brokers' newest lives.
        self._servers: dict[int, KafkaServer] = {}
        self._kvstores: dict[int, dict[str, bytes]] = {}
        self._disks_out: dict[int, DiskImage] = {}
        # Those whose processes have run in this instant, as of its end.
        self.ran: list[int] = []
        # How often a life of a broker has begun or ended.
        self.turns = 0
        # Brokers of the version before the feature.
        self.older: dict[int, None] = dict.fromkeys(range(1, options.nodes + 1)) if options.is_older else {}
        # Brokers that only an operator starts: they are not in the cluster, or their disk is being replaced.
        self.kept_down: dict[int, None] = {}
        for node_id in range(1, options.nodes + options.spare + 1):
            machine = world.add_node(node_id)
            self._kvstores[node_id] = {}
            if node_id > options.nodes:
                machine.crash(power_loss=False)
                self.kept_down[node_id] = None
        world.scheduler.observers.append(self._observe)

    def start(self, node_id: int) -> None:
        """Begin a life of a broker."""
        machine = self.world.nodes[node_id]
        if not machine.is_alive:
            machine.restart()
        environment = machine.environment
        founders = [self.world.nodes[founder] for founder in range(1, self.options.nodes + 1)]
        seeds = [Seed(other.node_id, other.address, _RPC_PORT) for other in founders]
        options = NodeOptions(
            node_id=NodeId(node_id),
            data_dir=DATA_DIR,
            rpc_host=machine.address,
            rpc_port=_RPC_PORT,
            seeds=seeds,
            secret=b"simulated",
            # A minute's commands are few: raft0 too has to begin its log anew now and then.
            raft0_segment_bytes=_RAFT0_SEGMENT_BYTES,
            raft=self.options.raft,
            topic_defaults=TopicConfig(
                segment_bytes=self.options.segment_bytes,
                retention_ms=-1,
                retention_bytes=self.options.retention_bytes,
            ),
            retention_check_interval=1.0,
            telemetry=self.options.telemetry,
            idle_probe_interval=self.options.idle_probe_interval,
            state=self.options.state or StateOptions(),
            compaction=self.options.compaction or CompactionOptions(),
            features=LEVEL_0 if node_id in self.older else self.options.features,
        )
        try:
            lock_data_directory(environment, DATA_DIR)
        except StartupError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            # Its process ends before there is a node.
            machine.crash(power_loss=False)
            self._note_refused_start(node_id)
            return
        kvstore = MemoryKvStore(environment, self._kvstores[node_id])
        make = OlderNode if node_id in self.older else Node
        cleaner = SimCleaner(environment)
        node = self.nodes[node_id] = make(
            environment, options, kvstore, lambda line: self._unusable(node_id, line), cleaner=cleaner
        )
        self.turns += 1
        watch_events(node, machine.incarnation, self.observer)
        machine.spawn(self._run(node))

    async def _run(self, node: Node) -> None:
        node_id = node.options.node_id
        try:
            if (self.options.spare or self.options.transactions_level) and not isinstance(node, OlderNode):
                await FirstContact(node.env, node.options).make()
            await node.start()
        except (CorruptLogError, LogPoisonedError, RefusedError, OSError):
            # The disk refused, or could not be read: a broker process ends with an error here, and somebody starts it
            # again. One that never starts does not converge.
            self.world.after(0.0, self._end_if_current, node)
            return
        except PermanentStartupError as error:
            # The disk is empty, or that of a broker that is in the cluster no longer. The same would happen at every
            # start, so nobody starts it again before its own disk is back.
            if not self.options.spare and not isinstance(error, RefusedDirectoryError):
                raise
            self.world.after(0.0, self._end_refused, node)
            return
        # Before it opens its first partition.
        if self.options.digests:
            new_state = node.backend._new_log_state
            # A coordinator looks for its own state behind the log of an internal topic.
            node.backend._new_log_state = lambda topic, number: (
                new_state(topic, number) if topic.is_internal else DigestedState(new_state(topic, number))
            )
        watch_leaves(node, self.world.nodes[node_id].incarnation, self.observer)
        host = self.world.nodes[node_id].address
        if self.options.kafka:
            watch_partitions(node, node_id, self.world.nodes[node_id].incarnation, self.observer)
            # It lives as long as its process; what it promises to clients, a crash ends.
            options = KafkaOptions(
                request_memory_bytes=8 * _MIB,
                fetch_memory_bytes=8 * _MIB,
                groups=_GROUPS,
                transactions=_TRANSACTIONS,
            )
            server = KafkaServer(node.env, node, options)
            await server.start(host, KAFKA_PORT)
            self._servers[node_id] = server
            life = self.world.nodes[node_id].incarnation
            watch_lags(node, server.group_lags, life, self.observer)
            self.world.nodes[node_id].spawn(look_at_reports(node, server, life, self.observer))
        self._watch_registration(node)
        node.register(BrokerRecord(node_id, node.replica.directory_id, host, KAFKA_PORT, host, _RPC_PORT, host, 9644))

    def _watch_registration(self, node: Node) -> None:
        register, node_id = node.admin.register_broker, node.options.node_id

        async def registered(request: RegisterBrokerRequest) -> AdminReply:
            committed = len(self.history.committed_in(RAFT0))
            reply = await register(request)
            self.history.counts["registrations"] += 1
            self.observer.registered(node_id, committed, reply.applied_index)
            return reply

        node.admin.register_broker = registered  # type: ignore[method-assign]
        remove_leftovers = node.backend.remove_leftovers

        def removed() -> None:
            on_disk = (GroupId(name.replace("-", "/")) for name in self._groups_directory(node_id).entries)
            unknown = [
                group for group in on_disk if group != RAFT0 and not node.controller.topics.get_by_id(topic_of(group))
            ]
            self.history.counts["leftovers removed"] += len(unknown)
            remove_leftovers()

        node.backend.remove_leftovers = removed  # type: ignore[method-assign]

    def _unusable(self, node_id: int, line: str) -> None:
        """The broker ends by itself, which it does with its whole process here."""
        why = "without their directory" if line.startswith("data directory") else "because their kvstore failed"
        self.history.counts[f"brokers that ended {why}"] += 1
        node = self.nodes[node_id]
        self.world.after(0.0, self._end_if_current, node)

    def _end_if_current(self, node: Node) -> None:
        if self.nodes.get(node.options.node_id) is node:
            self.crash(node.options.node_id, power_loss=False)
            self._note_refused_start(node.options.node_id)

    def _end_refused(self, node: Node) -> None:
        if self.nodes.get(node.options.node_id) is node:
            self.crash(node.options.node_id, power_loss=False)
            self.history.counts["starts with an empty disk that a broker refused"] += 1

    def _note_refused_start(self, node_id: int) -> None:
        self.history.counts["starts that the disk refused"] += 1
        self.on_refused_start(node_id)

    def server(self, node_id: int) -> KafkaServer | None:
        """Return the Kafka listener of a broker; None: it is down, not so far yet, or serves no clients."""
        return self._servers.get(node_id)

    def crash(self, node_id: int, *, power_loss: bool) -> None:
        """End a life at once."""
        if power_loss:
            self.observer.power_lost(node_id)
            self.on_power_loss()
        self._count(self.nodes.pop(node_id))
        self.turns += 1
        self._count_transactions(self._servers.pop(node_id, None))
        self.world.nodes[node_id].crash(power_loss=power_loss)

    def swap_disk(self, node_id: int) -> None:
        """Take a machine's disk out, while it is down, and put an empty one in; the next time, its own again."""
        machine, kvstores = self.world.nodes[node_id], self._kvstores
        assert not machine.is_alive
        own = self._disks_out.pop(node_id, None)
        if own is None:
            self._disks_out[node_id] = machine.disk.root, kvstores[node_id]
            own = Directory(), {}
        machine.disk.root, kvstores[node_id] = own
        machine.disk.used = machine.disk.root.size()

    def lose_disk(self, node_id: int) -> DiskImage:
        """The disk of a machine that is down is lost, and an empty one is put in; return what it held."""
        self.observer.disk_lost(node_id)
        # As little as after that is promised of what nobody else has.
        self.on_power_loss()
        return self.put_disk(node_id, (Directory(), {}))

    def put_disk(self, node_id: int, image: DiskImage) -> DiskImage:
        """Put another disk into a machine that is down, and return what its own one holds."""
        machine = self.world.nodes[node_id]
        assert not machine.is_alive
        assert node_id not in self._disks_out
        own = machine.disk.root, self._kvstores[node_id]
        machine.disk.root, self._kvstores[node_id] = image
        machine.disk.used = machine.disk.root.size()
        self.observer.disk_changed(node_id, own[0], image[0])
        return own

    def count_what_brokers_counted(self) -> None:
        """Add the brokers' own counters, and the disks', to the history's; once, at the end of the run."""
        for node in self.nodes.values():
            self._count(node)
        for server in self._servers.values():
            self._count_transactions(server)
        for machine in self.world.nodes.values():
            self.history.counts.update({f"disk {name}": count for name, count in machine.disk.counts.items()})

    def _count(self, node: Node) -> None:
        if hasattr(node, "compactor") and self.options.compaction is not None:
            counts = asdict(node.compactor.counts)
            self.history.counts.update({f"compaction {name}": count for name, count in counts.items()})
        if hasattr(node, "groups"):
            self.history.counts.update({f"raft {name}": count for name, count in asdict(node.groups.probe).items()})

    def _count_transactions(self, server: KafkaServer | None) -> None:
        if server is not None and self.options.transactions_level:
            counts = asdict(server._transactions.counts)
            self.history.counts.update({f"transactions {name}": count for name, count in counts.items()})

    def is_up(self, node_id: int) -> bool:
        """Whether a broker has a life now."""
        return node_id in self.nodes

    def found(self, deadline: float = 30.0) -> None:
        """Start all brokers and create the topic; the world has no faults yet."""
        for node_id in self.members:
            self.start(node_id)
        self._wait(lambda: all(node.is_registered.is_set() for node in self.nodes.values()), deadline)
        self.world.nodes[1].spawn(self._create_topic(self.nodes[1]))
        self._wait(lambda: len(self.groups()) > 1 and all(self.leader_of(group) for group in self.groups()), deadline)

    def _wait(self, goal: Callable[[], bool], deadline: float) -> None:
        done = self.world.run_until(goal, deadline)
        self.world.check()
        assert done, f"the cluster was not founded within {deadline} s without a fault"

    async def _create_topic(self, node: Node) -> None:
        options = self.options
        replicas = options.replicas or options.nodes
        request = CreateTopicRequest(TOPIC, options.partitions, replicas, [], options.topic_configs, False, 10.0)
        with contextlib.suppress(ClusterError):
            await node.admin.create_topic(request)
        if options.has_table:
            configs = {**options.topic_configs, "cleanup.policy": "compact", "write.caching": "false"}
            with contextlib.suppress(ClusterError):
                await node.admin.create_topic(CreateTopicRequest(TABLE, 1, min(3, replicas), [], configs, False, 10.0))

    def groups(self) -> list[GroupId]:
        """Return raft0 and, once any broker knows it, the topic's groups."""
        if not self._groups:
            for node in self.nodes.values():
                topic = node.controller.topics.get(TOPIC) if hasattr(node, "controller") else None
                if topic is not None:
                    self._groups = [topic.group(partition) for partition in range(self.options.partitions)]
        return [RAFT0, *self._groups]

    def data_groups(self) -> list[GroupId]:
        """Return the topic's groups."""
        return self.groups()[1:]

    def consensus(self, node_id: int, group: GroupId) -> Consensus | None:
        """Return a broker's replica, None if it is down or does not have it yet."""
        node = self.nodes.get(node_id)
        return None if node is None or not hasattr(node, "groups") else node.groups.get(group)

    def partition(self, node_id: int, group: GroupId) -> Partition | None:
        """Return a broker's partition, None if it is down or does not have it yet."""
        node = self.nodes.get(node_id)
        return None if node is None or not hasattr(node, "partitions") else node.partitions.get(group)

    def leader_of(self, group: GroupId) -> int | None:
        """Return the node that leads the newest term of a group in office."""
        return max(self.offices(group), default=(0, None))[1]

    def offices(self, group: GroupId) -> list[tuple[int, int]]:
        """Return the term and the node of each leader of a group in office: a deposed one may not know it."""
        return [
            (consensus.term, node_id)
            for node_id in self.nodes
            if (consensus := self.consensus(node_id, group)) is not None and consensus.is_in_office
        ]

    @property
    def members(self) -> list[int]:
        """The brokers that are to run."""
        return [node_id for node_id in self.world.nodes if node_id not in self.kept_down]

    def has_converged(self) -> bool:
        """Whether every group of every topic has its replicas where it is placed, led and equal, and nothing is held."""
        return self.what_is_missing() is None

    def what_is_missing(self) -> str | None:
        """Return what has not converged, None if all has."""
        down = [node_id for node_id in self.members if node_id not in self.nodes]
        if down:
            return f"nodes {down} are down"
        return what_is_missing({node_id: self._broker(node_id) for node_id in self.members})

    def what_is_open(self) -> str | None:
        """Return a transaction that has not ended, None if none is open."""
        return what_is_open({node_id: self._broker(node_id) for node_id in self.members})

    def _broker(self, node_id: int) -> Broker:
        loop = self.world.nodes[node_id].loop
        return Broker(self.nodes[node_id], self._servers.get(node_id), self._groups_directory(node_id), loop)

    def _groups_directory(self, node_id: int) -> Directory:
        directory = self.world.nodes[node_id].disk.root
        for name in (*DATA_DIR.split("/")[1:], GROUPS):
            below = directory.entries.get(name)
            directory = below if isinstance(below, Directory) else Directory()
        return directory

    def describe(self) -> list[str]:
        """Return a line per replica."""
        lines = []
        for node_id in self.world.nodes:
            if node_id not in self.nodes:
                lines.append(f"node {node_id} is down")
                continue
            for group in self.groups():
                with contextlib.suppress(KeyError):
                    lines.append(str(self.observer.view_of(node_id, group)))
        return lines

    def observe(self, node_id: int) -> None:
        """Tell the invariants what a broker has done up to this moment."""
        self.observer.observe(self.nodes[node_id], node_id, self.world.nodes[node_id].incarnation)

    def _observe(self) -> None:
        machines = self.world.nodes
        ran = self.ran = []
        for node_id in self.nodes:
            loop = machines[node_id].loop
            if loop.has_run:
                loop.has_run = False
                ran.append(node_id)
                self.observe(node_id)
