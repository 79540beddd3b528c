"""A coordinator that changes in each state of a transaction: what the next one does, and what the former one says."""

import asyncio

from transaction_calls import QUICK, Producer, features, markers, readable

from cluster.transactions.marker_writer import MarkerResult
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC, transactions_partition
from kafka_api.options import KafkaOptions
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.server import KafkaServer
from model.control_batch import MarkerType
from model.ids import NodeId
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import Cluster, can_take_over, run, until
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

    def __init__(self, cluster, servers, clients):
        self.cluster = cluster
        self.servers = servers
        self.clients = clients
        self.producer = Producer(clients[1])

    @property
    def replica(self):
        """The partition of the id at its leader."""
        topic = next(iter(self.cluster.nodes.values())).controller.topics.get(TRANSACTIONS_TOPIC)
        number = transactions_partition(self.producer.name, len(topic.replicas))
        return self.cluster.leader_of(TRANSACTIONS_TOPIC, number)

    @property
    def coordinator(self):
        return int(consensus_of(self.replica).state.node_id)

    def kept(self, number=None):
        """What a broker, or the coordinator, keeps of the partition of the id."""
        number = self.coordinator if number is None else number
        return self.servers[number]._transactions._active[self.replica.group]

    def leader(self, partition=0):
        """The client of the broker that leads a partition of "t"."""
        number = int(consensus_of(self.cluster.leader_of("t", partition)).state.node_id)
        return self.clients[number]

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

    async def init(self):
        answer = await self.again(self.producer.init_once)
        assert answer.error_code == 0
        self.producer.producer_id, self.producer.epoch = answer.producer_id, answer.producer_epoch

    async def send(self, partition=0):
        return await self.again(lambda: self.producer.send(partition=partition, client=self.leader(partition)))

    async def move_coordinator(self):
        """Let another broker coordinate the id; return the former one."""
        former, replica = self.coordinator, self.replica
        others = [number for number in self.cluster.nodes if number != former]
        await until(lambda: any(can_take_over(consensus_of(replica), number) for number in others))
        await replica.transfer_to(None)
        await until(lambda: self.cluster.find_leader(TRANSACTIONS_TOPIC, replica.partition) not in (None, replica))
        return former

    async def lead_apart(self):
        """Let the coordinator's broker lead partition 1 of "t", and another one partition 0; return that one."""
        for partition in (0, 1):
            leader, coordinator = self.cluster.leader_of("t", partition), self.coordinator
            number = int(consensus_of(leader).state.node_id)
            if (number == coordinator) == bool(partition):
                continue
            target = coordinator if partition else next(each for each in self.cluster.nodes if each != coordinator)
            await until(lambda leader=leader, target=target: can_take_over(consensus_of(leader), target))
            await leader.transfer_to(NodeId(target))
        await until(lambda: all(self.cluster.find_leader("t", partition) for partition in (0, 1)))
        hanging = int(consensus_of(self.cluster.leader_of("t")).state.node_id)
        assert hanging != self.coordinator
        return hanging

    async def completed(self, state):
        async with asyncio.timeout(20):
            while (await self.again(self.producer.describe)).transaction_state != state:
                await asyncio.sleep(0.02)


def with_brokers(tmp_path, test):
    async def whole():
        cluster = Cluster(tmp_path, 3, features=features())
        await cluster.start()
        servers, clients = {}, {}
        try:
            for number, node in cluster.nodes.items():
                servers[number] = KafkaServer(node.env, node, KafkaOptions(transactions=QUICK))
                port = await servers[number].start("127.0.0.1", 0)
                clients[number] = Client(*await asyncio.open_connection("127.0.0.1", port))
            await cluster.create_topic("t", partitions=2, replication_factor=3)
            brokers = Brokers(cluster, servers, clients)
            await brokers.init()
            await test(brokers)
        finally:
            for client in clients.values():
                await client.close()
            for server in servers.values():
                await server.stop()
            await cluster.stop()

    run(whole, seconds=60)


def test_a_transaction_goes_on_at_the_next_coordinator(tmp_path):
    async def test(brokers):
        assert await brokers.send() is ErrorCode.NONE
        former = await brokers.move_coordinator()
        at_former = Producer(brokers.clients[former], producer_id=brokers.producer.producer_id, epoch=0)
        # It was told of its end, or will be: it says nothing of the id any more.
        assert await at_former.add() is ErrorCode.NOT_COORDINATOR
        assert (await at_former.end_once()).error_code == ErrorCode.NOT_COORDINATOR
        assert await brokers.send(1) is ErrorCode.NONE
        assert await brokers.again(brokers.producer.end) is ErrorCode.NONE
        await brokers.completed("CompleteCommit")
        for partition in (0, 1):
            assert await markers(brokers.leader(partition), partition=partition) == [(MarkerType.COMMIT, 1)]
            assert await readable(brokers.leader(partition), partition=partition) == (2, 2)

    with_brokers(tmp_path, test)


def test_the_next_coordinator_aborts_what_nobody_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("kafka_api.transactions.transaction._OFFICE_MS", 300)

    async def test(brokers):
        brokers.producer.timeout_ms = 1
        # The first one ends before it has looked.
        brokers.kept().look = lambda: None
        await brokers.init()
        assert await brokers.send() is ErrorCode.NONE
        await brokers.move_coordinator()
        await brokers.completed("CompleteAbort")
        assert await readable(brokers.leader()) == (2, 2)

    with_brokers(tmp_path, test)


def test_the_next_coordinator_sends_the_markers_of_a_decision(tmp_path):
    """Each marker of the former one is lost."""

    async def lost(decided, timeout):
        return [dict.fromkeys(each.partitions, MarkerResult.FAILED) for each in decided]

    async def test(brokers):
        brokers.kept().markers._send = lost
        assert await brokers.send() is ErrorCode.NONE
        assert await brokers.again(brokers.producer.end) is ErrorCode.NONE
        assert (await brokers.producer.describe()).transaction_state == "PrepareCommit"
        assert await readable(brokers.leader()) == (1, 0)
        await brokers.move_coordinator()
        await brokers.completed("CompleteCommit")
        assert await markers(brokers.leader()) == [(MarkerType.COMMIT, 1)]

    with_brokers(tmp_path, test)


def test_a_marker_that_was_written_for_the_former_coordinator_is_not_written_twice(tmp_path):
    async def test(brokers):
        kept = brokers.kept()
        send = kept.markers._send

        async def first_only(decided, timeout):
            cut = [each._replace(partitions=[place for place in each.partitions if place[1] == 0]) for each in decided]
            results = await send(cut, timeout)
            return [
                dict.fromkeys(each.partitions, MarkerResult.FAILED) | said
                for each, said in zip(decided, results, strict=True)
            ]

        kept.markers._send = first_only
        assert [await brokers.send(partition) for partition in (0, 1)] == [ErrorCode.NONE] * 2
        assert await brokers.again(lambda: brokers.producer.end(is_commit=False)) is ErrorCode.NONE
        await until(lambda: brokers.cluster.leader_of("t").last_stable_offset == 2)
        assert await readable(brokers.leader(1), partition=1) == (1, 0)
        await brokers.move_coordinator()
        await brokers.completed("CompleteAbort")
        for partition in (0, 1):
            assert await markers(brokers.leader(partition), partition=partition) == [(MarkerType.ABORT, 1)]

    with_brokers(tmp_path, test)


def test_a_data_leader_that_hangs_holds_up_no_transaction_of_other_partitions(tmp_path, monkeypatch):
    """It takes the message and answers nothing, as a stopped process or a disk that hangs does."""
    # One message is on its way at a time, and is waited for until the test ends.
    monkeypatch.setattr("kafka_api.transactions.marker_sender._ROUNDS_MAX", 1)
    monkeypatch.setattr("kafka_api.transactions.marker_sender._ROUND_TIMEOUT", 3600.0)
    goes_on = asyncio.Event()

    async def test(brokers):
        slow = brokers.producer
        quick = Producer(brokers.clients[1], name=same_partition_as(slow.name))
        hanging = await brokers.lead_apart()
        writer = brokers.cluster[hanging].markers.writer
        write = writer.write

        async def hang(request):
            await goes_on.wait()
            return await write(request)

        monkeypatch.setattr(writer, "write", hang)
        assert await brokers.send(0) is ErrorCode.NONE
        assert await brokers.again(slow.end) is ErrorCode.NONE
        brokers.producer = quick
        for _ in range(3):
            await brokers.init()
            assert await brokers.send(1) is ErrorCode.NONE
            assert await brokers.again(quick.end) is ErrorCode.NONE
            await brokers.completed("CompleteCommit")
        assert await slow.state() == "PrepareCommit"
        goes_on.set()
        await slow.until_state("CompleteCommit")

    with_brokers(tmp_path, test)


def same_partition_as(name):
    """Return another id that the same coordinator keeps."""
    number = transactions_partition(name, QUICK.topic_partitions)
    others = (f"other{each}" for each in range(100))
    return next(each for each in others if transactions_partition(each, QUICK.topic_partitions) == number)


def test_a_coordinator_without_a_majority_neither_admits_nor_fences(tmp_path):
    """It may have been deposed: the next one may have aborted what it takes for open."""

    async def test(brokers):
        assert await brokers.send() is ErrorCode.NONE
        number = brokers.coordinator
        producer = brokers.producer
        at_old = Producer(brokers.clients[number], producer_id=producer.producer_id, epoch=producer.epoch)
        others = [each for each in brokers.cluster.nodes if each != number]
        for other in others:
            await brokers.servers[other].stop()
        await brokers.cluster.stop(*others)
        said = await asyncio.gather(at_old.add_each("t", [0], version=5, verify_only=True))
        assert said[0] != [ErrorCode.NONE]
        assert (await at_old.end_once(epoch=7)).error_code in AGAIN

    with_brokers(tmp_path, test)
