"""Whole nodes in one process: real links on loopback, real files in a temporary directory, kvstores in memory."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from cluster.admin_messages import CreateTopicRequest, DeleteTopicRequest
from cluster.commands import BrokerRecord
from cluster.data_directory import DataDirectoryLock, lock_data_directory
from cluster.dynamic_options import DynamicOptions
from cluster.founding_words import Seed
from cluster.node import Node
from cluster.node_options import NodeOptions
from cluster.partition import Partition
from cluster.state_bounds import StateOptions
from model.features import LevelRange
from model.ids import ConsistencyLevel, NodeId
from model.topic_config import TopicConfig
from raft.consensus import Consensus
from raft.options import RaftOptions
from runtime.environment import system_environment
from storage.memory_kvstore import MemoryKvStore
from tests.unit.model.record_batches import build_batch

SECRET = b"s" * 32
FAST = RaftOptions(
    heartbeat_interval=0.03,
    election_timeout=0.4,
    election_jitter=0.2,
    reset_jitter=0.05,
    split_vote_backoff=0.05,
    tail_cache_bytes=1024 * 1024,
)
# For several nodes: a loaded machine may stop all of them for longer than FAST allows. An election does not wait for
# it as a rule, because the links to a stopped node are reset.
PATIENT = replace(FAST, election_timeout=2.0)


def run(test: Callable[[], Awaitable[None]], *, seconds: float = 30) -> None:
    """Run a test to its end; a background task that dies fails it."""

    async def bounded() -> None:
        died: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: died.append(context))
        async with asyncio.timeout(seconds):
            await test()
        assert died == []

    asyncio.run(bounded())


async def until(condition: Callable[[], object], *, seconds: float = 10) -> None:
    """Wait for something that becomes true elsewhere."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def can_take_over(consensus: Consensus, number: int) -> bool:
    """Return whether a leader hands over to this voter: it is in sync, and no recovery of it is due or under way.

    A leader that has just been elected takes all voters for in sync until they have had time to answer.
    """
    follower = consensus.state.followers.get(NodeId(number))
    return follower is not None and number in consensus.in_sync and not follower.needs_recovery


def free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def seeds_of(count: int) -> list[Seed]:
    """Addresses of their own for every process that runs tests: nodes are 127.x.y.1, 127.x.y.2, ..."""
    number = os.getpid()
    hosts = [f"127.{1 + number // 250 % 250}.{1 + number % 250}.{node}" for node in range(1, count + 1)]
    return [Seed(node, host, free_port(host)) for node, host in enumerate(hosts, start=1)]


def create_request(name: str, partitions: int = 1, replication_factor: int = 1, **changes) -> CreateTopicRequest:
    fields = {"assignment": [], "configs": {}, "validate_only": False, "timeout": 10.0} | changes
    return CreateTopicRequest(name, partitions, replication_factor, **fields)


class Cluster:
    """Nodes 1..count by number. What is durable (files, kvstore dicts) outlives a node's stop."""

    # What the nodes offer; None: what this version does.
    features: Mapping[str, LevelRange] | None = None

    def __init__(
        self,
        directory: object,
        count: int,
        *,
        secret: bytes = SECRET,
        defaults: TopicConfig | None = None,
        raft: RaftOptions | None = None,
        raft0_segment_bytes: int = 1024 * 1024,
        state: StateOptions | None = None,
        features: Mapping[str, LevelRange] | None = None,
    ) -> None:
        if features is not None:
            self.features = features
        self.directory = directory
        self.raft0_segment_bytes = raft0_segment_bytes
        self.seeds = seeds_of(count) if count > 1 else []
        self.secret = secret
        self.defaults = defaults or TopicConfig()
        self.state = state or StateOptions()
        self.raft = raft or (PATIENT if count > 1 else FAST)
        self.durable: dict[int, dict[str, bytes]] = {number: {} for number in range(1, count + 1)}
        self.nodes: dict[int, Node] = {}
        self._stores: dict[int, MemoryKvStore] = {}
        self._locks: dict[int, DataDirectoryLock] = {}

    def data_dir(self, number: int) -> str:
        return f"{self.directory}/n{number}"

    def options(self, number: int) -> NodeOptions:
        seed = self.seeds[number - 1] if self.seeds else Seed(1, "127.0.0.1", 0)
        return NodeOptions(
            node_id=NodeId(number),
            data_dir=self.data_dir(number),
            rpc_host=seed.host,
            rpc_port=seed.port,
            seeds=self.seeds,
            secret=self.secret,
            raft=self.raft,
            topic_defaults=self.defaults,
            raft0_segment_bytes=self.raft0_segment_bytes,
            state=self.state,
            **({} if self.features is None else {"features": self.features}),
        )

    def make(self, number: int, *, dynamic: DynamicOptions | None = None, **changes) -> Node:
        """A node that is not started yet; `stop` ends it all the same. `dynamic` is what may be set while it runs."""
        env = system_environment()
        options = replace(self.options(number), **changes)
        self._locks[number] = lock_data_directory(env, options.data_dir)
        store = MemoryKvStore(env, self.durable[number])
        self._stores[number] = store
        self.nodes[number] = Node(env, options, store, dynamic=dynamic)
        return self.nodes[number]

    async def start(self, *numbers: int) -> None:
        """Start these nodes (all if none is named) together, and wait until raft0 knows their addresses."""
        numbers = numbers or tuple(self.durable)
        nodes = [self.make(number) for number in numbers]
        await asyncio.gather(*(node.start() for node in nodes))
        # Whoever asks before there is a leader waits longer for its next try than the election takes.
        await until(lambda: all(node.controller.leader_id is not None for node in nodes))
        for node in nodes:
            number = int(node.options.node_id)
            rpc = node.options.rpc_host, node.options.rpc_port
            node.register(BrokerRecord(number, node.replica.directory_id, "k", 9000 + number, *rpc, "a", 2))
        await asyncio.gather(*(node.is_registered.wait() for node in nodes))

    async def stop(self, *numbers: int) -> None:
        for number in numbers or tuple(self.nodes):
            node = self.nodes.pop(number)
            await node.stop()
            await self._stores.pop(number).close()
            node.env.workers.close()
            self._locks.pop(number).release()

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    @property
    def controller(self) -> Node | None:
        """The node that leads raft0."""
        return next((node for node in self.nodes.values() if node.controller.is_in_office), None)

    def has_controller(self) -> bool:
        """A running node leads raft0 in office, and every running node knows it.

        A request to one that has just been stopped fails, and whether it took effect is unknown.
        """
        leader = self.controller
        known = {node.controller.leader_id for node in self.nodes.values()}
        return leader is not None and known == {leader.options.node_id}

    async def create_topic(self, name: str, partitions: int = 1, replication_factor: int = 1, **changes) -> str:
        """Create a topic and wait until every node knows a leader of each partition; return its id."""
        await until(self.has_controller)
        node = next(iter(self.nodes.values()))
        reply = await node.admin.create_topic(create_request(name, partitions, replication_factor, **changes))
        await until(lambda: self.has_leaders(name))
        return reply.topic_id

    async def delete_topic(self, topic_id: str) -> None:
        await until(self.has_controller)
        await next(iter(self.nodes.values())).admin.delete_topic(DeleteTopicRequest("", topic_id, 10.0))

    def has_leaders(self, name: str) -> bool:
        """Every running node knows, for every partition, the same running leader."""
        for node in self.nodes.values():
            topic = node.controller.topics.get(name)
            if topic is None:
                return False
            for number in range(len(topic.replicas)):
                leader = node.leadership.leader_of(topic.group(number))
                if leader is None or leader.node_id not in self.nodes:
                    return False
        return True

    def find_leader(self, name: str, number: int = 0) -> Partition | None:
        """The partition at its leader in office; a node that waits to be let in knows no topics yet."""
        for node in self.nodes.values():
            topic = node.controller.topics.get(name) if hasattr(node, "controller") else None
            partition = None if topic is None else node.partitions.get(topic.group(number))
            if partition is not None and partition.is_in_office:
                return partition
        return None

    def leader_of(self, name: str, number: int = 0) -> Partition:
        """As `find_leader`, where there must be one."""
        leader = self.find_leader(name, number)
        assert leader is not None, f"nobody leads {name}-{number}"
        return leader

    async def produce(self, name: str, *values: bytes, number: int = 0) -> int:
        """Append one batch at acks=all, as soon as somebody leads; return its base offset."""
        await until(lambda: self.find_leader(name, number))
        deadline = asyncio.get_running_loop().time() + 10
        batch = bytearray(build_batch(*values))
        stages = self.leader_of(name, number).produce(batch, len(values), ConsistencyLevel.QUORUM_ACK, deadline)
        return (await stages.replicated).base_offset

    def group_directories(self, number: int) -> Sequence[str]:
        """The directories of partitions (not of raft0) on a node's disk."""
        return [name for name in os.listdir(f"{self.data_dir(number)}/groups") if name != "raft0"]


@asynccontextmanager
async def cluster_of(directory: object, count: int, **options):
    """A started cluster of `count` nodes, stopped at the end."""
    cluster = Cluster(directory, count, **options)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()
