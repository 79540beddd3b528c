"""Three brokers that coordinate transactions, a producer that finds its way among them, and coordinators that change."""

import asyncio

from transaction_calls import QUICK, Producer, features

from cluster.groups.offsets_topic import OFFSETS_TOPIC, offsets_partition
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC, transactions_partition
from kafka_api.options import KafkaOptions
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.server import KafkaServer
from model.ids import NO_INDEX, NodeId
from raft.append_entries_buffer import follower_reply
from raft.messages import AppendStatus, VoteReply
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import Cluster, can_take_over, run, until
from tests.unit.kafka_api.groups.group_calls import QUICK as QUICK_GROUPS
from tests.unit.kafka_api.groups.group_calls import Groups
from tests.unit.kafka_api.wire_client import Client

AGAIN = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


class Brokers:
    """Three brokers with topic "t", and a producer of "sink" that finds its coordinator and its leaders."""

    def __init__(self, cluster, servers, clients, level=2):
        self.cluster = cluster
        self.servers = servers
        self.clients = clients
        self.producer = Producer(clients[1], is_raising=level == 2)

    def led(self, topic_name, name):
        """The partition of a coordinator's topic that keeps `name`, at its leader."""
        topic = next(iter(self.cluster.nodes.values())).controller.topics.get(topic_name)
        partition_of = transactions_partition if topic_name == TRANSACTIONS_TOPIC else offsets_partition
        return self.cluster.leader_of(topic_name, partition_of(name, len(topic.replicas)))

    @property
    def replica(self):
        """The partition of the id at its leader."""
        return self.led(TRANSACTIONS_TOPIC, self.producer.name)

    @property
    def coordinator(self):
        return number_of(self.replica)

    def kept(self, number=None):
        """What a broker, or the coordinator, keeps of the partition of the id."""
        number = self.coordinator if number is None else number
        return self.servers[number]._transactions._active[self.replica.group]

    def leader(self, partition=0):
        """The client of the broker that leads a partition of "t"."""
        return self.clients[number_of(self.cluster.leader_of("t", partition))]

    def groups(self):
        """A client's view of group "g", at the broker that coordinates it."""
        return Groups(self.clients[number_of(self.led(OFFSETS_TOPIC, "g"))])

    async def again(self, ask):
        """Ask the coordinator, whoever that is, until it is not busy and not somebody else."""
        async with asyncio.timeout(20):
            while True:
                found = await self.producer.find()
                if not found.error_code:
                    self.producer.client = self.clients[found.node_id]
                    answer = await ask()
                    if getattr(answer, "error_code", answer) not in AGAIN:
                        return answer
                await asyncio.sleep(0.02)

    async def init(self, **fields):
        answer = await self.again(lambda: self.producer.init_once(**fields))
        assert answer.error_code == 0
        self.producer.producer_id, self.producer.epoch = answer.producer_id, answer.producer_epoch
        self.producer.sequences = {}

    async def send(self, partition=0):
        return await self.again(lambda: self.producer.send(partition=partition, client=self.leader(partition)))

    async def end(self, is_commit=True):
        return await self.again(lambda: self.producer.end(is_commit))

    async def move_coordinator(self):
        """Let another broker coordinate the id; return the former one."""
        return await self.move(self.replica)

    async def move(self, replica):
        """Let another broker lead a partition; return the former one."""
        former, topic = number_of(replica), replica.topic.name
        others = [number for number in self.cluster.nodes if number != former]
        await until(lambda: any(can_take_over(consensus_of(replica), number) for number in others))
        await replica.transfer_to(None)
        await until(lambda: self.cluster.find_leader(topic, replica.partition) not in (None, replica))
        return former

    async def lead_apart(self):
        """Let the coordinator's broker lead partition 1 of "t", and another one partition 0; return that one."""
        for partition in (0, 1):
            leader, coordinator = self.cluster.leader_of("t", partition), self.coordinator
            number = number_of(leader)
            if (number == coordinator) == bool(partition):
                continue
            target = coordinator if partition else next(each for each in self.cluster.nodes if each != coordinator)
            await until(lambda leader=leader, target=target: can_take_over(consensus_of(leader), target))
            await leader.transfer_to(NodeId(target))
        await until(lambda: all(self.cluster.find_leader("t", partition) for partition in (0, 1)))
        hanging = number_of(self.cluster.leader_of("t"))
        assert hanging != self.coordinator
        return hanging

    async def completed(self, state):
        async with asyncio.timeout(20):
            while (await self.again(self.producer.describe)).transaction_state != state:
                await asyncio.sleep(0.02)


def number_of(replica):
    return int(consensus_of(replica).state.node_id)


class HeldEntries:
    """Entries of a leader that no follower confirms, from now on until it is deposed.

    `is_kept`: one follower has them all the same, and becomes the next leader. Else nobody has them, and they are lost.
    """

    def __init__(self, brokers, replica, *, is_kept):
        self._brokers = brokers
        self._replica = replica
        self._leader = consensus_of(replica)
        self._begin = self._leader.log.dirty_index
        others = [each for number, each in brokers.cluster.nodes.items() if number != number_of(replica)]
        self._followers = [consensus_of(each.partitions.get(replica.group)) for each in others]
        for follower in self._followers:
            self._hold(follower, is_taker=is_kept and follower is self._followers[0])
        self._taker = self._followers[0] if is_kept else None

    def _hold(self, follower, *, is_taker):
        former, take, beat, vote = (
            self._leader.state.node_id,
            follower.on_append_entries,
            follower.on_heartbeat,
            follower.voter.answer,
        )

        def busy():
            return follower_reply(follower._context, AppendStatus.BUSY, NO_INDEX)

        def taken(leader, request, entries):
            if leader != former:
                return take(leader, request, entries)
            if is_taker:
                take(leader, request, entries)
            return busy()

        def beaten(leader, heartbeat):
            answer = beat(leader, heartbeat)
            # It would tell that the entries are there.
            return busy() if leader == former else answer

        async def answered(candidate, request):
            if candidate == former:
                return VoteReply(0, granted=False, last_index=0, last_term=0, reason="the test wants another leader")
            return await vote(candidate, request)

        follower.on_append_entries, follower.on_heartbeat, follower.voter.answer = taken, beaten, answered

    async def appended(self):
        """Wait until the leader has written something, and the follower that keeps it, too."""
        logs = [each.log for each in (self._leader, self._taker) if each is not None]
        await until(lambda: all(log.flushed_index > self._begin for log in logs))
        assert self._leader.state.commit_index <= self._begin

    async def depose(self):
        """Let another broker lead, with the entries or without them."""
        topic, partition = self._replica.topic.name, self._replica.partition
        self._leader.step_down("the test wants another leader")
        await until(lambda: self._brokers.cluster.find_leader(topic, partition) not in (None, self._replica))
        assert self._taker in (None, consensus_of(self._brokers.cluster.leader_of(topic, partition)))
        for follower in self._followers:
            del follower.on_append_entries, follower.on_heartbeat, follower.voter.answer


def with_brokers(tmp_path, test, level=2):
    async def whole():
        cluster = Cluster(tmp_path, 3, features=features(level))
        await cluster.start()
        servers, clients = {}, {}
        try:
            for number, node in cluster.nodes.items():
                servers[number] = KafkaServer(node.env, node, KafkaOptions(transactions=QUICK, groups=QUICK_GROUPS))
                port = await servers[number].start("127.0.0.1", 0)
                clients[number] = Client(*await asyncio.open_connection("127.0.0.1", port))
            await cluster.create_topic("t", partitions=2, replication_factor=3)
            brokers = Brokers(cluster, servers, clients, level)
            await brokers.init()
            await test(brokers)
        finally:
            for client in clients.values():
                await client.close()
            for server in servers.values():
                await server.stop()
            await cluster.stop()

    run(whole, seconds=60)
