"""RFC 0021 section 4: records of transactions are on the disks of a majority before they are answered.

The marker may come much later, and elsewhere: a commit must not find its records gone, whatever the topic says of its
other data.
"""

import pytest

from cluster.partition import Partition
from model.ids import Term
from model.key_value_batch import KeyValue, encode_key_values
from model.record_batch import TRANSACTIONAL_MASK, BatchProducer
from raft.replicate_item import ReplicateStages
from runtime.workers import Pool
from tests.simulation.scenarios.scenario import QUORUM, Scenario
from tests.simulation.world.replica_view import content_key

_PRODUCER = 1000
_PRODUCE = Partition.produce


async def _open_transaction(partition: Partition, batch: bytearray, told: list[Term]) -> None:
    """Append a batch that opens a transaction, as a leader does whose coordinator has said yes."""
    assert partition.transactional is not None
    guard, term = partition.transactional.fences.guard(_PRODUCER), partition.leader_epoch
    stages = partition.produce(batch, 1, QUORUM, None, term, guard=guard, is_durable=True)
    told.append((await stages.replicated).term)


def _an_answered_batch_survives_a_loss_of_all_power() -> None:
    with Scenario(161, topic_configs={"write.caching": "true"}) as story:
        leader, told = story.leader, []
        story.run_for(0.5)
        for node_id in story.world.nodes:
            story.machine(node_id).workers.stall(Pool.FSYNC, 2.0)
        batch = encode_key_values([KeyValue(b"k", b"v")], 1000, BatchProducer(_PRODUCER, 0, TRANSACTIONAL_MASK))
        content = content_key(batch)
        story.cluster.history.sent.add(content)
        partition = story.cluster.partition(leader, story.group)
        story.machine(leader).spawn(_open_transaction(partition, batch, told))
        story.wait(lambda: bool(told), 4.0)
        story.lose_power(*story.world.nodes)
        story.converge()
        is_there = any(ghost.content == content for ghost in story.log(leader))
        assert is_there, "a batch of a transaction was answered, and is gone"


def test_a_batch_of_a_transaction_that_was_answered_survives_a_loss_of_all_power() -> None:
    _an_answered_batch_survives_a_loss_of_all_power()


def test_a_batch_of_a_transaction_is_lost_if_it_is_as_relaxed_as_its_topic(monkeypatch) -> None:
    def produce_relaxed(partition: Partition, *arguments, is_durable: bool, **options) -> ReplicateStages:
        return _PRODUCE(partition, *arguments, **options)

    monkeypatch.setattr(Partition, "produce", produce_relaxed)
    with pytest.raises(AssertionError, match="was answered, and is gone"):
        _an_answered_batch_survives_a_loss_of_all_power()
