"""A cluster with transactions under a script: producers that go one step at a time, and readers at both isolations.

Four producers act side by side: of each protocol (before KIP-890 and since) one that commits and one that aborts. So
one schedule shows all of them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from cluster.partition import Partition
from cluster.transactions.log_state import TransactionalLogState
from cluster.transactions.open_transactions import OpenTransactions
from cluster.transactions.records import TransactionState
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import WriteTxnMarkersRequest
from kafka_api.transactions.kept_transactions import KeptTransactions
from model.features import OFFERED, TRANSACTION_VERSION, LevelRange
from model.ids import GroupId, NodeId
from tests.simulation.clients.kafka_consumers import READ_COMMITTED, READ_UNCOMMITTED, SimConsumer
from tests.simulation.clients.kafka_transactors import LostIdentityError, SimTransactor, TransactionRules
from tests.simulation.clients.kafka_wire import Address, KafkaWire
from tests.simulation.clients.kafka_workload import FLUSH_SECONDS
from tests.simulation.clients.recorder import Recorder
from tests.simulation.clients.told_ends import ToldEnds
from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.world.cluster import KAFKA_PORT, TOPIC
from tests.simulation.world.transaction_probes import TransactionProbes

P = TypeVar("P", bound=SimTransactor)

_CLIENT = 101
_LEVEL = 2
# No transaction of a story ends by its time-out.
_TIMEOUT_MS = 600_000
_PRODUCE_TIMEOUT_MS = 4_000
_RECORDS = 2
_SECONDS = 30.0
_ADMINISTRATORS_VERSION = 1


class Intent(NamedTuple):
    """What a producer is to do."""

    is_raising: bool
    is_commit: bool

    @property
    def name(self) -> str:
        """The transactional id of the producer that does it."""
        return f"{'since' if self.is_raising else 'before'}-{'commits' if self.is_commit else 'aborts'}"


ALL_INTENTS = tuple(Intent(*each) for each in ((False, False), (False, True), (True, False), (True, True)))


class StoryTransactor(SimTransactor):
    """A producer whose steps the script calls: `open`, `fill`, `close`. Each asks again until it is answered.

    A step returns whether it is done. `open` and `close` raise LostIdentityError otherwise.

    Attributes:
        is_commit: How `close` ends.
        name: Of the transaction that `fill` has begun last.
        has_lost: A step has told it that another producer has its id.
    """

    def __init__(self, story: "TransactionStory", identity: str, intent: Intent) -> None:
        super().__init__(
            story.wire(identity),
            story.recorder,
            story.world.stream(f"kafka/{identity}"),
            TOPIC,
            story.cluster.options.partitions,
            transactional_id=identity,
            rules=TransactionRules(_LEVEL, _TIMEOUT_MS),
            is_raising=intent.is_raising,
            sent=story.cluster.history.sent,
            pace=1.0,
        )
        self._timeout_ms = _PRODUCE_TIMEOUT_MS
        self.is_commit = intent.is_commit
        self.name = ""
        self.has_lost = False

    async def open(self) -> bool:
        """Get the id's next epoch."""
        await self._init()
        return True

    async def fill(self) -> bool:
        """Begin a transaction and append to all partitions; return whether all of it was taken."""
        self.name = self.begin_line()
        try:
            for partition in range(self._partitions):
                if not self.is_raising:
                    await self.add(partition)
                if not await self.append(self.name, partition, _RECORDS):
                    return False
        except LostIdentityError:
            self.has_lost = True
            return False
        return True

    async def close(self) -> bool:
        """End the transaction as it was meant to end."""
        await self.end(self.name, is_commit=self.is_commit)
        return True

    async def close_in_vain(self) -> bool:
        """Try to end the transaction; return whether that was refused."""
        try:
            await self.close()
        except LostIdentityError:
            return True
        return False


class TransactionStory(Scenario):
    """Use as a context manager; `finish` ends it. The internal topics' elections are free from the beginning.

    Attributes:
        recorder: The history of all clients.
    """

    def __init__(self, seed: int, *, nodes: int = 3, replicas: int | None = None, partitions: int = 2) -> None:
        features = {**OFFERED, TRANSACTION_VERSION: LevelRange(0, _LEVEL)}
        super().__init__(
            seed,
            nodes=nodes,
            replicas=replicas,
            partitions=partitions,
            features=features,
            kafka=True,
            transactions_level=_LEVEL,
        )
        self.recorder = Recorder(lambda: self.world.time)
        self.cluster.observer.add(TransactionProbes(self.cluster.history))
        self._client = self.world.add_client(_CLIENT)
        self._ends = ToldEnds(self.cluster)
        self._administrators = 0

    def __enter__(self) -> Self:
        super().__enter__()
        # Whoever asks for a coordinator first has the topic created.
        self.do([self.producer("first", Intent(is_raising=False, is_commit=True))], StoryTransactor.open)
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            self._client.spawn(self.reader(f"during {isolation}", isolation).run())
        return self

    # -- clients ------------------------------------------------------------------------------------------------

    def wire(self, name: str) -> KafkaWire:
        """Return the connections of one client process."""
        bootstrap = [(node.address, KAFKA_PORT) for node in self.world.nodes.values()]
        return KafkaWire(self._client.environment, bootstrap, self.world.stream(f"wire/{name}"), name)

    def producer(self, identity: str, intent: Intent) -> StoryTransactor:
        """Return a producer of a transactional id; one that there was before is fenced once this one opens."""
        return StoryTransactor(self, identity, intent)

    def producers(self, intents: Iterable[Intent] = ALL_INTENTS) -> list[StoryTransactor]:
        """Return a producer for each intent."""
        return [self.producer(intent.name, intent) for intent in intents]

    def begin(
        self,
        producers: Collection[P],
        step: Callable[[P], Coroutine[Any, Any, bool]],
    ) -> "Doing":
        """Let all producers begin a step at once."""
        return self.spawn(step(producer) for producer in producers)

    def spawn(self, steps: Iterable[Coroutine[Any, Any, bool]]) -> "Doing":
        """Let clients begin these steps at once."""
        return Doing(self, [self._client.spawn(step) for step in steps])

    def do(
        self,
        producers: Collection[P],
        step: Callable[[P], Coroutine[Any, Any, bool]],
    ) -> None:
        """Let all producers do a step, and wait until each of them is answered that it is done."""
        self.begin(producers, step).succeed()

    def abort_as_administrator(self, node_id: int, producers: Collection[StoryTransactor]) -> "Doing":
        """Ask one broker, as if it led, to abort what producers have open in the first partition (KIP-664)."""
        address = (self.machine(node_id).address, KAFKA_PORT)
        steps = []
        for producer in producers:
            # A connection for each: a broker answers the requests of one connection in their order.
            self._administrators += 1
            steps.append(_abort(self.wire(f"administrator {self._administrators}"), address, producer))
        return self.spawn(steps)

    def whole_transactions(self, producers: Collection[StoryTransactor]) -> None:
        """Let all producers do a whole transaction, whatever happened before."""
        self.do(producers, StoryTransactor.fill)
        self.do(producers, StoryTransactor.close)

    # -- who coordinates, and who leads -------------------------------------------------------------------------

    @property
    def coordinated(self) -> GroupId:
        """The partition that keeps all transactional ids."""
        return self.topic_group(TRANSACTIONS_TOPIC)

    def topic_group(self, topic: str) -> GroupId:
        """Return the first partition of a topic that exists."""
        found = next(iter(self.cluster.nodes.values())).controller.topics.get(topic)
        assert found is not None
        return found.group(0)

    @property
    def coordinator(self) -> int:
        """The node that coordinates in the newest term."""
        node_id = self.cluster.leader_of(self.coordinated)
        assert node_id is not None
        return node_id

    @property
    def kept(self) -> KeptTransactions:
        """The ids at their coordinator."""
        server = self.cluster.server(self.coordinator)
        assert server is not None
        return server._transactions._active[self.coordinated]

    def part_coordinator(self) -> None:
        """Let a node coordinate that leads none of the topic's partitions, and holds none if there is such a node."""
        leaders = {self.cluster.leader_of(group) for group in self.cluster.data_groups()}
        holders = self.replica(self.leader).configuration.node_ids
        possible = [node_id for node_id in self._holders(self.coordinated) if node_id not in leaders]
        target = next((node_id for node_id in possible if node_id not in holders), possible[0])
        self.move(self.coordinated, target)
        self.wait(lambda: self.kept.is_loaded)

    def _holders(self, group: GroupId) -> list[int]:
        leader = self.cluster.leader_of(group)
        assert leader is not None
        consensus = self.cluster.consensus(leader, group)
        assert consensus is not None
        return [int(node_id) for node_id in consensus.configuration.node_ids]

    def move(self, group: GroupId, target: int) -> None:
        """Hand a partition's leadership over."""
        leader = self.cluster.leader_of(group)
        assert leader is not None
        if leader != target:
            self.wait(lambda: self._is_level(group))
            self.world.run(self.machine(leader), self.partition(leader, group).transfer_to(NodeId(target)))
            self.wait(lambda: self.cluster.leader_of(group) == target)

    def _is_level(self, group: GroupId) -> bool:
        replicas = [self.cluster.consensus(node_id, group) for node_id in self._holders(group)]
        ends = {None if each is None else (each.term, each.log.flushed_index) for each in replicas}
        return len(ends) == 1 and None not in ends

    def partition(self, node_id: int, group: GroupId | None = None) -> Partition:
        """Return a node's partition; None: the first one of the topic."""
        found = self.cluster.partition(node_id, group or self.group)
        assert found is not None
        return found

    def open_at(self, node_id: int, group: GroupId | None = None) -> OpenTransactions:
        """Return what is open by all that a replica holds."""
        state = self.partition(node_id, group).transactional
        assert isinstance(state, TransactionalLogState)
        return state.transactions

    # -- the end ------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Mend everything, and look what became of all transactions.

        Raises:
            AssertionError: A transaction is open or not complete, or readers do not see what the answers have promised.
        """
        self.candidates = None
        self.heal()
        for node_id in self.world.nodes:
            if not self.cluster.is_up(node_id):
                self.cluster.start(node_id)
        self.wait(self.is_complete, _SECONDS)
        self.wait(self.cluster.has_converged, _SECONDS)
        for node_id, group in self._replicas():
            assert not self.open_at(node_id, group).is_open, f"node {node_id} has something open in {group}"
        self._compare(READ_COMMITTED)
        self._compare(READ_UNCOMMITTED)
        self._judge()
        self.cluster.observer.at_end()

    def _replicas(self) -> list[tuple[int, GroupId]]:
        return [
            (node_id, group)
            for group in self.cluster.data_groups()
            for node_id in self.cluster.nodes
            if self.cluster.partition(node_id, group) is not None
        ]

    def is_complete(self) -> bool:
        """Whether no transaction is open or decided at the coordinator."""
        leader = self.cluster.leader_of(self.coordinated)
        server = None if leader is None else self.cluster.server(leader)
        kept = None if server is None else server._transactions._active.get(self.coordinated)
        if kept is None or not kept.is_loaded:
            return False
        stored = [kept.view(each) for each in kept.transactional_ids()]
        return all(
            each is not None and (each.state is TransactionState.EMPTY or each.state.is_complete) for each in stored
        )

    def reader(self, name: str, isolation: str) -> SimConsumer:
        """Return a reader, which writes down what it gets."""
        rng = self.world.stream(f"kafka/{name}")
        partitions = self.cluster.options.partitions
        return SimConsumer(self.wire(name), self.recorder, rng, TOPIC, partitions, ends=self._ends, isolation=isolation)

    def _compare(self, isolation: str) -> None:
        """Compare what a reader gets with what the answers of sends and ends have promised."""
        starts, ends = {}, {}
        for number, group in enumerate(self.cluster.data_groups()):
            leader = self.cluster.leader_of(group)
            assert leader is not None
            partition = self.partition(leader, group)
            starts[partition.name], ends[number] = partition.start_offset, partition.high_watermark
        reader = self.reader(f"final {isolation}", isolation)
        # Only one of the two reads what everybody must see.
        reading = self._client.spawn(reader.read_all(ends, final=isolation == READ_COMMITTED))
        self.wait(reading.done, _SECONDS)
        read = [
            (line["tp"], *record)
            for line in self.recorder.lines
            if line["f"] == "poll" and line["proc"] in reader.processes
            for record in line["recs"]
        ]
        seen, doubled = (
            dict.fromkeys(read),
            [each for each, count in Counter(each[2] for each in read).items() if count > 1],
        )
        assert not doubled, f"read twice at {isolation}: {doubled}"
        kept = [each for each in self.promised(isolation) if each[1] >= starts[each[0]]]
        assert sorted(seen) == sorted(kept), f"at {isolation}"

    def promised(self, isolation: str) -> list[tuple[str, int, str]]:
        """Return partition, offset and value of all records that a reader must see, by what was answered."""
        ended = {line["txn"]: (line["do"], line["type"]) for line in self.recorder.lines if line["f"] == "txn"}
        committed = {name for name, how in ended.items() if how == ("commit", "ok")}
        sent: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in self.recorder.lines:
            if line["f"] == "send":
                sent[line["txn"]].append(line)
        return [
            (line["tp"], line["off"], line["val"])
            for name, lines in sent.items()
            for line in lines
            if line["type"] == "ok" and (isolation == READ_UNCOMMITTED or name in committed)
        ]

    def _judge(self) -> None:
        verdict = self.recorder.log_verdict(None, FLUSH_SECONDS)
        shown = [f"{each.name}: {each.examples[0].text}" for each in verdict.findings]
        assert not shown, "\n".join(shown)


async def _abort(wire: KafkaWire, address: Address, producer: StoryTransactor) -> bool:
    topics = [WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])]
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer.producer_id, producer_epoch=producer.epoch, transaction_result=False, topics=topics
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    answer = await wire.call(address, ApiKey.WRITE_TXN_MARKERS, _ADMINISTRATORS_VERSION, request, _SECONDS)
    return answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE


class Doing:
    """A step of several producers that is under way."""

    def __init__(self, story: TransactionStory, tasks: Sequence[Any]) -> None:
        self._story = story
        self._tasks = tasks

    @property
    def is_done(self) -> bool:
        """Whether all have done it."""
        return all(task.done() for task in self._tasks)

    def wait(self) -> None:
        """Run until each has done it or was refused."""
        self._story.wait(lambda: self.is_done, _SECONDS)

    def succeed(self) -> None:
        """Run until all have done it, and none was refused."""
        self.wait()
        assert all(task.result() for task in self._tasks), "a producer was refused"
