"""Wires one broker from its configuration, starts it in order, and stops it on a signal.

lock the data directory -> admin port, which says what the start waits for -> the first contact of an empty directory
-> kvstore -> links, founding or joining, groups, raft0 (cluster.node) -> Kafka listener -> register the addresses;
the admin port serves
"""

import asyncio
import faulthandler
import gc
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import replace

from cluster.commands import BrokerRecord
from cluster.compaction import CompactionOptions
from cluster.data_directory import KVSTORE, DataDirectoryLock, lock_data_directory
from cluster.errors import PermanentStartupError, StartupError
from cluster.first_contact import FirstContact
from cluster.founding_words import Seed
from cluster.node import Node
from cluster.node_options import NodeOptions
from cluster.partition_status import PartitionStatusReader
from cluster.producer_table import ProducerOptions
from kafka_api.groups.options import GroupOptions
from kafka_api.options import KafkaOptions
from kafka_api.server import KafkaServer
from kafka_api.transactions.options import TransactionOptions
from model.counted import counted
from model.error_text import reason_of
from model.features import OFFERED, UNSTABLE
from model.ids import NodeId
from model.topic_config import TOPIC_CONFIGS, TopicConfig
from raft.options import RaftOptions
from raftka.broker.admin_http import AdminHttp
from raftka.broker.admin_listener import AdminListener
from raftka.broker.admin_verbs import AdminVerbs
from raftka.broker.can_listen import check_can_listen
from raftka.broker.described_options import admin_host
from raftka.broker.dynamic_options import BrokerOptions, OptionsOfBroker, described, described_for_all
from raftka.broker.exit_codes import FAILED, STOPPED, exit_code_of
from raftka.broker.file_limits import connection_limits, raise_open_files_limit, segment_files
from raftka.broker.logs import configure_logging
from raftka.broker.loop_errors import LoopErrors
from raftka.broker.loop_watch import LoopWatch
from raftka.broker.loop_watchdog import LoopWatchdog
from raftka.broker.memory_limit import read_cache_bytes
from raftka.broker.metrics import row_sources
from raftka.broker.permissions import read_secret, warn_of_open_directory
from raftka.broker.readiness import not_ready_reason
from raftka.broker.scrapes import Scrapes
from raftka.broker.service_manager import ServiceManager
from raftka.broker.stall_watch import StallWatch
from raftka.broker.starting import Starting, contact_phase, node_phase
from raftka.broker.transaction_watch import TransactionWatch
from raftka.broker.verb_table import VERBS
from raftka.config import BrokerConfig
from raftka.config_options import BY_KEY
from runtime.environment import Environment, system_environment
from runtime.log_levels import ROOT, set_level
from storage.errors import KvStoreError, StorageError
from storage.rocks_kvstore import RocksKvStore

# The secret keys an HMAC: what is shorter can be guessed.
_SECRET_BYTES_MIN = 16
_ADMIN_CONNECTIONS_MAX = 256
# How long a stop may take to find other leaders for what is led here.
_HAND_OVER_SECONDS = 3.0
# A stop that takes longer waits for a disk that does not answer. What was acknowledged survives a kill.
_STOP_SECONDS = 60.0
# How often a link over which nothing comes is asked for a sign of life.
_IDLE_PROBE_SECONDS = 0.5
_logger = logging.getLogger("broker")


async def run_broker(config: BrokerConfig, hang_appends_while: str | None = None) -> int:
    """Run until SIGTERM or SIGINT, until a background task dies or the node can serve no more; return the exit code."""
    tell = configure_logging(config.log_level, config.log_format, config.node_id)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    errors = LoopErrors(stop.set)
    loop.set_exception_handler(errors)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Without a handler these end the process: a terminal that is closed, or a habit from another daemon.
    for number in (signal.SIGHUP, signal.SIGUSR1):
        loop.add_signal_handler(number, _ignore, number)
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    # Stacks before the end, too: systemd's watchdog ends a process that hangs by SIGABRT.
    faulthandler.enable()
    unusable: list[str] = []

    def end_unusable(line: str) -> None:
        tell(line)
        unusable.append(line)
        stop.set()

    if hang_appends_while is not None:
        _logger.warning("for a chaos run: appends hang while %s exists", hang_appends_while)
    broker = Broker(config, system_environment(hang_appends_while), end_unusable, tell)
    manager = ServiceManager(os.environ)
    manager.start(broker.is_serving, broker.status)
    try:
        if not await _started(broker, stop):
            return FAILED if errors.died or unusable else STOPPED
        # What exists now lives as long as the process: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        await stop.wait()
    except (StartupError, StorageError, OSError, ValueError) as error:
        if not unusable:
            unusable.append(reason_of(error))
            tell(unusable[0])
        return exit_code_of(error)
    finally:
        manager.tell_stopping(unusable[0] if unusable else "stopping")
        # A thread that hangs in the disk holds up the stop, the loop and the end of the interpreter alike. This
        # watchdog needs none of them: it says where they are and ends the process with exit code 1.
        faulthandler.dump_traceback_later(_STOP_SECONDS, exit=True)
        await broker.stop()
        manager.close()
    _logger.info("stopped")
    return FAILED if errors.died or unusable else STOPPED


def _ignore(number: signal.Signals) -> None:
    _logger.info(
        "%s changes nothing: configuration is read at the start; SIGUSR2 writes the stacks of all threads", number.name
    )


async def _started(broker: "Broker", stop: asyncio.Event) -> bool:
    """Start, unless a signal comes first: founding may wait for other seeds for ever."""
    starting = asyncio.get_running_loop().create_task(broker.start())
    stopping = asyncio.get_running_loop().create_task(stop.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return False
    starting.result()
    return not stop.is_set()


class Broker:
    """All parts of one broker process; `on_unusable` as in cluster.node.Node, `tell` as `configure_logging` returns."""

    def __init__(
        self,
        config: BrokerConfig,
        env: Environment,
        on_unusable: Callable[[str], None],
        tell: Callable[[str], None],
    ) -> None:
        self._config = config
        self._log_level = config.log_level
        self._on_unusable = on_unusable
        self._env = env
        self._watch = LoopWatch()
        self._watchdog = LoopWatchdog(lambda: self._watch.looks, tell)
        self._lock: DataDirectoryLock | None = None
        self._kvstore: RocksKvStore | None = None
        self._node: Node | None = None
        self._server: KafkaServer | None = None
        self._stalls: StallWatch | None = None
        self._admin: AdminHttp | None = None
        self._starting = Starting(config.node_id)
        self._has_started_node = False

    async def start(self) -> None:
        """Start everything.

        Raises:
            StartupError, StorageError, OSError, ValueError: One line for the operator; `exit_code_of` tells them apart.
        """
        config, env = self._config, self._env
        open_files = raise_open_files_limit()
        limits = connection_limits(open_files, KafkaOptions().connections_max, _ADMIN_CONNECTIONS_MAX)
        try:
            options = node_options(config, segment_files(open_files, limits))
        except ValueError as error:
            raise PermanentStartupError(reason_of(error)) from error
        self._watch.start()
        self._watchdog.start()
        check_can_listen(config)
        self._lock = lock_data_directory(env, config.data_dir, create=config.data_dir_create)
        warn_of_open_directory(config.data_dir)
        starting = self._starting
        verbs = AdminVerbs(VERBS, takes_remote_changes=config.admin_remote_changes_enable)
        self._admin = AdminHttp(starting, AdminListener(limits.admin), admin_names(config), verbs)
        await self._admin.start(config.admin_address, config.admin_port)
        contact = FirstContact(env, options)
        starting.enter(lambda: contact_phase(contact, options))
        await contact.make()
        starting.enter("opening the kvstore")
        self._kvstore = await RocksKvStore.open(env, f"{config.data_dir}/{KVSTORE}")
        dynamic = BrokerOptions(config, lambda: node.controller.members.lasting_count())
        node = self._node = Node(env, options, self._kvstore, self._on_unusable, dynamic)
        starting.enter(lambda: node_phase(node))
        # raft0's tables tell what is set while they are read.
        dynamic.add_listener(self._follow_log_level)
        dynamic.add_listener(lambda each: node.change_options(changed_node_options(options, each.config)))
        await node.start()
        self._has_started_node = True
        statuses = PartitionStatusReader(node.links, node.partitions, options.node_id, node.compactor.held_bytes)

        def options_of_server() -> KafkaOptions:
            brokers = node.controller.members.lasting_count()
            return kafka_options(config, limits.kafka, brokers, dynamic.in_force)

        server = self._server = KafkaServer(env, node, options_of_server())
        dynamic.add_listener(lambda _: server.change_options(options_of_server()))
        node.controller.members.add_listener(lambda: server.change_options(options_of_server()))
        kafka_port = await server.start(config.kafka_address, config.kafka_port)
        self._stalls = StallWatch(node, TransactionWatch(lambda: config.transaction_max_timeout_ms / 1000))
        self._stalls.start()
        scrapes = Scrapes(row_sources(node, self._server, self._watch, self._stalls))
        self._admin.serve(node, statuses, self._stalls, scrapes)
        node.register(
            BrokerRecord(
                node_id=config.node_id,
                directory_id=node.replica.directory_id,
                kafka_host=config.kafka_advertised_address,
                kafka_port=config.kafka_advertised_port or kafka_port,
                rpc_host=config.rpc_address,
                rpc_port=config.rpc_port,
                admin_host=config.admin_address,
                admin_port=config.admin_port,
            )
        )
        _logger.info(
            "node %d listens for Kafka on %s:%d, admin on %s:%d, data in %s",
            config.node_id,
            config.kafka_address,
            kafka_port,
            config.admin_address,
            config.admin_port,
            config.data_dir,
        )

    def _follow_log_level(self, options: OptionsOfBroker) -> None:
        # Only a change: the level of the logger may have been set by itself meanwhile.
        if options.config.log_level != self._log_level:
            self._log_level = options.config.log_level
            set_level(ROOT, self._log_level)

    def is_serving(self) -> bool:
        """Whether clients are served: from the registration with raft0 on, whatever comes later."""
        return self._node is not None and self._node.is_registered.is_set()

    def status(self) -> str:
        """Return a line for the operator: that the broker serves, or why not."""
        # Before that, the node's parts are not there to be asked.
        if self._node is None or self._server is None:
            return f"not ready: {self._starting.not_ready.reason}"
        reason = not_ready_reason(self._node, None if self._stalls is None else self._stalls.leaders)
        return "ready" if reason is None else f"not ready: {reason}"

    async def stop(self) -> None:
        """Hand over what is led here, then stop in the reverse order; parts that never started are passed over."""
        if self._node is not None and self._has_started_node:
            # Clients are served meanwhile: they are told who leads instead.
            await self._node.hand_over(_HAND_OVER_SECONDS)
        if self._admin is not None:
            await self._admin.stop()
        if self._stalls is not None:
            await self._stalls.stop()
        if self._server is not None:
            await self._server.stop()
        if self._node is not None:
            await self._node.stop()
        if self._kvstore is not None:
            try:
                await self._kvstore.close()
            except KvStoreError as error:
                _logger.error("%s", error)
        self._watchdog.stop()
        self._watch.stop()
        self._env.workers.close()
        if self._lock is not None:
            self._lock.release()


def node_options(config: BrokerConfig, open_segments: int = RaftOptions().open_segments) -> NodeOptions:
    """Return what the node is told; reads the cluster secret.

    Args:
        config: The broker's configuration.
        open_segments: How many files of segments may be open together.

    Raises:
        PermanentStartupError: The secret file cannot be read, can be read by everybody, or is too short.
        ValueError: A value is out of range.
    """
    secret = None
    if config.cluster_secret_file is not None:
        secret = read_secret(config.cluster_secret_file).strip()
        if len(secret) < _SECRET_BYTES_MIN:
            found = f"has {counted(len(secret), 'byte')}" if secret else "is empty"
            raise PermanentStartupError(
                f"cluster.secret.file: {config.cluster_secret_file} {found}; at least {_SECRET_BYTES_MIN} are needed"
                " (head -c 32 /dev/urandom | base64 > FILE, the same on every broker)"
            )
    return NodeOptions(
        node_id=NodeId(config.node_id),
        data_dir=config.data_dir,
        rpc_host=config.rpc_address,
        rpc_port=config.rpc_port,
        seeds=[Seed(seed.node_id, seed.host, seed.port) for seed in config.seeds],
        secret=secret,
        raft=_raft_options(config, open_segments, read_cache_bytes(config.read_cache_bytes)),
        topic_defaults=topic_defaults(config),
        retention_check_interval=config.log_retention_check_interval_ms / 1000,
        compaction=CompactionOptions(
            backoff_seconds=config.log_cleaner_backoff_ms / 1000,
            map_bytes=config.log_cleaner_dedupe_buffer_size,
            io_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
        ),
        producers=ProducerOptions(expiration_ms=config.producer_id_expiration_ms),
        replicas_max=config.broker_replicas_max,
        telemetry=config.telemetry_enable,
        features=UNSTABLE if config.unstable_feature_versions_enable else OFFERED,
        idle_probe_interval=_IDLE_PROBE_SECONDS,
    )


def _raft_options(config: BrokerConfig, open_segments: int, read_cache: int) -> RaftOptions:
    return RaftOptions(
        heartbeat_interval=config.raft_heartbeat_interval_ms / 1000,
        election_timeout=config.raft_election_timeout_ms / 1000,
        election_jitter=config.raft_election_timeout_ms / 2000,
        flush_interval=config.raft_flush_interval_ms / 1000,
        flush_bytes=config.raft_flush_bytes,
        stall_timeout=config.raft_flush_stall_timeout_ms / 1000,
        batcher_bytes=config.raft_batcher_bytes,
        node_batcher_bytes=config.raft_batcher_node_max_bytes,
        node_append_buffer_bytes=config.raft_append_buffer_node_max_bytes,
        unreplicated_bytes=config.raft_unreplicated_max_bytes,
        unflushed_bytes=config.raft_unflushed_max_bytes,
        replica_lag_max=config.replica_lag_time_max_ms / 1000,
        leader_throttled_rate=config.leader_replication_throttled_rate,
        follower_throttled_rate=config.follower_replication_throttled_rate,
        learner_rate=config.replication_learner_bytes_per_second,
        disk_reserve_bytes=config.disk_reserve_bytes,
        open_segments=open_segments,
        read_cache_bytes=read_cache,
    )


def changed_node_options(before: NodeOptions, config: BrokerConfig) -> NodeOptions:
    """Return the options of a node that runs, with what may have changed since it was told `before`."""
    return replace(
        before,
        raft=_raft_options(config, before.raft.open_segments, before.raft.read_cache_bytes),
        topic_defaults=topic_defaults(config),
        retention_check_interval=config.log_retention_check_interval_ms / 1000,
        producers=ProducerOptions(expiration_ms=config.producer_id_expiration_ms),
        replicas_max=config.broker_replicas_max,
    )


def admin_names(config: BrokerConfig) -> tuple[str, ...]:
    """Return the hosts by which the admin port may be asked for; a wildcard is none of them."""
    return (admin_host(config), *config.admin_allowed_hosts)


def topic_defaults(config: BrokerConfig) -> TopicConfig:
    """Return the configuration of topics that do not say."""
    broker_keys = {each.attribute: BY_KEY[each.broker_key] for each in TOPIC_CONFIGS.values() if each.broker_key}
    return TopicConfig(**{name: getattr(config, option.attribute) for name, option in broker_keys.items()})


def kafka_options(
    config: BrokerConfig, connections_max: int, brokers: int, dynamic: OptionsOfBroker | None = None
) -> KafkaOptions:
    """Return the options of the Kafka listener of a broker that was started with `config`, one of so many brokers.

    `dynamic` is what is in force since; None: nothing else.
    """
    dynamic = dynamic or OptionsOfBroker(config, {}, {})
    started, config = config, dynamic.config
    return KafkaOptions(
        connections_max=connections_max,
        request_bytes_max=config.socket_request_max_bytes,
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        auto_create_topics=config.auto_create_topics_enable,
        broker_configs=tuple(described(dynamic, started, brokers)),
        default_broker_configs=tuple(described_for_all(dynamic)),
        groups=group_options(config),
        transactions=transaction_options(config),
    )


def group_options(config: BrokerConfig) -> GroupOptions:
    """Return the options of consumer groups."""
    return GroupOptions(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        offset_metadata_bytes_max=config.offset_metadata_max_bytes,
        topic_partitions=config.offsets_topic_num_partitions,
    )


def transaction_options(config: BrokerConfig) -> TransactionOptions:
    """Return the options of transactions."""
    return TransactionOptions(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        topic_partitions=config.transaction_state_log_num_partitions,
    )
