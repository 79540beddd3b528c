"""Markers between three brokers: leaders that change, leaders that were deposed, and what a marker may do that data may
not."""

import asyncio

import pytest
from wire_client import PRODUCE, broker_in, in_office, produce_request
from wire_cluster import with_brokers

from cluster.errors import ControllerUnavailableError
from cluster.transactions.admission import AddToTransactionReply, Admission
from cluster.transactions.marker_writer import PARTITIONS_MAX, EndingTransaction, MarkerResult, WriteMarkersRequest
from cluster.transactions.markers import DecidedTransaction
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions.coordinator import TransactionCoordinator
from model.control_batch import NO_PREPARE, MarkerType, Prepare
from model.ids import NO_INDEX, ConsistencyLevel
from raft.replicate_item import ReplicateItem
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.model.record_batches import TRANSACTIONAL, build_batch

PRODUCER = 1000


def batch(first, epoch=0):
    return bytearray(
        build_batch(b"v", producer_id=PRODUCER, producer_epoch=epoch, base_sequence=first, attributes=TRANSACTIONAL)
    )


def deadline():
    return asyncio.get_running_loop().time() + 10


async def begin(partition, first):
    """Append a batch that opens a transaction, as a leader does whose coordinator has said yes."""
    guard, term = partition.log_state.fences.guard(PRODUCER), partition.leader_epoch
    level = ConsistencyLevel.QUORUM_ACK
    stages = partition.produce(batch(first), 1, level, deadline(), term, guard=guard, is_durable=True)
    await stages.replicated


async def end(node, index, kind=MarkerType.COMMIT):
    """Send the marker until a leader has answered, as a coordinator does."""
    decided = DecidedTransaction(PRODUCER, 0, kind, 5, Prepare(3, index), (("t", 0),))
    while True:
        (results,) = await node.markers.send([decided], 5.0, in_office)
        if results[("t", 0)] is MarkerResult.DONE:
            return
        # A coordinator waits as well: a leader that has changed is not known everywhere at once.
        await asyncio.sleep(0.02)


def test_a_marker_reaches_the_leader_from_any_broker(tmp_path):
    async def test(brokers):
        leader = brokers.cluster.leader_of("t")
        await begin(leader, 0)
        await end(brokers.cluster[brokers.other], 1)
        assert leader.log_state.transactions.open_of(PRODUCER) is None
        assert leader.last_stable_offset == leader.high_watermark == 2

    with_brokers(tmp_path, test)


def test_a_new_leader_knows_what_is_open_and_which_decision_ended_it(tmp_path):
    async def test(brokers):
        cluster, old = brokers.cluster, brokers.cluster.leader_of("t")
        await begin(old, 0)
        await end(cluster[brokers.other], 1)
        await begin(old, 1)
        await old.transfer_to(None)
        await until(lambda: cluster.find_leader("t") not in (None, old))
        new = cluster.leader_of("t")
        assert new.last_stable_offset == 2
        # The marker of the former transaction comes again: it is known.
        await end(cluster[brokers.other], 1)
        assert new.log_state.transactions.open_of(PRODUCER).first_offset == 2
        await end(cluster[brokers.other], 2, MarkerType.ABORT)
        assert new.last_stable_offset == new.high_watermark == 4
        await until(lambda: old.log_state.transactions.open_of(PRODUCER) is None)

    with_brokers(tmp_path, test)


@pytest.mark.parametrize("is_confirming", [True, False], ids=["office confirmed", "planted: office not confirmed"])
def test_a_deposed_coordinator_does_not_end_the_next_transaction(tmp_path, monkeypatch, is_confirming):
    """Its successor has said that the former transaction is complete, which left nothing in the partition's log."""

    async def test(brokers):
        cluster, former = brokers.cluster, brokers.cluster[brokers.other]
        waits, goes_on = asyncio.Event(), asyncio.Event()

        async def catch_up(timeout):
            waits.set()
            await goes_on.wait()

        async def office_is_lost():
            return not is_confirming

        monkeypatch.setattr(former.markers, "_catch_up", catch_up)
        decided = DecidedTransaction(PRODUCER, 0, MarkerType.COMMIT, 5, Prepare(3, 1), (("t", 0), ("gone", 0)))
        late = asyncio.ensure_future(former.markers.send([decided], 5.0, office_is_lost))
        await waits.wait()
        # The successor's copy finds nothing open. The next transaction begins at another leader.
        await end(cluster[brokers.leader], 1)
        old = cluster.leader_of("t")
        await old.transfer_to(None)
        await until(lambda: cluster.find_leader("t") not in (None, old))
        new = cluster.leader_of("t")
        await begin(new, 0)
        await until(lambda: knows(former, new))
        goes_on.set()
        (results,) = await late
        assert results[("gone", 0)] is MarkerResult.DONE
        assert results[("t", 0)] is (MarkerResult.NOT_LEADER if is_confirming else MarkerResult.DONE)
        assert (new.log_state.transactions.open_of(PRODUCER) is not None) == is_confirming

    with_brokers(tmp_path, test)


def knows(node, leader):
    """Whether a node has heard of the leader of a partition in its term."""
    told = node.leadership.leader_of(leader.group)
    return told is not None and told.term == leader.leader_epoch


def test_a_leader_that_no_majority_confirms_does_not_say_that_nothing_is_open(tmp_path):
    """Schedule 6: it may have been deposed, and the log of its successor may have what it lacks."""

    async def test(brokers):
        cluster, leader = brokers.cluster, brokers.cluster.leader_of("t")
        term, node = leader.leader_epoch, cluster[brokers.leader]
        ending = EndingTransaction(PRODUCER, 0, True, 5, 3, 1, [(leader.group, term)])
        others = [number for number in cluster.nodes if number != brokers.leader]
        await cluster.stop(*others)
        reply = await node.markers.writer.write(WriteMarkersRequest([ending], 10.0))
        assert reply.results[0][0] in (MarkerResult.FAILED, MarkerResult.NOT_LEADER)

    with_brokers(tmp_path, test)


def test_a_marker_that_is_known_is_done_only_once_it_is_committed(tmp_path):
    async def test(brokers):
        cluster, leader = brokers.cluster, brokers.cluster.leader_of("t")
        await begin(leader, 0)
        term, node = leader.leader_epoch, cluster[brokers.leader]
        await cluster.stop(*[number for number in cluster.nodes if number != brokers.leader])
        ending = EndingTransaction(PRODUCER, 0, True, 5, 3, 1, [(leader.group, term)])
        first = asyncio.ensure_future(node.markers.writer.write(WriteMarkersRequest([ending], 10.0)))
        await until(lambda: leader.log_state.last_prepare(PRODUCER) == (Prepare(3, 1), leader.commit_index + 1))
        again = node.markers.writer.write(WriteMarkersRequest([ending], 10.0))
        for reply in await asyncio.gather(first, again):
            assert reply.results[0][0] in (MarkerResult.FAILED, MarkerResult.NOT_LEADER)

    with_brokers(tmp_path, test)


def test_a_late_copy_of_a_marker_is_known_though_its_producer_was_forgotten(tmp_path, monkeypatch):
    async def test(brokers):
        leader = brokers.cluster.leader_of("t")
        await begin(leader, 0)
        ending = EndingTransaction(PRODUCER, 0, True, 5, 3, 1, [(leader.group, leader.leader_epoch)])
        writer = brokers.cluster[brokers.leader].markers.writer
        reply = await writer.write(WriteMarkersRequest([ending], 10.0))
        assert reply.results == [[MarkerResult.DONE]]
        # Others have taken the producer's place in the table.
        monkeypatch.setattr(type(leader.log_state), "last_prepare", lambda *_: (NO_PREPARE, NO_INDEX))
        await begin(leader, 1)
        late = await writer.write(WriteMarkersRequest([ending], 10.0))
        assert late.results == [[MarkerResult.DONE]]
        assert leader.log_state.transactions.open_of(PRODUCER) is not None

    with_brokers(tmp_path, test)


def test_a_full_disk_refuses_data_and_takes_markers(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await begin(broker.partition("t"), 0)
            broker.node.groups.limits.disk.update_free(0)
            assert (await client.produce("t")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            # Again at once: the broker looks at its disk now and then, and finds room there.
            broker.node.groups.limits.disk.update_free(0)
            decided = DecidedTransaction(PRODUCER, 0, MarkerType.COMMIT, 5, Prepare(3, 1), (("t", 0),))
            (results,) = await broker.node.markers.send([decided], 5.0, in_office)
            assert results[("t", 0)] is MarkerResult.DONE
            assert broker.partition("t").high_watermark == 2

    run(test)


def test_transactions_are_flushed_though_other_data_of_the_topic_is_not(tmp_path, monkeypatch):
    asked = []
    succeed = ReplicateItem.succeed

    def remember(item):
        if item.is_data:
            asked.append(item.asks_flush)
        succeed(item)

    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            partition = broker.partition("t")
            consensus_of(partition).state.write_caching = True
            monkeypatch.setattr(ReplicateItem, "succeed", remember)
            assert (await client.produce("t")).error_code == 0
            await begin(partition, 0)
            await end(broker.node, 1)
            assert asked == [False, True, True]

    run(test)


@pytest.mark.parametrize("says", [Admission.YES, Admission.NOT_IN_TRANSACTION])
def test_a_partitions_leader_asks_the_coordinator_over_the_link(tmp_path, monkeypatch, says):
    asked, coordinators = [], []

    async def answer(coordinator, request):
        asked.append(request)
        return AddToTransactionReply([says])

    monkeypatch.setattr(TransactionCoordinator, "answer_leader", answer)
    monkeypatch.setattr(TransactionCoordinator, "find_node", lambda *_: coordinators[0])

    async def test(brokers):
        coordinators.append(brokers.other)
        request = produce_request("t", batch(0), transactional_id="sink")
        response = await brokers.clients[brokers.leader].call(ApiKey.PRODUCE, PRODUCE, request)
        code = response.responses[0].partition_responses[0].error_code
        assert code == (0 if says is Admission.YES else ErrorCode.INVALID_TXN_STATE)
        (question,) = asked
        assert (question.transactional_id, question.producer_id, question.epoch) == ("sink", PRODUCER, 0)
        assert (question.partitions, question.is_add) == ([("t", 0)], False)

    with_brokers(tmp_path, test)


def test_a_message_with_more_partitions_than_a_sender_asks_for_is_refused(tmp_path):
    async def test(brokers):
        leader = brokers.cluster.leader_of("t")
        await begin(leader, 0)
        place = (leader.group, leader.leader_epoch)
        ending = EndingTransaction(PRODUCER, 0, True, 5, 3, 1, [place] * (PARTITIONS_MAX + 1))
        node = next(each for each in brokers.cluster.nodes.values() if each.partitions.get(leader.group) is leader)
        reply = await node.markers.writer.write(WriteMarkersRequest([ending], 5.0))
        assert set(reply.results[0]) == {MarkerResult.FAILED}
        assert leader.log_state.transactions.open_of(PRODUCER) is not None

    with_brokers(tmp_path, test)


def test_no_marker_is_sent_by_a_table_of_topics_that_may_be_old(tmp_path, monkeypatch):
    """A topic that was created again has the name of the former one; the marker would go to the former partition."""

    async def test(brokers):
        leader, node = brokers.cluster.leader_of("t"), brokers.cluster[brokers.other]
        await begin(leader, 0)
        decided = DecidedTransaction(PRODUCER, 0, MarkerType.COMMIT, 5, Prepare(3, 1), (("t", 0),))
        asked = []

        async def nobody_says(timeout):
            asked.append(timeout)
            raise ControllerUnavailableError("no leader of raft0 is known")

        catch_up = node.markers._catch_up
        for expected in (None, node.controller.applied_index + 1):
            node.markers.expect_tables(expected)
            monkeypatch.setattr(node.markers, "_catch_up", nobody_says)
            assert await node.markers.send([decided], 5.0, in_office) == [{("t", 0): MarkerResult.NOT_LEADER}]
            assert leader.log_state.transactions.open_of(PRODUCER) is not None
            monkeypatch.setattr(node.markers, "_catch_up", catch_up)
            # What raft0's leader says settles it: the next marker asks nobody.
            await node.markers.send([decided._replace(partitions=())], 5.0, in_office)
        monkeypatch.setattr(node.markers, "_catch_up", nobody_says)
        node.markers.expect_tables(node.controller.applied_index)
        await end(node, 1)
        assert asked == [5.0, 5.0]

    with_brokers(tmp_path, test)
