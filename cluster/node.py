"""One node without its client-facing ports: links, groups, raft0, partitions, wired and started in order.

The broker process puts the Kafka listener and the admin port on top of it; the simulator runs it as it is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Protocol

import msgspec

from cluster.admin_requests import AdminRequests
from cluster.broker_changes import BrokerChanges
from cluster.broker_events import BrokerWatch
from cluster.cluster_entry import ClusterEntry
from cluster.commands import BrokerRecord
from cluster.compaction import ChildCleaner, Cleaner, Compactor
from cluster.compaction_rule import CompactionPolicy
from cluster.controller import Controller
from cluster.controller_backend import ControllerBackend
from cluster.controller_events import ControllerEvents
from cluster.controller_state import ControllerState
from cluster.controller_tables import ControllerTables
from cluster.data_directory import GROUPS, claim_data_directory
from cluster.data_directory_watch import DataDirectoryWatch
from cluster.deletes_bounds import DeletesBounds
from cluster.directory_stamp import DirectoryStamp
from cluster.draining import Draining
from cluster.dynamic_options import DynamicOptions, FixedOptions
from cluster.evacuation import Evacuation
from cluster.events import Events
from cluster.founding import Founding
from cluster.founding_words import ClusterRecord
from cluster.health_counts import HealthCounts
from cluster.idle_probe import IdleProbe
from cluster.joining import Admissions, Joining
from cluster.known_brokers import KnownBrokers
from cluster.leadership import Leadership
from cluster.leadership_events import LeadershipEvents
from cluster.leadership_moves import LeadershipMoves
from cluster.log_states import LogStates
from cluster.move_events import MoveEvents
from cluster.move_status import MoveStatusReader
from cluster.node_options import NodeOptions
from cluster.node_watch import NodeWatch
from cluster.partition import Partition
from cluster.partition_manager import PartitionManager
from cluster.placement_reports import PlacementReports
from cluster.placements import Placements
from cluster.present_features import PresentFeatures
from cluster.producer_ids import ProducerIds
from cluster.quorum_status import QuorumStatusReader
from cluster.raft0_voters import Raft0Voters
from cluster.registration import Registration
from cluster.retention import Retention
from cluster.telemetry.publisher import TelemetryPublisher
from cluster.telemetry.telemetry_relay import TelemetryRelay
from cluster.topic_table import TopicTable
from cluster.transactions.admission import CoordinatorAdmissions
from cluster.transactions.markers import Markers
from cluster.visible_ends import VisibleEnds
from model.features import (
    COMPACTED_TOPICS_LEVEL,
    COMPACTION,
    ENDED_LEADERSHIPS_LEVEL,
    MEMBERSHIP,
    STAMP_LEVEL,
    told_features,
)
from model.ids import RAFT0, Index, NodeId, Replica
from raft.consensus import Consensus
from raft.group_configuration import GroupConfiguration, RaftPolicy
from raft.group_manager import GroupManager
from raft.links_raft_client import LinksRaftClient
from raft.options import RaftOptions
from raft.service import RaftService
from rpc.identity import LinkIdentity
from rpc.links import Links
from rpc.options import LinkOptions
from runtime.environment import Environment
from storage.errors import KvStoreError
from storage.kvstore import KvStore
from storage.options import LogOptions


class StartPhase(Enum):
    """How far `Node.start` has come."""

    DIRECTORY = auto()
    SEEDS = auto()
    REPLICAS = auto()
    STARTED = auto()


class _Fiber(Protocol):
    """A part of the node that works in the background."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


class Node:
    """See the module. After `start` everything below is usable; `stop` ends all of it.

    `phase` says how far the start has come; `links` and `founding` are there from SEEDS on.
    """

    stamp: DirectoryStamp
    links: Links
    groups: GroupManager
    controller: Controller
    partitions: PartitionManager
    leadership: Leadership
    moves: LeadershipMoves
    quorum: QuorumStatusReader
    visible_ends: VisibleEnds
    health: HealthCounts
    present_features: PresentFeatures
    admin: AdminRequests
    placements: Placements
    broker_changes: BrokerChanges
    broker_watch: BrokerWatch
    move_status: MoveStatusReader
    producer_ids: ProducerIds
    backend: ControllerBackend
    compactor: Compactor
    telemetry: TelemetryPublisher | None = None
    events: Events
    replica: Replica
    founding: Founding
    known_brokers: KnownBrokers
    cluster: ClusterRecord

    def __init__(
        self,
        env: Environment,
        options: NodeOptions,
        kvstore: KvStore,
        on_unusable: Callable[[str], None] | None = None,
        dynamic: DynamicOptions | None = None,
        cleaner: Cleaner | None = None,
    ) -> None:
        """Prepare a node.

        Args:
            env: The seams; its `files` hold the data directory (`lock_data_directory`).
            options: What it is told.
            kvstore: In the data directory; the caller closes it.
            on_unusable: Called once, with a line for the operator, when this node can serve no more: the data directory
                is not where it was, or the kvstore has failed. The caller ends the process. None: the loop's exception
                handler is told.
            dynamic: What may be set while the node runs; whoever passes it calls `change_options`. None: nothing.
            cleaner: Makes the passes of log compaction. None: a child process makes each.
        """
        self.env = env
        self.options = options
        self._dynamic = dynamic or FixedOptions()
        self._cleaner = cleaner or ChildCleaner(env.files, options.compaction.io_bytes_per_second)
        self._log_states = LogStates(options, self._lived_ms)
        self._topics: TopicTable | None = None
        self._retention: Retention | None = None
        self._kvstore = kvstore
        self.kvstore_syncs = kvstore.sync_durations
        self.events = Events(options.node_id, env.wall_clock)
        self._watch: NodeWatch | None = None
        self._on_unusable = on_unusable or _report
        self._is_unusable = False
        self.is_registered = asyncio.Event()
        self.phase = StartPhase.DIRECTORY
        self._entry: ClusterEntry | None = None
        # How what was started is stopped, in the order of the start.
        self._stops: list[Callable[[], Awaitable[None]]] = []

    async def start(self) -> None:
        """Start, in order: links, founding, groups, raft0, what raft0 has placed here.

        Raises:
            StartupError, StorageError: This node must not start; the message says the cure.
            OSError: The rpc address cannot be bound.
        """
        options = self.options
        self.replica = await claim_data_directory(self.env, options.data_dir, self._kvstore, options.node_id)
        self._directory_watch = DataDirectoryWatch(self.env, options.data_dir, self.replica, self._end)
        self.stamp = DirectoryStamp(self.env, options.data_dir, self._kvstore)
        self._stops += (self._directory_watch.stop, self.stamp.stop)
        self._kvstore.call_on_failure(self._on_kvstore_failure)
        identity = LinkIdentity(self.replica, None, options.secret)
        self.links = Links(self.env, identity, LinkOptions(source_host=options.rpc_host))
        self._watch = NodeWatch(self.links, self.events)
        self._watch.start()
        self._stops.append(self._watch.stop)
        entry = self._entry = ClusterEntry(self.links, self._kvstore, self.replica, options, self.stamp)
        self.founding, self.known_brokers, self._joins = entry.founding, entry.known_brokers, entry.joins
        cluster = entry.recall()
        self._raft_client = LinksRaftClient(self.links, options.raft)
        self.groups = GroupManager(
            self.env,
            self._raft_options(),
            self.replica,
            self._kvstore,
            self._raft_client,
            f"{options.data_dir}/{GROUPS}",
            self._directory_watch.look,
            self.stamp,
        )
        RaftService(self.links, self.groups)
        if options.has_links:
            await self.links.start(options.rpc_host, options.rpc_port)
            self._stops.append(self.links.close)
            self.known_brokers.start(cluster, told_features(options.features))
            self._stops.append(self.known_brokers.stop)
            self._probe_idle_links()
        if cluster is None:
            self.phase = StartPhase.SEEDS
            cluster = await entry.found_or_join()
        self.cluster = cluster
        if cluster.features.get(MEMBERSHIP, 0) >= STAMP_LEVEL:
            # It is done, unless a build before this version has written the record down.
            await self.stamp.ensure()
        self.phase = StartPhase.REPLICAS
        await self._start_groups(cluster)
        self.phase = StartPhase.STARTED

    def _raft_options(self) -> RaftOptions:
        return replace(self.options.raft, keeps_figures=self.options.telemetry)

    def change_options(self, options: NodeOptions) -> None:
        """Work by other options from now on: those of `raft` that `GroupManager.change_options` names,
        `topic_defaults`, `producers`, `retention_check_interval` and `replicas_max`. The others must be as before.

        It does not block; call it once raft0 is being opened, or later.
        """
        before, self.options = self.options, options
        self._log_states.change_options(options)
        self.groups.change_options(self._raft_options())
        if self._topics is not None:
            self._topics.set_defaults(options.topic_defaults)
        if self._retention is not None and options.retention_check_interval != before.retention_check_interval:
            self._retention.on_interval()

    def _probe_idle_links(self) -> None:
        if self.options.idle_probe_interval:
            probe = IdleProbe(self.links, self.options.idle_probe_interval)
            probe.start()
            self._stops.append(probe.stop)

    def _on_kvstore_failure(self, error: KvStoreError) -> None:
        # No term and no vote becomes durable any more, for any group: this broker can neither follow a new leader nor
        # stand, and its leaders would stay until somebody else wants to lead.
        self._end(f"{error}; this broker ends: look at its disk, then start it again")

    def _end(self, line: str) -> None:
        if not self._is_unusable:
            self._is_unusable = True
            self._on_unusable(line)

    async def _start_groups(self, cluster: ClusterRecord) -> None:
        options = self.options
        self.groups.start()
        self._stops.append(self.groups.stop)
        state = ControllerState(options.topic_defaults, options.state, options.features, cluster.replicas, self.stamp)
        members, features = state.tables.members, state.tables.features
        self.leadership = Leadership(
            *(self.groups, self.links, options.node_id, self._brokers),
            lambda replica: replica.directory_id in members.retired,
            lambda: features.level(MEMBERSHIP) >= ENDED_LEADERSHIPS_LEVEL,
        )
        self.moves = LeadershipMoves(self.groups, self.leadership, self.links, options.node_id)
        self.partitions = PartitionManager(self.groups.link_names)
        self.visible_ends = VisibleEnds(self.links, self.partitions, self.leadership, options.node_id)
        self._follow_tables(state)
        raft0 = await self.groups.create(
            RAFT0,
            GroupConfiguration.of(cluster.replicas),
            RaftPolicy(),
            LogOptions(segment_bytes=options.raft0_segment_bytes),
            state,
        )
        self.controller = Controller(raft0, state)
        self._serve_requests(cluster, state.tables)
        self._start_fibers(state.tables)
        self._start_telemetry()

    def _follow_tables(self, state: ControllerState) -> None:
        """Before raft0 is opened: what its tables say is in force before anybody is served."""
        tables = state.tables
        if self.options.has_links:
            self.known_brokers.follow(tables.members, tables.features, lambda: state.applied_index)
        self._topics, set_options = tables.topics, tables.options
        set_options.add_listener(
            lambda: self._dynamic.apply(set_options.of(None), set_options.of(self.options.node_id))
        )
        LeadershipEvents(self.groups, self.events)
        MoveEvents(tables.topics, self.events, self.options.node_id, self.is_registered.is_set)
        ControllerEvents(tables.features, tables.raft0, self.events, self.is_registered.is_set)
        self.broker_watch = BrokerWatch(tables.members, tables.topics, self.events, self.is_registered.is_set)
        # It hears of every topic that is deleted from then on.
        self.backend = ControllerBackend(
            tables.topics,
            tables.members,
            self.groups,
            self.partitions,
            self.leadership,
            self.replica,
            self._log_states.new,
        )

    def _serve_requests(self, cluster: ClusterRecord, tables: ControllerTables) -> None:
        options = self.options
        self.health = HealthCounts(self.controller, self.partitions, self.leadership, self.is_alive, options.node_id)

        def tables_index() -> Index:
            return self.controller.applied_index

        self.admissions = CoordinatorAdmissions(self.links, options.node_id, tables_index)
        self.quorum = QuorumStatusReader(self.controller, self.links, self.env.wall_clock)
        self.present_features = PresentFeatures(self.links, self.replica, told_features(options.features))
        self.admin = AdminRequests(
            self.controller,
            self.links,
            options.node_id,
            self.env.rng,
            replicas_max=lambda: self.options.replicas_max,
            first_levels=cluster.features,
            dynamic=self._dynamic,
            present_features=self.present_features,
        )
        self.markers = Markers(
            *(self.links, self.partitions, self.leadership, tables.topics, options.node_id, self.env.wall_clock),
            *(self.admin.catch_up, tables_index),
        )
        self.placements = Placements(self.controller, self.admin, self.groups.link_names)
        seeds = {NodeId(seed.node_id): seed for seed in options.seeds}
        self._joins.serve(Admissions(self.controller, self.admin, cluster, seeds))
        self.broker_changes = BrokerChanges(self.controller, self.admin, self.links.heard_replica, self.replica)
        self.producer_ids = ProducerIds(self.admin)
        tables.topics.add_listener(self.producer_ids.drop_block)
        self.move_status = MoveStatusReader(
            *(tables.topics, self.groups, self.links, self.replica, self.is_alive),
            lambda replica: replica.directory_id in tables.members.retired,
        )

    def _start_fibers(self, tables: ControllerTables) -> None:
        self._retention = Retention(
            self.controller,
            self.options.raft0_segment_bytes,
            self.partitions,
            self.env.wall_clock,
            lambda: self.options.retention_check_interval,
        )
        self.compactor = Compactor(
            self.partitions,
            self._compaction_policy_of,
            self._cleaner,
            self.env.wall_clock,
            lambda: self.groups.limits.disk.spare_bytes,
            self.options.compaction,
        )
        parts: tuple[_Fiber, ...] = (
            self.controller,
            self.leadership,
            self.backend,
            PlacementReports(tables.topics, tables.raft0, self.groups, self.placements, self.move_status.look),
            Raft0Voters(self.controller, self.is_alive),
            Evacuation(self.controller, self.is_alive, self.move_status.read_idle),
            Draining(tables.members, self.groups, self.options.node_id),
            self._retention,
        )
        if told_features(self.options.features).get(COMPACTION, 0) >= COMPACTED_TOPICS_LEVEL:
            parts += (self.compactor, DeletesBounds(self._raft_client, self._compacted_groups))
        for part in parts:
            part.start()
            self._stops.append(part.stop)

    def _compaction_policy_of(self, partition: Partition) -> CompactionPolicy | None:
        level = self.controller.features.level(COMPACTION)
        return partition.compaction_policy if level >= COMPACTED_TOPICS_LEVEL else None

    def _compacted_groups(self) -> Iterator[Consensus]:
        for partition in self.partitions:
            consensus = self.groups.get(partition.group)
            if consensus is not None and self._compaction_policy_of(partition) is not None:
                yield consensus

    def _brokers(self) -> Sequence[NodeId]:
        """Return all brokers: each holds raft0, as a voter or as a learner."""
        raft0 = self.groups.get(RAFT0)
        return () if raft0 is None else raft0.configuration.node_ids

    def _start_telemetry(self) -> None:
        relay = TelemetryRelay(self.links, self.partitions, self.leadership, self.options.node_id)
        if not self.options.telemetry:
            return
        self.telemetry = TelemetryPublisher(
            self.env, self.options.node_id, self.controller, self.admin, self.partitions, relay
        )
        self.telemetry.start(self.is_registered)
        self._stops.append(self.telemetry.stop)

    def _lived_ms(self) -> int:
        """Milliseconds on the loop's clock, which nobody can set; it begins anew with each process."""
        return int(asyncio.get_running_loop().time() * 1000)

    def register(self, broker: BrokerRecord) -> None:
        """Make this broker's addresses, and the features that it can use, known in the background.

        `is_registered` is set when raft0's leader has taken them, with its leadership confirmed for this registration,
        and this node has applied all that was committed by then: before that its tables may be as old as its last life.
        Clients must not be answered from them, and nothing that is on disk may be judged by them.
        """
        told = msgspec.structs.replace(broker, features=told_features(self.options.features))
        registration = Registration(
            self.controller, self.admin, self.links, self.known_brokers, self.replica, self._on_registered
        )
        self._stops.append(registration.stop)
        registration.begin(told)

    def _on_registered(self) -> None:
        self.backend.remove_leftovers()
        self.is_registered.set()

    @property
    def joining(self) -> Joining | None:
        """Who is asked to let this node join; None: nobody was."""
        return None if self._entry is None else self._entry.joining

    def is_alive(self, node_id: NodeId) -> bool:
        """Whether a broker is this one or its link works."""
        return node_id == self.options.node_id or self.links.is_up(node_id)

    async def hand_over(self, seconds: float) -> None:
        """Before `stop`: let other brokers lead what is led here; takes at most `seconds`."""
        if self._watch is not None:
            self._watch.say_farewell()
        await self.groups.hand_over(seconds)

    async def stop(self) -> None:
        """Stop in the reverse order of the start. The kvstore is the caller's."""
        while self._stops:
            await self._stops.pop()()


def _report(line: str) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": line})
