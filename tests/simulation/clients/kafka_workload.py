"""Kafka clients of one simulated run, on machines of their own, and the verdict on what they saw."""

from random import Random
from typing import Any, NamedTuple

from raftka.check.levels import Level
from tests.simulation.clients.final_questions import FinalQuestions
from tests.simulation.clients.kafka_burst_producers import SimBurstProducer
from tests.simulation.clients.kafka_consumers import READ_COMMITTED, READ_UNCOMMITTED, SimAsker, SimConsumer
from tests.simulation.clients.kafka_deleters import AnsweredDeletions, SimDeleter
from tests.simulation.clients.kafka_group_consumers import GroupRules, SimGroupMember
from tests.simulation.clients.kafka_group_keepers import SimGroupKeeper
from tests.simulation.clients.kafka_idempotent_producers import SimIdempotentProducer
from tests.simulation.clients.kafka_offset_admins import SimOffsetAdmin
from tests.simulation.clients.kafka_overtakers import SimOvertaker
from tests.simulation.clients.kafka_producers import Producer, SimProducer
from tests.simulation.clients.kafka_table import SimTableReader, SimTableWriter, TableState
from tests.simulation.clients.kafka_topic_admins import SimTopicAdmin
from tests.simulation.clients.kafka_transactors import SimTransactor, TransactionRules
from tests.simulation.clients.kafka_transformers import SimTransformer
from tests.simulation.clients.kafka_wire import KafkaWire
from tests.simulation.clients.kafka_working_members import SimWorkingMember
from tests.simulation.clients.recorder import Recorder
from tests.simulation.clients.told_ends import ToldEnds
from tests.simulation.world.cluster import KAFKA_PORT, TOPIC, SimCluster

_FIRST_MACHINE = 101
_GROUP_MEMBERS = 3
_OFFSET_ADMINS = 2
_TRANSFORMERS = 2
_TABLE_WRITERS = 2
# Two have the same, so each fences the other.
_TRANSACTIONAL_IDS = ("sink-0", "sink-1", "sink-shared", "sink-shared")


class _Clients(NamedTuple):
    """How many processes of each kind there are."""

    producers: int
    consumers: int
    askers: int
    topic_admins: int


_MANY = _Clients(producers=5, consumers=2, askers=2, topic_admins=2)
# In a cluster of more than three brokers, whose own work costs more. As many producers: three may all sit on connections
# that something on the way has forgotten, for longer than the cluster has to show that it works (seed 2252).
_FEW = _Clients(producers=5, consumers=1, askers=1, topic_admins=2)
# Where others have transactions, whose requests and markers cost as much again. Both isolations have a reader.
_BESIDE_TRANSACTIONS = _Clients(producers=3, consumers=2, askers=1, topic_admins=1)
# Of topics that come and go.
_REPLICATION_FACTORS = (1, 3, 5)
_LIVING_FACTORS = [3]
# What a slow or a hanging disk of the nemesis may keep from being fsynced, on top of the flush interval.
FLUSH_SECONDS = 10.0


class KafkaWorkload:
    """Starts the clients; they outlive every broker."""

    def __init__(self, cluster: SimCluster, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._partitions = cluster.options.partitions
        self._clients = _MANY if cluster.options.nodes == 3 else _FEW
        if cluster.options.transactions_level:
            self._clients = _BESIDE_TRANSACTIONS
        world = cluster.world
        self.recorder = Recorder(
            lambda: world.time,
            cluster.options.plan.without_operations,
            has_keys=cluster.options.compaction is not None,
        )
        cluster.on_power_loss = lambda: self.recorder.note("fault", name="power loss")
        self._machines = [world.add_client(_FIRST_MACHINE + number) for number in range(2)]
        self._wires: list[KafkaWire] = []
        self._producers: list[Producer] = []
        self._topic_admins: list[SimTopicAdmin] = []
        self._deleters: list[SimDeleter] = []
        self._offset_admins: list[SimOffsetAdmin] = []
        self._group_keepers: list[SimGroupKeeper] = []
        self._table = TableState(cluster.history.counts)
        self._table_writers: list[SimTableWriter] = []
        self._table_reader: SimTableReader | None = None
        # Swarm: how fast clients are, whether producers share connections, who else is at work.
        self._pace = rng.choice([1.0, 1.0, 1.5])
        self._shares = rng.random() < 0.5
        self._delete_pause = rng.choice([None, None, 2.0])
        self._topic_pause = rng.choice([2.0, 8.0])
        self.group_rules = GroupRules(cluster.history)
        self._ends = ToldEnds(cluster)
        self.deletions = AnsweredDeletions(cluster)

    @property
    def acked(self) -> int:
        """How many records were acknowledged."""
        return self.recorder.counts["send ok"]

    @property
    def answered(self) -> int:
        """How many operations of any kind were."""
        return sum(self.recorder.counts[f"{f} ok"] for f in ("send", "poll", "latest", "cas", "read"))

    def note_fault(self, kind: str) -> None:
        """Something was done to the cluster. What takes power is noted by the cluster, whatever the reason."""
        self.recorder.note("fault", name=f"nemesis {kind}")

    def start(self, node_id: int) -> None:
        """A broker has begun a life; the clients begin with the first one."""
        if self._producers:
            return
        for number in range(self._clients.producers):
            machine = number % 2
            wire, *others = self._client(f"producer-{number}", machine)
            # Two on one connection: one's requests are sent while the other's are not answered yet.
            shared = self._producers[number - 2].wire if self._shares and number >= 2 else wire
            producer = self._kind_of_producer(number)(shared, *others, sent=self._cluster.history.sent, pace=self._pace)
            self._producers.append(producer)
            self._machines[machine].spawn(producer.run())
        self._start_transactors()
        self._start_table()
        for number in range(self._clients.consumers):
            machine = number % 2
            consumer = SimConsumer(
                *self._client(f"consumer-{number}", machine), ends=self._ends, isolation=self._isolation(number)
            )
            self._machines[machine].spawn(consumer.run())
        for number in range(self._clients.askers):
            asker = SimAsker(*self._client(f"asker-{number}", number % 2), ends=self._ends)
            self._machines[number % 2].spawn(asker.run())
        self._start_group()
        if self._cluster.options.state is not None:
            self._start_offset_admins()
        if self._delete_pause is not None:
            wire = self._wire("deleter", 1)
            deleter = SimDeleter(wire, self._rng, self._partitions, self._delete_pause, self.deletions)
            self._deleters.append(deleter)
            self._machines[1].spawn(deleter.run())
        for number in range(self._clients.topic_admins):
            name = f"admin-{number}"
            rng = self._cluster.world.stream(f"kafka/{name}")
            # What has one replica goes with the disk that has it.
            factors = [factor for factor in _REPLICATION_FACTORS if factor <= self._cluster.options.nodes]
            factors = _LIVING_FACTORS if self._cluster.options.spare else factors
            wire = self._wire(name, number % 2)
            admin = SimTopicAdmin(wire, self.recorder, rng, self._topic_pause, factors)
            self._topic_admins.append(admin)
            self._machines[number % 2].spawn(admin.run())

    def _kind_of_producer(self, number: int) -> type[Producer]:
        if number == 0:
            return SimBurstProducer
        return SimIdempotentProducer if self._rng.random() < 0.35 else SimProducer

    def _isolation(self, number: int) -> str | None:
        if not self._cluster.options.transactions_level:
            return None
        if self._cluster.options.compaction is not None:
            # What was aborted goes, and a reader at read_uncommitted would miss what another one has seen.
            return READ_COMMITTED
        return READ_COMMITTED if number % 2 == 0 else READ_UNCOMMITTED

    def _start_transactors(self) -> None:
        level = self._cluster.options.transactions_level
        if not level:
            return
        # A stream of their own: all other clients stay what they are.
        rng = self._cluster.world.stream("transactions/clients")
        rules = TransactionRules(level, rng.choice([1_500, 5_000]))
        shared: dict[str, Any] = {"rules": rules, "sent": self._cluster.history.sent, "pace": self._pace}
        for number, name in enumerate(_TRANSACTIONAL_IDS):
            machine = number % 2
            producer = SimTransactor(*self._client(f"transactor-{number}", machine), transactional_id=name, **shared)
            self._producers.append(producer)
            self._machines[machine].spawn(producer.run())
        # Inputs that are deleted before they are read would be missed.
        keeps_all = self._delete_pause is None and self._cluster.options.retention_bytes < 0
        if keeps_all:
            self._start_transformers(shared, are_members=rng.random() < 0.5)
        if self._cluster.options.plan.is_crowded:
            overtaker = SimOvertaker(
                *self._client("overtaker", 0), transactional_id="overtaker", source=0, sink=0, group="passed", **shared
            )
            self._producers.append(overtaker)
            self._machines[0].spawn(overtaker.run())

    def _start_transformers(self, shared: dict[str, Any], *, are_members: bool) -> None:
        for number in range(_TRANSFORMERS):
            client = self._client(f"transformer-{number}", number % 2)
            producer: SimTransformer
            if are_members:
                producer = SimWorkingMember(*client, transactional_id=f"work-{number}", **shared)
            else:
                producer = SimTransformer(*client, transactional_id="transform", source=0, sink=1, **shared)
            self._producers.append(producer)
            self._machines[number % 2].spawn(producer.run())

    def _start_table(self) -> None:
        if not self._cluster.options.has_table:
            return
        for number in range(_TABLE_WRITERS):
            name = f"writer-{number}"
            rng, sent = self._cluster.world.stream(f"kafka/{name}"), self._cluster.history.sent
            writer = SimTableWriter(self._wire(name, number % 2), rng, self._table, sent, name)
            self._table_writers.append(writer)
            self._machines[number % 2].spawn(writer.run())
        self._table_reader = SimTableReader(
            self._wire("table-reader", 0), self._cluster.world.stream("kafka/table-reader"), self._table
        )
        self._machines[0].spawn(self._table_reader.run())

    def _start_group(self) -> None:
        if self._cluster.options.has_group:
            for number in range(_GROUP_MEMBERS):
                name, machine = f"member-{number}", number % 2
                rng = self._cluster.world.stream(f"kafka/{name}")
                instance = name if number == 0 else None
                wire = self._wire(name, machine)
                isolation = self._isolation(0)
                reader = SimConsumer(*self._client(f"{name}-reader", machine), ends=self._ends, isolation=isolation)
                rules, recorder = self.group_rules, self.recorder
                member = SimGroupMember(
                    wire, rng, rules, TOPIC, self._partitions, name, instance=instance, reader=reader, recorder=recorder
                )
                self._machines[machine].spawn(member.run())
            keeper = SimGroupKeeper(
                self._wire("keeper", 0), self._cluster.world.stream("kafka/keeper"), TOPIC, self._cluster.history.counts
            )
            self._group_keepers.append(keeper)
            self._machines[0].spawn(keeper.run())

    def _start_offset_admins(self) -> None:
        for number in range(_OFFSET_ADMINS):
            name = f"offset-admin-{number}"
            rng, counts = self._cluster.world.stream(f"kafka/{name}"), self._cluster.history.counts
            first = number * 1_000_000
            admin = SimOffsetAdmin(self._wire(name, number % 2), rng, TOPIC, self._partitions, first, counts)
            self._offset_admins.append(admin)
            self._machines[number % 2].spawn(admin.run())

    def _client(self, name: str, machine: int = 0) -> tuple[KafkaWire, Recorder, Random, str, int]:
        rng = self._cluster.world.stream(f"kafka/{name}")
        return self._wire(name, machine), self.recorder, rng, TOPIC, self._partitions

    def _wire(self, name: str, machine: int) -> KafkaWire:
        bootstrap = [(node.address, KAFKA_PORT) for node in self._cluster.world.nodes.values()]
        environment = self._machines[machine].environment
        wire = KafkaWire(environment, bootstrap, self._cluster.world.stream(f"wire/{name}"), name)
        self._wires.append(wire)
        return wire

    def stop(self) -> None:
        """Producers end after the record at hand; nothing is deleted any more."""
        for client in (
            *self._producers,
            *self._topic_admins,
            *self._deleters,
            *self._offset_admins,
            *self._group_keepers,
            *self._table_writers,
            *([] if self._table_reader is None else [self._table_reader]),
        ):
            client.is_working = False

    def finish(self, seconds: float) -> None:
        """Read everything once more, within so many virtual seconds, and judge what all clients have seen.

        Raises:
            AssertionError: It cannot be read, or the checker finds an anomaly.
        """
        world = self._cluster.world
        # What an idempotent producer still tries may be acknowledged until then.
        senders = [*self._producers, *self._table_writers]
        world.run_until(lambda: all(sender.has_ended for sender in senders), world.time + seconds)
        # That last record has yet to be committed; and a read that finds what has rotted before makes a leader step
        # down, long after the last fault.
        if not world.run_until(self._cluster.has_converged, world.time + seconds):
            missing = self._cluster.what_is_missing()
            raise AssertionError(
                f"the replicas have not converged {seconds:g} s after the last producer ended:\n  {missing}"
            )
        self._read_all()
        has_read = world.run_until(self._reading.done, world.time + seconds)
        world.check()
        if not has_read:
            raise AssertionError(f"what is in the log could not be read within {seconds:g} s")
        self._read_table(seconds)
        self._note_log_starts()
        self._judge()
        self._ask_all(seconds)

    def _read_all(self) -> None:
        ends = {}
        for number, group in enumerate(self._cluster.data_groups()):
            leader = self._cluster.leader_of(group)
            assert leader is not None
            partition = self._cluster.partition(leader, group)
            assert partition is not None
            ends[number] = partition.high_watermark
        reader = SimConsumer(*self._client("final"), ends=self._ends, isolation=self._isolation(0))
        self._reading = self._machines[0].spawn(reader.read_all(ends))

    def _read_table(self, seconds: float) -> None:
        if self._table_reader is not None:
            world, reading = self._cluster.world, self._machines[0].spawn(self._table_reader.read_finally())
            has_read = world.run_until(reading.done, world.time + seconds)
            world.check()
            if not has_read:
                raise AssertionError(f"what is in the table could not be read within {seconds:g} s")

    def _note_log_starts(self) -> None:
        """Note what retention and DeleteRecords have left; that they take no more than they may is an invariant's.

        After the final reads: retention may move a start between two of them (seed 1524).
        """
        for number, group in enumerate(self._cluster.data_groups()):
            starts = [
                partition.start_offset
                for node_id in self._cluster.nodes
                if (partition := self._cluster.partition(node_id, group)) is not None
            ]
            if max(starts) > 0:
                self.recorder.note("trim", tp=f"{TOPIC}-{number}", off=max(starts))

    def _ask_all(self, seconds: float) -> None:
        world, rng = self._cluster.world, self._cluster.world.stream("kafka/questions")
        questions = FinalQuestions(self._cluster, self._wire("questions", 0), self.recorder, self.deletions, rng)
        asking = self._machines[0].spawn(questions.run())
        has_answers = world.run_until(asking.done, world.time + seconds)
        world.check()
        if not has_answers:
            raise AssertionError(f"not every question was answered within {seconds:g} s")
        for name, wrong in questions.wrong.items():
            raise AssertionError(f"clients saw {name}, {len(wrong)} cases:\n" + "\n".join(wrong))

    def _judge(self) -> None:
        level = Level.WRITE_CACHING if self._cluster.options.write_caching else None
        verdict, topics = self.recorder.log_verdict(level, FLUSH_SECONDS), self.recorder.cas_verdict()
        counts = self._cluster.history.counts
        counts.update({f"client {name}": number for name, number in self.recorder.counts.items()})
        counts["client older leader refused"] += sum(wire.refused for wire in self._wires)
        counts.update(self.group_rules.counts)
        counts.update({f"allowed {name}": number for name, number in verdict.allowed.items()})
        for finding in (*verdict.findings, *topics.findings):
            shown = "\n".join(f"{each.subject}: {each.text}\n{each.operations}" for each in finding.examples)
            raise AssertionError(f"clients saw {finding.name}, {finding.cases} cases:\n{shown}")
        if self.recorder.wrong:
            shown = "\n".join(self.recorder.wrong)
            raise AssertionError(f"clients saw false-gaps, {len(self.recorder.wrong)} cases:\n{shown}")
        for keeper in self._group_keepers:
            if keeper.wrong:
                shown = "\n".join(keeper.wrong)
                raise AssertionError(f"clients saw broken-group, {len(keeper.wrong)} cases:\n{shown}")
        if self._table.wrong:
            shown = "\n".join(self._table.wrong)
            raise AssertionError(f"clients saw broken-table, {len(self._table.wrong)} cases:\n{shown}")
        if self.deletions.wrong:
            shown = "\n".join(self.deletions.wrong)
            raise AssertionError(f"clients saw broken-deletion, {len(self.deletions.wrong)} cases:\n{shown}")
