"""RFC 0022, section 1: the level is raised, and a topic becomes compacted, while clients overwrite its keys.

The brokers begin in the version before compaction. Each starts again in this version; then the level is raised, and
`cleanup.policy` becomes `compact`. Leaders and followers are killed in each of these phases.
"""

from dataclasses import replace

import pytest

from cluster.admin_messages import AlterTopicConfigsRequest, CreateTopicRequest, UpdateFeatureRequest
from cluster.compaction import CompactionOptions
from cluster.errors import ClusterError, InvalidTopicConfigError
from cluster.topic_changes import ConfigChange, ConfigOperation
from model.features import COMPACTED_TOPICS_LEVEL, COMPACTION, LevelRange
from model.ids import GroupId
from raft.options import RaftOptions
from storage.entry import EntryKind
from tests.feature_levels import LIVING
from tests.simulation.clients.kafka_table import SimTableReader, SimTableWriter, TableState
from tests.simulation.clients.kafka_wire import KafkaWire
from tests.simulation.invariants import RemovedRecordsAreSuperseded
from tests.simulation.known_bugs.compaction import passes_remove_the_newest_record
from tests.simulation.scenarios.compacted_story import SEGMENT_BYTES, kinds, objection, table_of_numbers
from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.world.cluster import KAFKA_PORT, TABLE

_CLIENT = 101
_WRITERS = 3
_TIMEOUT = 5.0
_NEW_VERSION = {**LIVING, COMPACTION: LevelRange(0, COMPACTED_TOPICS_LEVEL)}
_COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


class _Raised(Scenario):
    """Three brokers of the version before, a topic that only deletes, and clients that overwrite and delete its keys.

    `group` is that topic's only partition.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(
            seed, features=LIVING, segment_bytes=SEGMENT_BYTES, kafka=True, raft=RaftOptions(snapshot_entries=20)
        )
        # What is due is found soon; versions without the feature never look.
        self.cluster.options = replace(self.cluster.options, compaction=CompactionOptions(backoff_seconds=0.5))
        self._client = self.world.add_client(_CLIENT)
        self.state = TableState(self.counts)
        self._writers: list[SimTableWriter] = []
        self._reader: SimTableReader | None = None

    @property
    def group(self) -> GroupId:
        topic = next(iter(self.cluster.nodes.values())).controller.topics.get(TABLE)
        return super().group if topic is None else topic.group(0)

    def begin(self) -> None:
        """Create the topic, and start the clients."""
        self.candidates = None
        node = self.cluster.nodes[1]
        request = CreateTopicRequest(TABLE, 1, 3, [], {"cleanup.policy": "delete"}, False, _TIMEOUT)
        self.world.run(self.machine(1), node.admin.create_topic(request))
        self.wait(lambda: all(self._knows_leader(node_id) for node_id in self.world.nodes))
        for number in range(_WRITERS):
            name = f"writer-{number}"
            rng = self.world.stream(f"kafka/{name}")
            writer = SimTableWriter(self._wire(name), rng, self.state, self.cluster.history.sent, name)
            # Each hands over some ten records a second: segments are closed all the time.
            writer._pause = 0.06
            self._writers.append(writer)
            self._client.spawn(writer.run())
        self._reader = SimTableReader(self._wire("reader"), self.world.stream("kafka/reader"), self.state)
        self._client.spawn(self._reader.run())

    def _wire(self, name: str) -> KafkaWire:
        bootstrap = [(node.address, KAFKA_PORT) for node in self.world.nodes.values()]
        return KafkaWire(self._client.environment, bootstrap, self.world.stream(f"wire/{name}"), name)

    def strike(self, node_id: int, *, power_loss: bool = False) -> None:
        """End a broker's life under load, and start it again soon, in the version of now."""
        self.cluster.crash(node_id, power_loss=power_loss)
        self.run_for(0.5)
        self.cluster.start(node_id)
        self.wait(lambda: self.cluster.consensus(node_id, self.group) is not None)
        self.run_for(0.5)

    def upgrade(self) -> None:
        """Start all brokers again, one after the other, in the version that has compaction."""
        self.cluster.options = replace(self.cluster.options, features=_NEW_VERSION)
        for node_id in self.world.nodes:
            self.strike(node_id)

    def raise_level(self) -> None:
        """Raise the level of compaction; a broker may still be registered as what it was."""
        request = UpdateFeatureRequest(COMPACTION, COMPACTED_TOPICS_LEVEL, validate_only=False, timeout=_TIMEOUT)

        async def ask(node_id: int) -> bool:
            try:
                await self.cluster.nodes[node_id].admin.update_feature(request)
            except ClusterError:
                return False
            return True

        self.wait(lambda: self.cluster.leader_of(self.group) is not None)
        while not self.world.run(self.machine(self.leader), ask(self.leader)):
            self.run_for(0.5)
            self.wait(lambda: self.cluster.leader_of(self.group) is not None)

    def compact_topic(self) -> None:
        """Set the policy, as an operator does with one request.

        Raises:
            ClusterError: The cluster refuses it.
        """
        changes = [ConfigChange(key, ConfigOperation.SET, value) for key, value in _COMPACTED.items()]
        request = AlterTopicConfigsRequest(TABLE, changes, False, False, _TIMEOUT)
        self.wait(lambda: self.cluster.leader_of(self.group) is not None)
        leader = self.leader
        self.world.run(self.machine(leader), self.cluster.nodes[leader].admin.alter_topic_configs(request))

    def passes(self) -> list[int]:
        """Return how many passes each broker has made in its present life."""
        return [node.compactor.counts.passes for node in self.cluster.nodes.values()]

    def stop(self) -> None:
        """Let the clients end what they do, and wait until all replicas are equal."""
        for client in (*self._writers, self._reader):
            assert client is not None
            client.is_working = False
        self.wait(lambda: all(writer.has_ended for writer in self._writers), 30.0)
        self.converge()

    def judge(self) -> None:
        """Compare what a client reads, and what each replica holds, with a dict of what was acknowledged."""
        assert self._reader is not None
        reading = self._client.spawn(self._reader.read_finally())
        self.wait(reading.done, 30.0)
        for node_id in self.world.nodes:
            self.state.judge(dict(self.state.acknowledged), table_of_numbers(self, node_id))
        assert not self.state.wrong, "\n".join(self.state.wrong)


def _the_level_is_raised_under_load() -> None:
    with _Raised(72) as story:
        story.begin()
        story.run_for(2.0)
        story.upgrade()
        # That all brokers have it does not decide it.
        with pytest.raises(InvalidTopicConfigError, match=r"raftka\.compaction"):
            story.compact_topic()
        assert story.passes() == [0, 0, 0]
        story.raise_level()
        story.strike(story.leader)
        assert story.passes() == [0, 0, 0], "a topic that only deletes was compacted"
        story.compact_topic()
        story.wait(lambda: any(story.passes()))
        story.strike(story.leader)
        story.strike(story.followers[0], power_loss=True)
        story.wait(lambda: all(story.passes()), 30.0)
        story.run_for(2.0)
        story.stop()
        for node_id in story.world.nodes:
            assert EntryKind.PLACEHOLDER in kinds(story, node_id)
            assert story.replica(node_id).clean_index > 0
        story.judge()
        # Not all of it is what nobody knows the outcome of.
        assert len(story.state.acknowledged) > 12
        assert story.counts["table write ok"] > 300


def test_all_replicas_hold_what_was_acknowledged_though_the_level_is_raised_under_load() -> None:
    _the_level_is_raised_under_load()


def test_replicas_differ_from_what_was_acknowledged_if_passes_remove_the_newest_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes_remove_the_newest_record(monkeypatch)
    with objection(RemovedRecordsAreSuperseded):
        _the_level_is_raised_under_load()
