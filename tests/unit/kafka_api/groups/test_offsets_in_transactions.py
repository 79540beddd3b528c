"""Offsets in transactions on the wire: who may commit them, who is asked, and who sees them when (KIP-447)."""

import functools
from dataclasses import replace

import pytest

from cluster.groups.offsets_topic import OFFSETS_TOPIC, offsets_partition
from cluster.transactions.admission import AddToTransactionReply, Admission
from cluster.transactions.marker_writer import MarkerResult
from cluster.transactions.markers import DecidedTransaction
from kafka_api.groups.options import GroupOptions
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ApiVersionsRequest, DeleteTopicsRequest, DescribeProducersRequest
from kafka_api.transactions import coordinator as transactions
from model.control_batch import MarkerType, Prepare
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.kafka_api.groups.group_calls import QUICK, Groups
from tests.unit.kafka_api.wire_client import broker_in, in_office

PRODUCER = 1000
PARTITION = (OFFSETS_TOPIC, offsets_partition("g", QUICK.topic_partitions))
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


class Coordinator:
    """Says what it is told to, and keeps what it was asked."""

    def __init__(self, broker):
        self.broker = broker
        self.says = Admission.YES
        self.asked = []
        self.before_answer = self._nothing
        self._decisions = 0
        # In the place of this broker's coordinator.
        admissions = broker.node.admissions
        admissions._find, admissions._answer = lambda transactional_id: 1, self._answer

    async def _nothing(self):
        """Let the test do nothing before the answer."""

    async def _answer(self, request):
        self.asked.append(request)
        await self.before_answer()
        return AddToTransactionReply([self.says] * len(request.partitions))

    @property
    def state(self):
        return self.broker.partition(*PARTITION).log_state

    async def end(self, kind=MarkerType.COMMIT, epoch=0):
        self._decisions += 1
        decided = DecidedTransaction(PRODUCER, epoch, kind, 5, Prepare(3, self._decisions), (PARTITION,))
        (results,) = await self.broker.node.markers.send([decided], 5.0, in_office)
        assert results[PARTITION] is MarkerResult.DONE


def in_transactions(options=QUICK, **of_node):
    """Run a test with a broker at level 2, a coordinator of transactions, and a client's view of group "g"."""

    def decorate(test):
        @functools.wraps(test)
        def wrapped(tmp_path, monkeypatch):
            monkeypatch.setattr(transactions, "transactions_level", lambda node: 2)

            async def whole():
                async with broker_in(tmp_path, groups=options, **of_node) as broker:
                    client = await broker.client()
                    await client.create_topic("t", partitions=2)
                    groups = Groups(client)
                    await groups.wait_found()
                    await test(groups, Coordinator(broker))

            run(whole, seconds=60)

        del wrapped.__wrapped__
        return wrapped

    return decorate


# -- who sees what ------------------------------------------------------------------------------------------------


@in_transactions()
async def test_an_offset_of_a_transaction_is_seen_once_the_transaction_is_committed(groups, coordinator):
    before = (0, -1, -1, "")
    for version in range(6):
        assert await groups.txn_commit(version, version=version, metadata="m") == 0
        assert await groups.fetch() == before
        assert await groups.fetch(stable=True) == (UNSTABLE, -1, -1, "")
        await coordinator.end()
        before = (0, version, 3 if version >= 2 else -1, "m")
        for stable in (False, True):
            assert await groups.fetch(stable=stable) == before


@in_transactions()
async def test_an_aborted_transaction_leaves_the_offset_that_was_there(groups, coordinator):
    assert await groups.commit(3) == 0
    assert await groups.txn_commit(5) == 0
    await coordinator.end(MarkerType.ABORT)
    assert await groups.fetch(stable=True) == (0, 3, 3, "")


@in_transactions()
async def test_a_plain_commit_behind_a_pending_offset_stays(groups, coordinator):
    """Schedule 8: pending, then a plain commit, then COMMIT."""
    assert await groups.txn_commit(5) == 0
    assert await groups.commit(9) == 0
    assert (await groups.fetch())[1] == 9
    # As in Kafka: it is stable once the transaction has ended.
    assert (await groups.fetch(stable=True))[0] is UNSTABLE
    await coordinator.end()
    assert (await groups.fetch(stable=True))[1] == 9


@in_transactions()
async def test_only_what_is_pending_is_unstable_in_each_version(groups, coordinator):
    assert await groups.commit(4, partition=1) == 0
    assert await groups.txn_commit(5) == 0
    for version in range(1, 10):
        expected = (UNSTABLE, -1) if version >= 7 else (0, -1)
        assert (await groups.fetch(version=version, stable=version >= 7))[:2] == expected
        assert (await groups.fetch(version=version, partition=1, stable=version >= 7))[:2] == (0, 4)
    # Who asks for everything hears of it, too.
    for version in (7, 8, 9):
        assert (await groups.fetch(version=version, everything=True, stable=True))[0] is UNSTABLE


@in_transactions()
async def test_a_restarted_broker_knows_what_is_pending(groups, coordinator):
    assert await groups.txn_commit(5) == 0
    cluster = coordinator.broker.cluster
    await cluster.stop(1)
    await cluster.start(1)
    await until(lambda: cluster.find_leader(*PARTITION))
    state = cluster.leader_of(*PARTITION).log_state
    await until(lambda: state.is_pending("g"))
    assert state.transactions.open_of(PRODUCER) is not None


# -- who may commit -----------------------------------------------------------------------------------------------


@in_transactions()
async def test_a_member_commits_in_its_own_generation_only(groups, coordinator):
    me, generation = await groups.member(instance="one")
    assert await groups.txn_commit(5, member_id=me, generation=generation, instance="one") == 0
    wrong = {
        ErrorCode.ILLEGAL_GENERATION: {"member_id": me, "generation": generation + 1},
        ErrorCode.UNKNOWN_MEMBER_ID: {"member_id": "stranger", "generation": generation},
        ErrorCode.FENCED_INSTANCE_ID: {"member_id": "stranger", "generation": generation, "instance": "one"},
    }
    for code, who in wrong.items():
        assert await groups.txn_commit(6, **who) is code
    await coordinator.end()
    assert (await groups.fetch())[1] == 5


@in_transactions()
async def test_a_producer_that_knows_no_members_commits_for_a_group_that_has_some_as_in_kafka(groups, coordinator):
    await groups.member()
    assert await groups.commit(4) is ErrorCode.UNKNOWN_MEMBER_ID
    for version in (2, 5):
        assert await groups.txn_commit(5, version=version) == 0


@in_transactions()
async def test_a_member_commits_before_its_assignment_is_known_as_in_kafka(groups, coordinator):
    joined = await groups.join()
    who = {"member_id": joined.member_id, "generation": joined.generation_id}
    assert await groups.commit(4, **who) is ErrorCode.REBALANCE_IN_PROGRESS
    assert await groups.txn_commit(5, **who) == 0


@in_transactions()
async def test_a_member_that_is_replaced_while_the_coordinator_answers_commits_nothing(groups, coordinator):
    me, generation = await groups.member()
    admin = Groups(await coordinator.broker.client())

    async def leave():
        assert await admin.leave(me) == 0

    coordinator.before_answer = leave
    answer = await groups.txn_commit(5, member_id=me, generation=generation)
    assert answer is ErrorCode.UNKNOWN_MEMBER_ID
    assert not coordinator.state.is_pending("g")


@in_transactions()
async def test_a_group_must_be_known_for_a_generation_and_have_a_name(groups, coordinator):
    assert await groups.txn_commit(5, member_id="a", generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert await Groups(groups.client, "").txn_commit(5) is ErrorCode.INVALID_GROUP_ID
    assert coordinator.asked == []


# -- admission ----------------------------------------------------------------------------------------------------


@in_transactions()
async def test_the_coordinator_is_asked_once_in_a_transaction(groups, coordinator):
    for version, is_add in ((4, False), (5, True)):
        coordinator.asked.clear()
        assert await groups.txn_commit(5, version=version) == 0
        assert await groups.txn_commit(6, version=version, partition=1) == 0
        (asked,) = coordinator.asked
        assert (asked.transactional_id, asked.producer_id, asked.epoch) == ("sink", PRODUCER, 0)
        assert (asked.partitions, asked.is_add) == ([PARTITION], is_add)
        await coordinator.end()


SAYS = [
    (Admission.AWAY, 5, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (Admission.BUSY, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    (Admission.NOT_IN_TRANSACTION, 3, ErrorCode.INVALID_TXN_STATE),
    (Admission.NOT_IN_TRANSACTION, 4, ErrorCode.TRANSACTION_ABORTABLE),
    (Admission.OLD_EPOCH, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
    (Admission.UNKNOWN_ID, 5, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
]


@in_transactions()
async def test_offsets_that_the_coordinator_does_not_admit_have_their_code_by_version(groups, coordinator):
    for says, version, code in SAYS:
        coordinator.says = says
        assert await groups.txn_commit(5, version=version) is code
    assert coordinator.broker.partition(*PARTITION).end_offset == 0
    coordinator.says = Admission.YES
    assert await groups.txn_commit(5) == 0


@in_transactions()
async def test_a_guard_that_changes_once_is_asked_for_again(groups, coordinator):
    """Schedule 4: a marker comes while the coordinator answers."""

    async def end_once():
        if len(coordinator.asked) == 1:
            await coordinator.end()

    coordinator.before_answer = end_once
    assert await groups.txn_commit(5) == 0
    assert len(coordinator.asked) == 2
    coordinator.before_answer = coordinator.end
    await coordinator.end()
    assert await groups.txn_commit(6) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(coordinator.asked) == 4
    assert not coordinator.state.is_pending("g")
    # Nothing of it is in doubt: the group can be deleted.
    assert await groups.delete() == 0


@in_transactions()
async def test_a_fenced_producer_commits_no_offset(groups, coordinator):
    assert await groups.txn_commit(5) == 0
    await coordinator.end(MarkerType.ABORT, epoch=1)
    assert await groups.txn_commit(6) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await groups.txn_commit(7, epoch=1) == 0


@in_transactions()
async def test_offsets_that_cannot_be_committed_are_refused_and_the_others_are_not(groups, coordinator):
    request = groups.txn_request(5)
    for other in (groups.txn_request(1, topic="unknown"), groups.txn_request(1, partition=1, metadata="x" * 4097)):
        request.topics += other.topics
    answer = await groups.call(ApiKey.TXN_OFFSET_COMMIT, 5, request)
    codes = [partition.error_code for topic in answer.topics for partition in topic.partitions]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert await groups.txn_commit(5, producer=-1) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await groups.txn_commit(5, epoch=-1) is ErrorCode.INVALID_PRODUCER_EPOCH


# -- groups with pending offsets ----------------------------------------------------------------------------------


@in_transactions()
async def test_a_group_with_pending_offsets_is_not_deleted(groups, coordinator):
    assert await groups.commit(4, partition=1) == 0
    assert await groups.txn_commit(5) == 0
    assert await groups.delete() is ErrorCode.NON_EMPTY_GROUP
    assert (await groups.fetch(partition=1))[1] == 4
    await coordinator.end()
    assert await groups.delete() == 0
    assert (await groups.fetch())[1] == -1


@in_transactions()
async def test_a_group_that_has_nothing_but_pending_offsets_is_known(groups, coordinator):
    assert await groups.txn_commit(5) == 0
    assert [each.group_id for each in (await groups.list()).groups] == ["g"]
    assert (await groups.describe()).group_state == "Empty"
    await coordinator.end(MarkerType.ABORT)
    assert (await groups.list()).groups == []


@in_transactions(GroupOptions(initial_rebalance_delay_ms=0, offsets_retention_ms=1, retention_check_interval_ms=50))
async def test_offsets_of_a_group_with_pending_ones_do_not_expire(groups, coordinator):
    other, number = Groups(groups.client, "other"), offsets_partition("other", QUICK.topic_partitions)
    await other.wait_found()
    assert await groups.txn_commit(5) == 0
    assert await groups.commit(4, partition=1) == 0
    table = coordinator.state.table
    for _ in range(2):
        # Between two that expire lies a look over all groups.
        assert await other.commit(1) == 0
        state = coordinator.broker.partition(OFFSETS_TOPIC, number).log_state
        await until(lambda state=state: not state.table.offsets("other"))
    assert [each for _, each in table.offsets("g")] == [1]
    await coordinator.end()
    await until(lambda: not table.offsets("g"))


@in_transactions()
async def test_an_offset_that_is_deleted_takes_the_pending_one_with_it_as_in_kafka(groups, coordinator):
    assert await groups.commit(4) == 0
    assert await groups.txn_commit(5) == 0
    assert await groups.delete_offset() == 0
    assert await groups.fetch(stable=True) == (0, -1, -1, "")
    await coordinator.end()
    assert (await groups.fetch())[1] == -1


@in_transactions()
async def test_a_deleted_topic_takes_its_pending_offsets_with_it(groups, coordinator):
    assert await groups.txn_commit(5) == 0
    state = DeleteTopicsRequest.DeleteTopicState(name="t")
    request = DeleteTopicsRequest(topics=[state], topic_names=["t"], timeout_ms=5000)
    assert (await groups.client.call(ApiKey.DELETE_TOPICS, 6, request)).responses[0].error_code == 0
    await until(lambda: not coordinator.state.is_pending("g"))
    await coordinator.end()
    assert (await groups.fetch())[1] == -1


@in_transactions()
async def test_a_described_partition_of_offsets_names_who_has_something_open_there(groups, coordinator):
    assert await groups.commit(4) == 0
    assert await groups.txn_commit(5) == 0
    topic = DescribeProducersRequest.TopicRequest(name=PARTITION[0], partition_indexes=[PARTITION[1]])
    answer = await groups.client.call(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics=[topic]))
    (found,) = answer.topics[0].partitions[0].active_producers
    assert (found.producer_id, found.last_sequence, found.current_txn_start_offset) == (PRODUCER, -1, 1)


# -- levels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "is_served"), [(0, False), (1, True), (2, True)])
def test_offsets_in_transactions_are_served_from_level_1_on(tmp_path, monkeypatch, level, is_served):
    monkeypatch.setattr(transactions, "transactions_level", lambda node: level)

    async def test():
        async with broker_in(tmp_path, groups=replace(QUICK, first_leader_wait_ms=0)) as broker:
            client = await broker.client()
            versions = (await client.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())).api_keys
            told = {each.api_key: (each.min_version, each.max_version) for each in versions}
            assert told.get(ApiKey.TXN_OFFSET_COMMIT) == ((0, 5) if is_served else None)
            client.send(ApiKey.TXN_OFFSET_COMMIT, 5, Groups(client).txn_request(5))
            if is_served:
                (_, answer) = await client.receive()
                assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                assert await client.is_closed()

    run(test)
