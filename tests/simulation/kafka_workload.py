"""Kafka clients of one simulated run, on machines of their own, and the verdict on what they saw."""

import asyncio
from random import Random

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest
from tests.simulation.cluster import KAFKA_PORT, TOPIC, SimCluster
from tests.simulation.kafka_consumers import SimAsker, SimConsumer
from tests.simulation.kafka_producers import SimProducer
from tests.simulation.kafka_wire import KafkaWire, LostError, NotSentError
from tests.simulation.recorder import Recorder

_FIRST_MACHINE = 101
_PRODUCERS = 5
_CONSUMERS = 2
# What a slow or a hanging disk of the nemesis may keep from being fsynced, on top of the flush interval.
FLUSH_SECONDS = 10.0


class KafkaWorkload:
    """Starts the clients; they outlive every broker."""

    def __init__(self, cluster: SimCluster, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._partitions = cluster.options.partitions
        world = cluster.world
        self.recorder = Recorder(lambda: world.time)
        cluster.on_power_loss = lambda: self.recorder.note("fault", name="power loss")
        self._machines = [world.add_client(_FIRST_MACHINE + number) for number in range(2)]
        self._producers: list[SimProducer] = []
        self._sending: list[asyncio.Task[None]] = []
        self._delete_pause = rng.choice([None, None, 2.0])
        self._topic_pause = rng.choice([None, 1.0, 5.0])
        self.is_working = True

    @property
    def acked(self) -> int:
        """How many records were acknowledged."""
        return self.recorder.counts["send ok"]

    def note_fault(self, kind: str) -> None:
        """Something was done to the cluster. What takes power is noted by the cluster, whatever the reason."""
        self.recorder.note("fault", name=f"nemesis {kind}")

    def start(self, node_id: int) -> None:
        """A broker has begun a life; the clients begin with the first one."""
        if self._producers:
            return
        for number in range(_PRODUCERS):
            machine = number % 2
            producer = SimProducer(*self._client(f"producer-{number}", machine), self._cluster.history.sent)
            self._producers.append(producer)
            self._sending.append(self._machines[machine].spawn(producer.run()))
        for number in range(_CONSUMERS):
            machine = number % 2
            self._machines[machine].spawn(SimConsumer(*self._client(f"consumer-{number}", machine)).run())
        self._machines[0].spawn(SimAsker(*self._client("asker")).run())
        if self._delete_pause is not None:
            self._machines[1].spawn(self._delete_records(self._delete_pause))
        if self._topic_pause is not None:
            self._machines[1].spawn(self._change_topics(self._topic_pause))

    def _client(self, name: str, machine: int = 0) -> tuple[KafkaWire, Recorder, Random, str, int]:
        rng = self._cluster.world.stream(f"kafka/{name}")
        return self._wire(name, machine), self.recorder, rng, TOPIC, self._partitions

    def _wire(self, name: str, machine: int) -> KafkaWire:
        bootstrap = [(node.address, KAFKA_PORT) for node in self._cluster.world.nodes.values()]
        environment = self._machines[machine].environment
        return KafkaWire(environment, bootstrap, self._cluster.world.stream(f"wire/{name}"), name)

    def stop(self) -> None:
        """Producers end after the record at hand; nothing is deleted any more."""
        self.is_working = False
        for producer in self._producers:
            producer.is_working = False

    def finish(self, seconds: float) -> None:
        """Read everything once more, within so many virtual seconds, and judge what all clients have seen.

        Raises:
            AssertionError: It cannot be read, or the checker finds an anomaly.
        """
        world = self._cluster.world
        # What an idempotent producer still tries may be acknowledged until then.
        world.run_until(lambda: all(task.done() for task in self._sending), world.time + seconds)
        self._read_all()
        has_read = world.run_until(self._reading.done, world.time + seconds)
        world.check()
        if not has_read:
            raise AssertionError(f"what is in the log could not be read within {seconds:g} s")
        self._judge()

    def _read_all(self) -> None:
        ends = {}
        for number, group in enumerate(self._cluster.data_groups()):
            leader = self._cluster.leader_of(group)
            assert leader is not None
            partition = self._cluster.partition(leader, group)
            assert partition is not None
            ends[number] = partition.high_watermark
            if partition.start_offset > 0:
                # Retention or DeleteRecords: that they delete no more than they may is another invariant's.
                self.recorder.note("trim", tp=f"{TOPIC}-{number}", off=partition.start_offset)
        reader = SimConsumer(*self._client("final"))
        self._reading = self._machines[0].spawn(reader.read_all(ends))

    def _judge(self) -> None:
        verdict = self.recorder.verdict(FLUSH_SECONDS)
        counts = self._cluster.history.counts
        counts.update({f"client {name}": number for name, number in self.recorder.counts.items()})
        counts.update({f"allowed {name}": number for name, number in verdict.allowed.items()})
        for finding in verdict.findings:
            shown = "\n".join(f"{each.subject}: {each.text}\n{each.operations}" for each in finding.examples)
            raise AssertionError(f"clients saw {finding.name}, {finding.cases} cases:\n{shown}")

    # -- admin requests -----------------------------------------------------------------------------------------

    async def _delete_records(self, pause: float) -> None:
        wire = self._wire("deleter", 1)
        while self.is_working:
            await asyncio.sleep(self._rng.expovariate(1 / pause))
            partition = self._rng.randrange(self._partitions)
            asked = DeleteRecordsRequest.DeleteRecordsPartition(
                partition_index=partition, offset=self._rng.choice([-1, self._rng.randrange(200)])
            )
            topic = DeleteRecordsRequest.DeleteRecordsTopic(name=TOPIC, partitions=[asked])
            try:
                address, _ = await wire.leader(TOPIC, partition)
                request = DeleteRecordsRequest(topics=[topic], timeout_ms=3000)
                answer = await wire.call(address, ApiKey.DELETE_RECORDS, 1, request)
            except (NotSentError, LostError):
                wire.forget(TOPIC, partition)
                continue
            if answer.topics[0].partitions[0].error_code:
                wire.forget(TOPIC, partition)

    async def _change_topics(self, pause: float) -> None:
        wire, number = self._wire("admin", 1), 0
        while self.is_working:
            await asyncio.sleep(self._rng.expovariate(1 / pause))
            number += 1
            name = f"passing-{number % 3}"
            try:
                address = await wire.controller()
                if self._rng.random() < 0.5:
                    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=3)
                    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
                    answer = await wire.call(address, ApiKey.CREATE_TOPICS, 5, request)
                    self.recorder.counts[f"create topic {answer.topics[0].error_code}"] += 1
                else:
                    deletion = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
                    answer = await wire.call(address, ApiKey.DELETE_TOPICS, 4, deletion)
                    self.recorder.counts[f"delete topic {answer.responses[0].error_code}"] += 1
            except (NotSentError, LostError):
                continue
