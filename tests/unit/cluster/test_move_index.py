"""The index of partitions that raft0's leader has to look at says what a walk through all of them would say."""

import random
from collections import Counter

import pytest

from cluster.commands import (
    AdmitBroker,
    AlterPlacements,
    AlterTopicConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    FinishPlacement,
    PlacementRecord,
    RegisterBroker,
    RemoveBroker,
    ReplicaRecord,
    RetireDirectory,
    SetBrokerState,
)
from cluster.errors import ClusterError
from cluster.evacuation import next_target
from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.move_index import MoveIndex
from model.ids import NodeId
from tests.unit.cluster.test_members import Machine, record

NODES = range(1, 7)
NAMES = ("b", OFFSETS_TOPIC, "a")


class RandomTables:
    """Tables that change by commands that are drawn, as raft0's log has them."""

    def __init__(self, number):
        self.rng = random.Random(number)
        self.machine = Machine()
        self.machine.topic(1, 2, 3, name=OFFSETS_TOPIC, topic_id="f" * 32)

    @property
    def topics(self):
        return self.machine.tables.topics

    def step(self):
        rng, machine = self.rng, self.machine
        draw = rng.choice([*[self._move] * 4, *[self._finish] * 3, self._state, self._grow, self._broker, self._retire])
        # What the tables refuse changes nothing.
        try:
            for command in draw():
                machine.apply(command)
        except ClusterError:
            pass
        if rng.random() < 0.02:
            machine.tables.replace(_contents(machine.tables))

    def _replicas(self):
        usable = [ReplicaRecord(each.node_id, each.directory_id) for each in self.machine.members.usable()]
        return self.rng.sample(usable, self.rng.randint(1, len(usable))) if usable else [ReplicaRecord(1, "d1")]

    def _partition(self):
        topic = self.rng.choice(self.topics.all())
        return topic, self.rng.randrange(len(topic.replicas))

    def _move(self):
        topic, number = self._partition()
        target = None if self.rng.random() < 0.2 else self._replicas()
        yield AlterPlacements([PlacementRecord(topic.topic_id, number, target)])

    def _finish(self):
        topic, number = self._partition()
        move = topic.move_of(number)
        if move is not None:
            yield FinishPlacement(topic.group(number), tuple(move.revision))

    def _state(self):
        yield SetBrokerState(
            self.rng.choice(NODES), self.rng.choice(["active", "active", "draining", "decommissioning"])
        )

    def _grow(self):
        topic = self.rng.choice(self.topics.all())
        what = self.rng.randrange(4)
        if what == 0:
            name = self.rng.choice(["a", "b", "d"])
            yield CreateTopic(name, self.rng.randbytes(16).hex(), [self._replicas() for _ in range(3)], {})
        elif what == 1:
            yield CreatePartitions(topic.topic_id, len(topic.replicas), [self._replicas()])
        elif what == 2 and not topic.is_internal:
            yield DeleteTopic(topic.topic_id)
        else:
            yield AlterTopicConfigs(topic.topic_id, {"retention.ms": str(self.rng.randrange(1, 9))})

    def _broker(self):
        node, directory = self.rng.choice(NODES), self.rng.randbytes(4).hex()
        yield AdmitBroker(node, directory, "r", 1)
        yield RegisterBroker(record(node, directory))

    def _retire(self):
        member = self.machine.members.member(NodeId(self.rng.choice(NODES)))
        if member is not None and self.rng.random() < 0.5:
            yield RetireDirectory(member.node_id, member.replica.directory_id)
        elif member is not None:
            yield RemoveBroker(member.node_id)


def _contents(tables):
    steps = tables.decode(b"".join(tables.encode()))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def _walked(tables):
    """Return what moves, what must move if all brokers work, and who holds how many replicas."""
    partitions = [(topic, number) for topic in tables.topics.all() for number in range(len(topic.replicas))]
    moving = [(topic.name, number) for topic, number in partitions if topic.move_of(number) is not None]
    must = {
        (topic.name, number)
        for topic, number in partitions
        if next_target(topic, number, tables.members, {}) is not None
    }
    counts = Counter(replica.node_id for topic, number in partitions for replica in topic.holders(number))
    return moving, must, counts


@pytest.mark.parametrize("number", range(12))
def test_the_index_has_what_a_walk_through_all_partitions_finds(number):
    tables = RandomTables(number)
    index = MoveIndex(tables.topics, tables.machine.members)
    found = Counter()
    for step in range(250):
        tables.step()
        # The leader looks now and then: several commands may lie between two looks.
        if step % 3:
            continue
        index.refresh()
        moving, must, counts = _walked(tables.machine.tables)
        assert [(topic.name, number) for topic, number in index.moving] == moving
        due = [(topic.name, number) for topic, number in index.due]
        assert due == sorted(due)
        assert must <= set(due)
        assert +index.counts == counts
        found.update(moving=len(moving), must=len(must))
    assert found["moving"] > 0
    assert found["must"] > 0


def test_the_index_goes_through_the_topics_alone_that_have_changed():
    machine = Machine()
    for name, topic, count in (("a", "a" * 32, 100), ("b", "b" * 32, 7)):
        machine.apply(CreateTopic(name, topic, [[ReplicaRecord(1, "d1"), ReplicaRecord(2, "d2")]] * count, {}))
    index = MoveIndex(machine.tables.topics, machine.members)
    for _ in range(3):
        index.refresh()
    assert index.gone_through == 107
    machine.apply(AlterTopicConfigs("b" * 32, {"retention.ms": "5"}))
    machine.apply(RegisterBroker(record(1, port=7)))
    index.refresh()
    assert index.gone_through == 114
    machine.apply(SetBrokerState(3, "draining"))
    index.refresh()
    assert index.gone_through == 114, "who drains keeps its replicas"
    machine.apply(SetBrokerState(3, "decommissioning"))
    index.refresh()
    assert index.gone_through == 221
