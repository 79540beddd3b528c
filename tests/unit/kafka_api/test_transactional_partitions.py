"""Transactional batches at a broker: who is asked, what is refused, what readers of both levels see."""

import asyncio

import pytest
from wire_client import PRODUCE, broker_in, fetch_request, in_office, produce_request

from cluster.errors import ControllerUnavailableError
from cluster.transactions.admission import Admission
from cluster.transactions.marker_writer import EndingTransaction, MarkerResult, WriteMarkersRequest
from cluster.transactions.markers import DecidedTransaction
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DescribeProducersRequest, ListOffsetsRequest
from kafka_api.transactions import coordinator as transactions
from kafka_api.transactions.certain_level import NO_TRANSACTIONS
from model.control_batch import NO_PREPARE, Marker, MarkerType, Prepare, decode_marker, encode_marker
from model.ids import ConsistencyLevel, Index, Offset
from raft.replicate_entries_stm import ReplicateEntriesStm
from storage.errors import OpenFilesError
from tests.feature_levels import LIVING
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.model.record_batches import TRANSACTIONAL, build_batch

PRODUCER, ID = 1000, "sink"
LATEST, MAX_TIMESTAMP = -1, -3
# The first version of Produce whose answers have words.
WITH_MESSAGES = 8


class Coordinator:
    """Says what it is told to, and keeps what it was asked."""

    def __init__(self):
        self.answer = Admission.YES
        self.asked = []
        self.before_answer = lambda: None

    async def ask(self, transactional_id, producer_id, epoch, partitions, is_add, deadline):
        self.asked.append((transactional_id, producer_id, epoch, list(partitions), is_add))
        self.before_answer()
        return [self.answer] * len(partitions)


def batch(first, *values, epoch=0, producer=PRODUCER, attributes=TRANSACTIONAL, **fields):
    values = values or (b"v",)
    return build_batch(
        *values, producer_id=producer, producer_epoch=epoch, base_sequence=first, attributes=attributes, **fields
    )


def decided(kind, index, *partitions, epoch=0):
    return DecidedTransaction(PRODUCER, epoch, kind, 5, Prepare(3, index), partitions or (("t", 0),))


def with_broker(tmp_path, monkeypatch, test, partitions=1):
    """Run a test with a broker at level 2, a topic, and a coordinator that says yes."""
    monkeypatch.setattr(transactions, "transactions_level", lambda node: 2)

    async def body():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", partitions)
            coordinator = broker.node.admissions = Coordinator()
            await test(broker, client, coordinator)

    run(body)


async def request(client, *batches, version=PRODUCE, **fields):
    """Return the answer to a request with a transactional id."""
    return await client.call(ApiKey.PRODUCE, version, produce_request("t", *batches, transactional_id=ID, **fields))


async def send(client, *batches, version=PRODUCE, **fields):
    """Return the codes of the partitions, in their order."""
    results = (await request(client, *batches, version=version, **fields)).responses[0].partition_responses
    return [each.error_code for each in sorted(results, key=lambda each: each.index)]


async def end(broker, kind, index, epoch=0):
    (results,) = await broker.node.markers.send([decided(kind, index, epoch=epoch)], 5.0, in_office)
    return results[("t", 0)]


async def read(client, isolation, offset=0):
    return await client.fetch("t", offset, isolation_level=isolation)


def sizes(result):
    return len(b"".join(bytes(each) for each in result.records) if isinstance(result.records, list) else result.records)


# -- both levels --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(MarkerType))
def test_readers_at_read_committed_wait_for_the_end_of_a_transaction(tmp_path, monkeypatch, kind):
    async def test(broker, client, coordinator):
        assert await send(client, build_batch(b"before")) == [0]
        assert await send(client, batch(0, b"a", b"b")) == [0]
        assert await send(client, build_batch(b"behind")) == [0]
        uncommitted, committed = await read(client, 0), await read(client, 1)
        assert (uncommitted.high_watermark, uncommitted.last_stable_offset) == (4, 1)
        assert (committed.high_watermark, committed.last_stable_offset) == (4, 1)
        assert 0 < sizes(committed) < sizes(uncommitted)
        assert (uncommitted.aborted_transactions, committed.aborted_transactions) == (None, [])
        assert sizes(await read(client, 1, offset=1)) == 0
        assert await end(broker, kind, 1) is MarkerResult.DONE
        uncommitted, committed = await read(client, 0), await read(client, 1)
        assert (committed.high_watermark, committed.last_stable_offset) == (5, 5)
        assert sizes(committed) == sizes(uncommitted)

    with_broker(tmp_path, monkeypatch, test)


def test_a_read_committed_fetch_waits_for_what_is_stable(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        reader = await broker.client()
        request = fetch_request("t", 0, max_wait_ms=20_000, isolation_level=1)
        waiting = asyncio.ensure_future(reader.call(ApiKey.FETCH, 12, request))
        assert await send(client, batch(1)) == [0]
        assert not waiting.done()
        await end(broker, MarkerType.COMMIT, 1)
        result = (await waiting).responses[0].partitions[0]
        assert (result.error_code, result.last_stable_offset) == (0, 3)
        assert sizes(result) > 0

    with_broker(tmp_path, monkeypatch, test)


async def list_at(client, timestamp, isolation):
    asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    topics = [ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[asked])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
    result = (await client.call(ApiKey.LIST_OFFSETS, 9, request)).topics[0].partitions[0]
    assert result.error_code == 0
    return result.offset


def test_list_offsets_at_read_committed_ends_at_the_last_stable_offset(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        now = broker.node.env.wall_clock.now_ms()
        assert await send(client, build_batch(b"x", timestamps=[now - 10])) == [0]
        assert await send(client, batch(0, timestamps=[now])) == [0]
        told = [[await list_at(client, at, level) for at in (LATEST, now, MAX_TIMESTAMP)] for level in (0, 1)]
        assert told == [[2, 1, 1], [1, -1, 0]]
        await end(broker, MarkerType.COMMIT, 1)
        assert await list_at(client, now, 1) == 1
        assert await list_at(client, LATEST, 1) == 3

    with_broker(tmp_path, monkeypatch, test)


def test_a_leader_whose_state_is_ahead_of_its_log_serves_no_read_committed_reader(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        broker.partition("t").log_state.restored_index = Index(1000)
        result = await read(client, 1)
        assert (result.error_code, result.last_stable_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        result = await read(client, 0)
        assert (result.error_code, result.high_watermark, result.last_stable_offset) == (0, 1, -1)
        asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=LATEST)
        topics = [ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[asked])]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=topics)
        listed = (await client.call(ApiKey.LIST_OFFSETS, 9, request)).topics[0].partitions[0]
        assert listed.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_broker(tmp_path, monkeypatch, test)


def test_a_described_producer_names_what_it_has_open(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        async def described():
            topic = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])
            answer = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics=[topic]))
            (found,) = answer.topics[0].partitions[0].active_producers
            return found.producer_epoch, found.last_sequence, found.coordinator_epoch, found.current_txn_start_offset

        await send(client, build_batch(b"before"))
        await send(client, batch(0, b"a", b"b"))
        assert await described() == (0, 1, -1, 1)
        await end(broker, MarkerType.COMMIT, 1, epoch=1)
        assert await described() == (1, -1, 5, -1)

    with_broker(tmp_path, monkeypatch, test)


# -- admission ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "is_add"), [(11, False), (12, True)])
def test_one_question_is_asked_for_all_partitions_that_a_request_opens(tmp_path, monkeypatch, version, is_add):
    async def test(broker, client, coordinator):
        assert await send(client, batch(0), partition=1, version=version) == [0]
        assert await send(client, batch(0), batch(1), batch(0), version=version) == [0, 0, 0]
        assert await send(client, batch(1), batch(2), batch(1), version=version) == [0, 0, 0]
        # A retry of a batch that is there.
        assert await send(client, batch(0), version=version) == [0]
        assert coordinator.asked == [
            (ID, PRODUCER, 0, [("t", 1)], is_add),
            (ID, PRODUCER, 0, [("t", 0), ("t", 2)], is_add),
        ]

    with_broker(tmp_path, monkeypatch, test, partitions=3)


SAYS = [
    (Admission.AWAY, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
    (Admission.BUSY, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
    (Admission.NOT_IN_TRANSACTION, 10, ErrorCode.INVALID_TXN_STATE),
    (Admission.NOT_IN_TRANSACTION, 11, ErrorCode.TRANSACTION_ABORTABLE),
    (Admission.OLD_EPOCH, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
    (Admission.UNKNOWN_ID, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
]


@pytest.mark.parametrize(("answer", "version", "code"), SAYS)
def test_a_batch_that_the_coordinator_does_not_admit_has_its_code_by_version(
    tmp_path, monkeypatch, answer, version, code
):
    async def test(broker, client, coordinator):
        coordinator.answer = answer
        assert await send(client, batch(0), version=version) == [code]
        assert broker.partition("t").end_offset == 0
        coordinator.answer = Admission.YES
        assert await send(client, batch(0), version=version) == [0]

    with_broker(tmp_path, monkeypatch, test)


def test_a_broker_without_a_coordinator_asks_the_producer_to_come_again(tmp_path, monkeypatch):
    monkeypatch.setattr(transactions, "transactions_level", lambda node: 1)

    async def test():
        # At level 0 nobody has begun to coordinate.
        async with broker_in(tmp_path, features=LIVING) as broker:
            client = await broker.client()
            await client.create_topic("t")
            assert await send(client, batch(0)) == [ErrorCode.NOT_ENOUGH_REPLICAS]

    run(test)


def test_a_transactional_batch_without_a_transactional_id_is_refused_as_in_kafka(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        for level in (2, 0):
            monkeypatch.setattr(transactions, "transactions_level", lambda node, level=level: level)
            result = await client.produce("t", batch(0), version=WITH_MESSAGES)
            assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            # At both levels that is what is wrong.
            assert "a transactional batch needs the transactional.id of its producer" in result.error_message
        assert coordinator.asked == []

    with_broker(tmp_path, monkeypatch, test)


def test_a_plain_batch_inside_a_transaction_is_refused(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        assert await send(client, batch(1, attributes=0)) == [ErrorCode.INVALID_TXN_STATE]
        await end(broker, MarkerType.COMMIT, 1)
        assert await send(client, batch(1, attributes=0)) == [0]

    with_broker(tmp_path, monkeypatch, test)


def test_at_level_0_a_transactional_request_is_refused_as_before(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        monkeypatch.setattr(transactions, "transactions_level", lambda node: 0)
        answer = await request(client, batch(0), version=WITH_MESSAGES)
        (result,) = answer.responses[0].partition_responses
        assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert result.error_message == NO_TRANSACTIONS
        assert "`raftka cluster features upgrade`" in NO_TRANSACTIONS
        assert coordinator.asked == []

    with_broker(tmp_path, monkeypatch, test)


# -- schedules of the design --------------------------------------------------------------------------------------


def test_a_guard_that_changes_once_is_asked_for_again(tmp_path, monkeypatch):
    """Schedule 4: a marker comes while the coordinator answers."""

    async def test(broker, client, coordinator):
        fences = broker.partition("t").log_state.fences
        coordinator.before_answer = lambda: len(coordinator.asked) == 1 and fences.fence(PRODUCER, now=0.0)
        assert await send(client, batch(0)) == [0]
        assert len(coordinator.asked) == 2

    with_broker(tmp_path, monkeypatch, test)


def test_a_batch_whose_guard_changes_twice_is_not_appended_and_comes_again(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        fences = broker.partition("t").log_state.fences
        coordinator.before_answer = lambda: fences.fence(PRODUCER, now=0.0)
        first = client.send(ApiKey.PRODUCE, PRODUCE, produce_request("t", batch(0), transactional_id=ID))
        behind = client.send(ApiKey.PRODUCE, PRODUCE, produce_request("t", batch(1), transactional_id=ID))
        answers = dict([await client.receive(), await client.receive()])
        codes = [answers[each].responses[0].partition_responses[0].error_code for each in (first, behind)]
        # What was behind it shares its fate, and is not called out of order.
        assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
        assert len(coordinator.asked) == 2
        assert broker.partition("t").end_offset == 0

    with_broker(tmp_path, monkeypatch, test)


def test_a_marker_that_finds_nothing_open_appends_nothing_and_refuses_the_batch_that_was_admitted(
    tmp_path, monkeypatch
):
    async def test(broker, client, coordinator):
        partition = broker.partition("t")
        guard = partition.log_state.fences.guard(PRODUCER)
        assert await end(broker, MarkerType.ABORT, 1) is MarkerResult.DONE
        assert partition.end_offset == 0
        assert partition.log_state.fences.guard(PRODUCER) != guard

    with_broker(tmp_path, monkeypatch, test)


def test_a_resent_marker_does_not_end_the_next_transaction(tmp_path, monkeypatch):
    """Schedule 5: both have the same epoch, and the decision tells them apart."""

    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        assert await end(broker, MarkerType.COMMIT, 1) is MarkerResult.DONE
        assert await send(client, batch(1)) == [0]
        assert await end(broker, MarkerType.COMMIT, 1) is MarkerResult.DONE
        state = broker.partition("t").log_state
        assert state.transactions.open_of(PRODUCER).first_offset == 2
        assert await end(broker, MarkerType.ABORT, 2) is MarkerResult.DONE
        assert state.transactions.open_of(PRODUCER) is None

    with_broker(tmp_path, monkeypatch, test)


def test_a_resent_marker_that_found_nothing_open_does_not_end_the_next_transaction(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        assert await end(broker, MarkerType.COMMIT, 1) is MarkerResult.DONE
        assert await send(client, batch(0)) == [0]
        assert await end(broker, MarkerType.COMMIT, 1) is MarkerResult.DONE
        assert broker.partition("t").log_state.transactions.open_of(PRODUCER) is not None

    with_broker(tmp_path, monkeypatch, test)


def test_a_marker_of_another_term_is_refused(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        leader = broker.node.leadership.leader_of

        def of_a_former_term(group):
            return leader(group)._replace(term=leader(group).term - 1)

        monkeypatch.setattr(broker.node.leadership, "leader_of", of_a_former_term)
        assert await end(broker, MarkerType.COMMIT, 1) is MarkerResult.NOT_LEADER

    with_broker(tmp_path, monkeypatch, test)


def test_a_marker_is_built_anew_if_another_transaction_begins_before_its_place(tmp_path, monkeypatch):
    """Schedule 7: a batch gets its place between the marker's build and its own."""

    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        partition = broker.partition("t")
        write = partition.write_marker

        def write_late(marker, term, deadline):
            monkeypatch.setattr(partition, "write_marker", write)
            # The marker of another copy, and the next transaction, come first.
            other = Marker(PRODUCER, 0, MarkerType.COMMIT, 5, 0, Prepare(2, 9))
            write(encode_marker(other, 0), term, deadline)
            guard = partition.log_state.fences.guard(PRODUCER)
            level = ConsistencyLevel.QUORUM_ACK
            partition.produce(bytearray(batch(1)), 1, level, deadline, term, guard=guard, is_durable=True)
            return write(marker, term, deadline)

        monkeypatch.setattr(partition, "write_marker", write_late)
        assert await end(broker, MarkerType.COMMIT, 1) is MarkerResult.DONE
        assert partition.log_state.transactions.open_of(PRODUCER) is None
        assert partition.end_offset == 4
        # Readers leave out what its row says.
        anew = decode_marker((await partition.fetch(Offset(3), 1000))[0])
        assert (anew.first_offset, anew.prepare) == (2, Prepare(3, 1))

    with_broker(tmp_path, monkeypatch, test)


def test_an_administrators_marker_that_comes_behind_one_of_a_later_epoch_finds_nothing_open(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        partition = broker.partition("t")
        write = partition.write_marker

        def write_late(marker, term, deadline):
            monkeypatch.setattr(partition, "write_marker", write)
            other = Marker(PRODUCER, 1, MarkerType.ABORT, 5, 0, Prepare(2, 9))
            write(encode_marker(other, 0), term, deadline)
            return write(marker, term, deadline)

        monkeypatch.setattr(partition, "write_marker", write_late)
        ending = DecidedTransaction(PRODUCER, 0, MarkerType.ABORT, 5, NO_PREPARE, (("t", 0),))
        (results,) = await broker.node.markers.send([ending], 5.0, in_office)
        assert results[("t", 0)] is MarkerResult.NOTHING_OPEN
        assert partition.end_offset == 2

    with_broker(tmp_path, monkeypatch, test)


def hold_next_append(monkeypatch):
    """The next append ends once `goes_on` is set, and is refused."""
    append, goes_on = ReplicateEntriesStm.apply, asyncio.Event()

    async def refused(entries):
        monkeypatch.setattr(ReplicateEntriesStm, "apply", append)
        await goes_on.wait()
        raise OpenFilesError("no descriptor is left")

    monkeypatch.setattr(ReplicateEntriesStm, "apply", refused)
    return goes_on


@pytest.mark.parametrize("first", [Prepare(3, 1), NO_PREPARE], ids=["another copy", "an administrator"])
def test_a_marker_relies_on_no_marker_that_the_disk_refuses_later(tmp_path, monkeypatch, first):
    """A leader without followers takes the refused entry back and stays in its term."""

    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        partition = broker.partition("t")
        state = partition.log_state

        def write(prepare):
            ending = EndingTransaction(PRODUCER, 0, False, 5, *prepare, [(partition.group, partition.leader_epoch)])
            return asyncio.ensure_future(broker.node.markers.writer.write(WriteMarkersRequest([ending], 10.0)))

        goes_on = hold_next_append(monkeypatch)
        refused = write(first)
        await until(lambda: state.transactions.open_of(PRODUCER) is None)
        second = write(Prepare(3, 1))
        # So many steps are enough for an answer that waits for nothing.
        for _ in range(50):
            await asyncio.sleep(0)
        goes_on.set()
        assert (await refused).results == [[MarkerResult.FAILED]]
        assert state.transactions.open_of(PRODUCER) is not None
        # This one gets the index of the marker that is gone.
        assert await send(client, build_batch(b"v")) == [0]
        assert (await second).results == [[MarkerResult.DONE]]
        assert state.transactions.open_of(PRODUCER) is None
        assert state.last_prepare(PRODUCER)[0] == Prepare(3, 1)

    with_broker(tmp_path, monkeypatch, test)


def test_a_marker_of_a_partition_that_does_not_exist_is_done(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        unknown = decided(MarkerType.COMMIT, 1, ("gone", 0), ("t", 7))
        (results,) = await broker.node.markers.send([unknown], 5.0, in_office)
        assert set(results.values()) == {MarkerResult.DONE}

    with_broker(tmp_path, monkeypatch, test)


def test_a_marker_of_an_unknown_topic_is_not_done_while_nobody_says_how_old_the_table_is(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        async def catch_up(timeout):
            raise ControllerUnavailableError("raft0 has no leader")

        monkeypatch.setattr(broker.node.markers, "_catch_up", catch_up)
        (results,) = await broker.node.markers.send([decided(MarkerType.COMMIT, 1, ("gone", 0))], 5.0, in_office)
        assert set(results.values()) == {MarkerResult.NOT_LEADER}

    with_broker(tmp_path, monkeypatch, test)


def test_a_coordinator_looks_leaders_up_before_its_office_is_confirmed_and_sends_behind_that(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        steps = []
        look_up, write = broker.node.leadership.leader_of, broker.node.markers.writer.write

        def looked_up(group):
            steps.append("look-up")
            return look_up(group)

        async def deposed():
            steps.append("confirm")
            return False

        async def confirmed():
            steps.append("confirm")
            return True

        async def written(request):
            steps.append("write")
            return await write(request)

        monkeypatch.setattr(broker.node.leadership, "leader_of", looked_up)
        monkeypatch.setattr(broker.node.markers.writer, "write", written)
        (results,) = await broker.node.markers.send([decided(MarkerType.COMMIT, 1)], 5.0, deposed)
        assert (steps, results[("t", 0)]) == (["look-up", "confirm"], MarkerResult.NOT_LEADER)
        steps.clear()
        (results,) = await broker.node.markers.send([decided(MarkerType.COMMIT, 1)], 5.0, confirmed)
        assert (steps, results[("t", 0)]) == (["look-up", "confirm", "write"], MarkerResult.DONE)

    with_broker(tmp_path, monkeypatch, test)


def test_an_administrators_marker_ends_exactly_the_transaction_of_its_epoch(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        async def abort(epoch):
            ending = DecidedTransaction(PRODUCER, epoch, MarkerType.ABORT, 5, NO_PREPARE, (("t", 0),))
            return (await broker.node.markers.send([ending], 5.0, in_office))[0][("t", 0)]

        assert await abort(0) is MarkerResult.NOTHING_OPEN
        assert await send(client, batch(0)) == [0]
        assert await abort(1) is MarkerResult.NOTHING_OPEN
        assert await abort(0) is MarkerResult.DONE
        assert await abort(0) is MarkerResult.NOTHING_OPEN
        # It is no decision of a coordinator: the next one of those is not compared with it.
        assert broker.partition("t").log_state.last_prepare(PRODUCER)[0] == NO_PREPARE

    with_broker(tmp_path, monkeypatch, test)


def test_markers_of_many_transactions_travel_in_messages_of_at_most_64(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        many = [
            DecidedTransaction(number, 0, MarkerType.COMMIT, 1, Prepare(1, 1), (("t", 0), ("t", 1)))
            for number in range(150)
        ]
        sizes_ = []
        write = broker.node.markers.writer.write

        async def counted(request):
            sizes_.append(len(request.transactions))
            return await write(request)

        monkeypatch.setattr(broker.node.markers.writer, "write", counted)
        results = await broker.node.markers.send(many, 5.0, in_office)
        assert sorted(sizes_) == [22, 64, 64]
        assert all(set(each.values()) == {MarkerResult.DONE} for each in results)

    with_broker(tmp_path, monkeypatch, test, partitions=2)


def test_a_partition_that_hangs_holds_up_no_marker_of_its_message(tmp_path, monkeypatch):
    """Its message is answered long before the sender gives up."""

    async def test(broker, client, coordinator):
        monkeypatch.setattr("cluster.transactions.marker_writer._PATIENCE", 0.01)
        hanging, well = broker.partition("t"), broker.partition("t", 1)
        ends = broker.node.markers.writer._end

        async def end(partition, *arguments):
            if partition is hanging:
                await asyncio.Event().wait()
            return await ends(partition, *arguments)

        monkeypatch.setattr(broker.node.markers.writer, "_end", end)
        places = [(each.group, each.leader_epoch) for each in (hanging, well)]
        ending = EndingTransaction(PRODUCER, 0, True, 5, 3, 1, places)
        reply = await broker.node.markers.writer.write(WriteMarkersRequest([ending], 3600.0))
        assert reply.results == [[MarkerResult.FAILED, MarkerResult.DONE]]
        # Without one that is settled there is nothing to answer before the time is over.
        alone = WriteMarkersRequest([EndingTransaction(PRODUCER, 0, True, 5, 3, 1, places[:1])], 0.03)
        assert (await broker.node.markers.writer.write(alone)).results == [[MarkerResult.FAILED]]

    with_broker(tmp_path, monkeypatch, test, partitions=2)


def test_a_restarted_broker_knows_what_is_open(tmp_path, monkeypatch):
    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        await broker.cluster.stop(1)
        await broker.cluster.start(1)
        await until(lambda: broker.cluster.find_leader("t"))
        partition = broker.cluster.leader_of("t")
        assert partition.last_stable_offset == 0
        assert partition.high_watermark == 1

    with_broker(tmp_path, monkeypatch, test)
