"""Whole transactions of real requests at one broker: both protocols, their readers, fences and time-outs."""

import asyncio
import struct
from dataclasses import replace

import pytest
from transaction_calls import QUICK, Producer, found, kept_of, markers, readable, with_transactions

from cluster.admin_messages import UpdateFeatureRequest
from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.state_bounds import StateOptions
from cluster.transactions.records import StoredTransaction, TransactionState
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC
from kafka_api.handlers import transactions
from kafka_api.handlers.registry import ADVERTISED_WITH_TRANSACTIONS, OF_TRANSACTIONS
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ApiVersionsRequest, DescribeTransactionsRequest, ListTransactionsRequest
from kafka_api.transactions import kept_transactions, transaction
from kafka_api.transactions.held_transaction import WriteFailure
from kafka_api.transactions.transaction_steps import GIVEN_EPOCH_MAX
from model.control_batch import MarkerType
from model.features import TRANSACTION_VERSION
from tests.feature_levels import LIVING
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.kafka_api.groups.group_calls import Groups
from tests.unit.kafka_api.wire_client import broker_in, stuck_disk

OUTCOMES = [True, False]


@pytest.mark.parametrize("is_commit", OUTCOMES)
@with_transactions()
async def test_a_transaction_that_ends_is_seen_as_a_whole(broker, producer, is_commit):
    await producer.init()
    assert (producer.epoch, await producer.state()) == (0, "Empty")
    assert await producer.send(b"a", b"b") is ErrorCode.NONE
    assert await producer.send(b"c", partition=2) is ErrorCode.NONE
    assert await readable(producer.client) == (2, 0)
    described = await producer.describe()
    assert described.transaction_state == "Ongoing"
    assert [(each.topic, each.partitions) for each in described.topics] == [("t", [0, 2])]
    assert await producer.end(is_commit) is ErrorCode.NONE
    # KIP-890: each end raises the epoch.
    assert producer.epoch == 1
    await producer.until_state("CompleteCommit" if is_commit else "CompleteAbort")
    assert await readable(producer.client) == (3, 3)
    assert await readable(producer.client, partition=2) == (2, 2)
    assert await markers(producer.client) == [(MarkerType.COMMIT if is_commit else MarkerType.ABORT, 1)]
    assert await producer.send(b"d") is ErrorCode.NONE
    assert await producer.end() is ErrorCode.NONE


@pytest.mark.parametrize("is_commit", OUTCOMES)
@with_transactions(level=1)
async def test_a_client_that_adds_partitions_itself_keeps_its_epoch(broker, producer, is_commit):
    await producer.init(version=2)
    for first in (0, 3):
        assert await producer.send(b"a", b"b") is ErrorCode.NONE
        assert await readable(producer.client) == (first + 2, first)
        assert await producer.end(is_commit) is ErrorCode.NONE
        await producer.init(version=4, known=(producer.producer_id, producer.epoch))
        assert await readable(producer.client) == (first + 3, first + 3)
    kind = MarkerType.COMMIT if is_commit else MarkerType.ABORT
    assert await markers(producer.client) == [(kind, 0), (kind, 1)]
    assert producer.epoch == 2


@with_transactions(level=1)
async def test_a_batch_of_a_partition_that_was_not_added_is_refused(broker, producer):
    await producer.init()
    assert await producer.add(1) is ErrorCode.NONE
    # A client of the older protocol that has forgotten to add the partition.
    assert await producer.produce(0) is ErrorCode.TRANSACTION_ABORTABLE
    assert await producer.produce(1) is ErrorCode.NONE


@pytest.mark.parametrize("level", [1, 2])
def test_a_new_producer_of_an_id_aborts_and_fences_the_former_one(tmp_path, level):
    @with_transactions(level=level)
    async def test(broker, producer):
        await producer.init()
        assert await producer.send() is ErrorCode.NONE
        second = Producer(await broker.client(), is_raising=level == 2)
        assert (await second.init_once()).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        await second.init()
        assert second.producer_id == producer.producer_id
        assert second.epoch == producer.epoch + 2
        assert await readable(producer.client) == (2, 2)
        assert (await markers(producer.client))[0][0] is MarkerType.ABORT
        assert await producer.add() is ErrorCode.PRODUCER_FENCED
        assert await producer.add(version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await producer.end() is ErrorCode.PRODUCER_FENCED
        assert await producer.end(version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
        producer.is_raising = True
        assert await producer.send() is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await second.send() is ErrorCode.NONE
        assert await second.end() is ErrorCode.NONE

    test(tmp_path)


@pytest.mark.parametrize("level", [1, 2])
def test_a_transaction_that_is_open_for_too_long_is_aborted_with_a_new_epoch(tmp_path, monkeypatch, level):
    monkeypatch.setattr(transaction, "_OFFICE_MS", 0)

    @with_transactions(level=level)
    async def test(broker, producer):
        await producer.init(timeout_ms=100)
        assert await producer.send() is ErrorCode.NONE
        assert await producer.until_state("CompleteAbort") == "CompleteAbort"
        assert await markers(producer.client) == [(MarkerType.ABORT, 1)]
        assert await readable(producer.client) == (2, 2)
        assert await producer.end(is_commit=True) is ErrorCode.PRODUCER_FENCED
        if level == 2:
            # Its producer learns the new epoch by an abort, and goes on.
            assert await producer.end(is_commit=False) is ErrorCode.NONE
            assert producer.epoch == 1
            assert await producer.send() is ErrorCode.NONE

    test(tmp_path)


@with_transactions()
async def test_a_transaction_without_a_record_is_aborted_at_once(broker, producer):
    await producer.init()
    assert await producer.end(is_commit=False) is ErrorCode.NONE
    assert producer.epoch == 1
    await producer.until_state("CompleteAbort")


def hold_markers(broker):
    """Send no marker until the event that is returned is set."""
    markers, hold = kept_of(broker).markers, asyncio.Event()
    send = markers._send

    async def held(decided, timeout):
        await hold.wait()
        return await send(decided, timeout)

    markers._send = held
    return hold


@with_transactions()
async def test_a_coordinator_sends_no_marker_while_nobody_confirms_its_office(broker, producer):
    kept, sent, asked = kept_of(broker), [], []
    confirm, write = kept.confirm, broker.node.markers.writer.write

    async def unconfirmed():
        asked.append("confirm")
        return ErrorCode.NOT_COORDINATOR

    async def written(request):
        sent.append(request)
        return await write(request)

    broker.node.markers.writer.write = written
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    kept.confirm = unconfirmed
    assert await producer.end() is ErrorCode.NONE
    await until(lambda: len(asked) > 1)
    assert sent == []
    kept.confirm = confirm
    await producer.until_state("CompleteCommit")
    assert len(sent) == 1


@with_transactions()
async def test_machines_that_are_dropped_do_not_stay_in_memory_until_their_time_out(broker, producer):
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    kept = kept_of(broker)
    (open_one,) = [held for _, _, held in kept.timeouts._deadlines]
    for number in range(1000):
        held = kept._hold(f"id{number}")
        kept.timeouts.arm(held, kept.now_ms() + 900_000)
        kept._drop(held)
    assert len(kept.timeouts._deadlines) < 200
    assert open_one in [held for _, _, held in kept.timeouts._deadlines]


@with_transactions()
async def test_requests_that_wait_for_room_do_not_all_look_for_it(broker, producer, monkeypatch):
    await producer.init()
    kept, looks = kept_of(broker), []
    ids = kept.state.table.transactional_ids

    def counted():
        looks.append("look")
        return ids()

    # The one that looks lets the others go on meanwhile.
    monkeypatch.setattr(kept_transactions, "_IDS_PER_STEP", 1)
    monkeypatch.setattr(kept.state.table, "transactional_ids", counted)
    assert await asyncio.gather(*(kept._make_room() for _ in range(5))) == [False] * 5
    assert looks == ["look"]


@with_transactions()
async def test_requests_that_meet_a_decision_come_again(broker, producer):
    hold = hold_markers(broker)
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    before = producer.epoch
    assert await producer.end() is ErrorCode.NONE
    assert await producer.state() == "PrepareCommit"
    assert await readable(producer.client) == (1, 0)
    assert await producer.add() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert await producer.send() is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await producer.init_once()).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert (await producer.end_once(epoch=before)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    hold.set()
    await producer.until_state("CompleteCommit")
    assert await readable(producer.client) == (2, 2)


@with_transactions(replace(QUICK, busy_wait_ms=20_000))
async def test_a_request_waits_for_another_change_and_is_answered_after_it(broker, producer):
    hold = hold_markers(broker)
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    assert await producer.end() is ErrorCode.NONE
    waiting = asyncio.ensure_future(Producer(await broker.client()).init_once())
    await until(lambda: kept_of(broker)._held["sink"].users)
    hold.set()
    assert (await waiting).error_code == 0


@with_transactions(replace(QUICK, write_timeout_ms=200))
async def test_a_decision_that_is_not_committed_in_time_stays_under_way(broker, producer):
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    other = await broker.client()
    async with stuck_disk(broker):
        assert (await producer.end_once()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await producer.end_once()).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert (await producer.end_once(is_commit=False)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert (await Producer(other).init_once()).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert await producer.state() == "Ongoing"
    await producer.until_state("CompleteCommit")
    # The answer was lost: it is given again.
    assert await producer.end() is ErrorCode.NONE
    assert producer.epoch == 1
    assert await markers(producer.client) == [(MarkerType.COMMIT, 1)]


@with_transactions()
async def test_a_producer_whose_epochs_are_used_up_goes_on_with_a_new_id(broker, producer):
    last = StoredTransaction(5, GIVEN_EPOCH_MAX, 60_000, TransactionState.EMPTY, frozenset(), kept_of(broker).now_ms())
    old = await found(Producer(producer.client, name="sink2", producer_id=5, epoch=GIVEN_EPOCH_MAX))
    assert not isinstance(await kept_of(broker, "sink2").write("sink2", last), WriteFailure)
    assert await old.send() is ErrorCode.NONE
    assert await old.end() is ErrorCode.NONE
    assert old.producer_id != 5
    assert old.epoch == 0
    await old.until_state("CompleteCommit")
    assert await markers(old.client) == [(MarkerType.COMMIT, GIVEN_EPOCH_MAX + 1)]
    assert await old.send() is ErrorCode.NONE
    assert await old.end() is ErrorCode.NONE


@with_transactions()
async def test_a_time_out_in_the_last_epoch_brings_a_new_id(broker, producer, monkeypatch):
    monkeypatch.setattr(transaction, "_OFFICE_MS", 0)
    last = StoredTransaction(5, GIVEN_EPOCH_MAX, 100, TransactionState.EMPTY, frozenset(), kept_of(broker).now_ms())
    old = await found(Producer(producer.client, name="sink2", producer_id=5, epoch=GIVEN_EPOCH_MAX))
    assert not isinstance(await kept_of(broker, "sink2").write("sink2", last), WriteFailure)
    assert await old.send() is ErrorCode.NONE
    await old.until_state("CompleteAbort")
    described = await old.describe()
    assert described.producer_id != 5
    assert described.producer_epoch == 0
    assert await readable(old.client) == (2, 2)


@with_transactions()
async def test_a_time_out_that_waits_for_a_producer_id_is_counted_once(broker, producer, monkeypatch):
    monkeypatch.setattr(transaction, "_OFFICE_MS", 0)
    kept, asked = kept_of(broker, "sink2"), []
    last = StoredTransaction(5, GIVEN_EPOCH_MAX, 100, TransactionState.EMPTY, frozenset(), kept.now_ms())
    old = await found(Producer(producer.client, name="sink2", producer_id=5, epoch=GIVEN_EPOCH_MAX))
    assert not isinstance(await kept.write("sink2", last), WriteFailure)
    new_producer_id = kept.new_producer_id

    async def given_later():
        asked.append(None)
        return None if len(asked) < 3 else await new_producer_id()

    monkeypatch.setattr(kept, "new_producer_id", given_later)
    assert await old.send() is ErrorCode.NONE
    await old.until_state("CompleteAbort")
    assert len(asked) == 3
    assert broker.server.transactions.counts.timed_out == 1


@with_transactions()
async def test_a_topic_that_is_deleted_holds_up_no_transaction(broker, producer):
    topic_id = await producer.client.create_topic("gone")
    await producer.init()
    assert await producer.send(topic="gone") is ErrorCode.NONE
    assert await producer.send() is ErrorCode.NONE
    await broker.cluster.delete_topic(topic_id)
    assert await producer.end() is ErrorCode.NONE
    await producer.until_state("CompleteCommit")
    assert await readable(producer.client) == (2, 2)


@with_transactions()
async def test_offsets_of_a_group_belong_to_the_transaction(broker, producer):
    await producer.init()
    # Nobody has asked for a group yet: the topic of their offsets is created.
    assert await producer.add_offsets() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    async with asyncio.timeout(10):
        while await producer.add_offsets() is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            await asyncio.sleep(0.01)
    assert [each.topic for each in (await producer.describe()).topics] == [OFFSETS_TOPIC]
    assert await producer.end() is ErrorCode.NONE
    await producer.until_state("CompleteCommit")


# -- ids that nobody uses -----------------------------------------------------------------------------------------


@with_transactions(replace(QUICK, id_expiration_ms=50, expiration_check_interval_ms=20))
async def test_an_id_that_nobody_uses_is_forgotten(broker, producer):
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    busy = await found(Producer(producer.client, name="busy"))
    await busy.init()
    assert await busy.send(partition=1) is ErrorCode.NONE
    assert await producer.end() is ErrorCode.NONE
    async with asyncio.timeout(10):
        while (await producer.describe()).error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            await asyncio.sleep(0.01)
    assert await producer.add() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    # What is open is never forgotten.
    assert await busy.state() == "Ongoing"


_ONE_PARTITION = replace(QUICK, topic_partitions=1)
_TWO_IDS = StateOptions(transactional_ids_max=2)


@with_transactions(_ONE_PARTITION, state=_TWO_IDS)
async def test_a_full_table_refuses_new_ids_and_ends_what_is_open(broker, producer):
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    await Producer(producer.client, name="b").init()
    refused = await Producer(producer.client, name="c").init_once()
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert await producer.end() is ErrorCode.NONE
    await producer.until_state("CompleteCommit")


@with_transactions(replace(_ONE_PARTITION, room_idle_ms=0), state=_TWO_IDS)
async def test_a_full_table_forgets_ids_that_were_not_used_for_long(broker, producer):
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    await Producer(producer.client, name="b").init()
    await Producer(producer.client, name="c").init()
    assert (await producer.describe("b")).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert await producer.state() == "Ongoing"


@with_transactions(_ONE_PARTITION)
async def test_machines_of_ids_that_are_not_used_make_room_for_others(broker, producer, monkeypatch):
    monkeypatch.setattr(kept_transactions, "_HELD_MAX", 3)
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    for number in range(8):
        await Producer(producer.client, name=f"id{number}").init()
        # The table has it by then, as soon as the next one is asked for.
        await asyncio.sleep(0)
    held = kept_of(broker)._held
    assert len(held) <= 4
    assert "sink" in held
    assert await producer.end() is ErrorCode.NONE


@pytest.mark.parametrize("ids_per_step", [1, 200])
@with_transactions(_ONE_PARTITION)
async def test_a_new_coordinator_holds_each_open_transaction_and_no_idle_id(
    broker, producer, monkeypatch, ids_per_step
):
    monkeypatch.setattr(kept_transactions, "_IDS_PER_LOOK", 2)
    monkeypatch.setattr(kept_transactions, "_IDS_PER_STEP", ids_per_step)
    monkeypatch.setattr(kept_transactions, "_HELD_MAX", 1)
    opened = []
    for number in range(7):
        other = await Producer(producer.client, name=f"id{number}").init()
        if number in (1, 2, 6):
            assert await other.send() is ErrorCode.NONE
            opened.append(other)
    ended = await Producer(producer.client, name="ended").init()
    assert await ended.send() is ErrorCode.NONE
    assert await ended.end() is ErrorCode.NONE
    await ended.until_state("CompleteCommit")
    former = kept_of(broker)
    await until(lambda: not former.markers._known)
    # As a new leader begins, with the table of the same replica.
    new = kept_transactions.KeptTransactions(former.partition, former.state, former._means)
    await new.load()
    assert new.is_loaded
    assert list(new._held) == [each.name for each in opened]
    assert sorted(held.transactional_id for _, _, held in new.timeouts._deadlines) == [each.name for each in opened]
    new.end()
    for each in opened:
        assert await each.end() is ErrorCode.NONE


@with_transactions(_ONE_PARTITION)
async def test_a_coordinator_whose_term_ends_while_it_loads_serves_nobody(broker, producer, monkeypatch):
    monkeypatch.setattr(kept_transactions, "_IDS_PER_STEP", 1)
    for number in range(3):
        other = await Producer(producer.client, name=f"id{number}").init()
        assert await other.send() is ErrorCode.NONE
    former = kept_of(broker)
    new = kept_transactions.KeptTransactions(former.partition, former.state, former._means)
    loading = asyncio.create_task(new.load())
    await until(lambda: new._held)
    new.end()
    await loading
    assert not new.is_loaded
    assert not new._held


@with_transactions()
async def test_a_transaction_times_out_though_the_clock_of_its_coordinator_goes_back_by_a_day(
    broker, producer, monkeypatch
):
    monkeypatch.setattr(transaction, "_OFFICE_MS", 100)
    await producer.init(timeout_ms=200)
    assert await producer.send() is ErrorCode.NONE
    clock = broker.node.env.wall_clock
    real = clock.now_ms
    monkeypatch.setattr(type(clock), "now_ms", lambda _: real() - 86_400_000)
    await producer.until_state("CompleteAbort")
    # This id has no machine yet that could have been told.
    later = await found(Producer(producer.client, name="later"))
    await later.init(timeout_ms=200)
    assert await later.send() is ErrorCode.NONE
    await later.until_state("CompleteAbort")


@with_transactions()
async def test_a_start_that_was_being_written_when_the_clock_went_back_counts_as_now(broker, producer):
    await producer.init(timeout_ms=200)
    assert await producer.send() is ErrorCode.NONE
    kept = kept_of(broker)
    (held,) = kept._held.values()
    day_back = kept.now_ms() - 86_400_000
    kept.timeouts._now_ms = lambda: day_back
    kept.changed(held)
    assert held.machine.deadline_ms <= day_back + 10_000


# -- looking ------------------------------------------------------------------------------------------------------


@with_transactions()
async def test_ids_are_listed_by_their_filters(broker, producer):
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    idle = await (await found(Producer(producer.client, name="idle"))).init()
    assert await producer.list() == {"sink": "Ongoing", "idle": "Empty"}
    assert await producer.list(0) == {"sink": "Ongoing", "idle": "Empty"}
    assert await producer.list(state_filters=["Empty"]) == {"idle": "Empty"}
    assert await producer.list(producer_id_filters=[idle.producer_id]) == {"idle": "Empty"}
    assert await producer.list(transactional_id_pattern="i.*e") == {"idle": "Empty"}
    assert await producer.list(1, duration_filter=3_600_000) == {}
    refused = await producer.client.call(
        ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest(transactional_id_pattern="(")
    )
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    await asyncio.sleep(0.01)  # The duration is compared in whole milliseconds.
    assert await producer.list(1, duration_filter=0) == {"sink": "Ongoing"}


@with_transactions()
async def test_more_ids_than_fit_into_an_answer_are_not_listed_in_part(broker, producer, monkeypatch):
    await producer.init()
    await (await found(Producer(producer.client, name="idle"))).init()
    # Room for "sink" and "idle".
    monkeypatch.setattr(transactions, "_LISTED_BYTES_MAX", 2 * transactions._ROW_BYTES + 8)
    assert await producer.list() == {"sink": "Empty", "idle": "Empty"}
    monkeypatch.setattr(transactions, "_LISTED_BYTES_MAX", 2 * transactions._ROW_BYTES + 7)
    refused = await producer.client.call(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest())
    assert (refused.error_code, refused.transaction_states) == (ErrorCode.INVALID_REQUEST, [])
    assert await producer.list(transactional_id_pattern="i.*e") == {"idle": "Empty"}


@with_transactions()
async def test_an_id_that_nobody_has_used_is_not_found(broker, producer):
    assert (await producer.describe()).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert (await producer.describe("")).error_code == ErrorCode.INVALID_REQUEST
    # Nothing is kept of it.
    assert kept_of(broker)._held == {}
    assert await producer.list() == {}


@with_transactions()
async def test_an_administrator_ends_a_transaction_that_hangs(broker, producer):
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    asked = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    other = asked | {"producer_epoch": 3}
    assert await producer.write_marker("t", 0, **other) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.write_markers({"nowhere": [0], "t": [9, 0, 1]}, **asked) == {
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.INVALID_TXN_STATE,
    }
    assert await readable(producer.client) == (2, 2)
    assert await producer.write_marker("t", 0, version=1, **asked) is ErrorCode.INVALID_TXN_STATE
    # The coordinator ends its own transaction all the same, and finds nothing open.
    assert await producer.end() is ErrorCode.NONE
    await producer.until_state("CompleteCommit")
    assert await markers(producer.client) == [(MarkerType.ABORT, 0)]


# -- versions -----------------------------------------------------------------------------------------------------


@with_transactions()
async def test_every_version_of_the_keys_of_transactions_answers(broker, producer):
    told = await producer.client.call(ApiKey.API_VERSIONS, 4, ApiVersionsRequest(client_software_name="test"))
    assert {each.api_key: (each.min_version, each.max_version) for each in told.api_keys} == (
        ADVERTISED_WITH_TRANSACTIONS
    )
    assert [(each.name, each.max_version_level) for each in told.finalized_features][-1] == ("transaction.version", 2)
    await Groups(producer.client).wait_found()
    for version in range(6):
        await producer.init(version=version)
    for version in range(6):
        assert await producer.add(version=version) is ErrorCode.NONE
    for version in range(5):
        assert await producer.add_offsets(version=version) is ErrorCode.NONE
    for version in range(6):
        assert await producer.add(version=3) is ErrorCode.NONE
        assert await producer.end(version=version) is ErrorCode.NONE
        await producer.until_state("CompleteCommit")


@with_transactions()
async def test_a_version_that_is_not_served_ends_the_connection(broker, producer):
    for key, served in OF_TRANSACTIONS.items():
        for version in (-1, served.first_version - 1, served.last_version + 1):
            client = await broker.client()
            client.write(struct.pack(">ihhihB", 11, key, version, 7, -1, 0))
            assert await client.is_closed()


def test_transactions_are_refused_until_the_cluster_uses_them(tmp_path):
    async def test():
        async with broker_in(tmp_path, transactions=QUICK, founded=LIVING) as broker:
            client = await broker.client()
            await client.create_topic("t")
            producer = Producer(client)
            refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            assert (await producer.find()).error_code == refused
            assert (await producer.init_once()).error_code == refused
            assert await producer.send() is refused
            assert broker.node.controller.topics.get(TRANSACTIONS_TOPIC) is None
            await broker.node.admin.update_feature(UpdateFeatureRequest(TRANSACTION_VERSION, 2, False, 10.0, False))
            await (await found(producer)).init()
            assert await producer.send() is ErrorCode.NONE
            assert await producer.end() is ErrorCode.NONE
            await producer.until_state("CompleteCommit")

    run(test)


@with_transactions()
async def test_an_id_is_described_once_however_often_a_request_names_it(broker, producer, monkeypatch):
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    request = DescribeTransactionsRequest(transactional_ids=[producer.name] * 3)
    answer = await producer.client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)
    assert [(each.error_code, each.transactional_id) for each in answer.transaction_states] == [(0, producer.name)]
    monkeypatch.setattr(transactions, "_PARTITIONS_MAX", 0)
    assert (await producer.describe()).error_code == ErrorCode.INVALID_REQUEST
