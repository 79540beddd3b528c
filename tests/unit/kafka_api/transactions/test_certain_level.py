"""Level 0 of transactions is refused with only if it is certain: questions that are shared, and a broker that lags."""

import asyncio

import pytest
from transaction_calls import Producer, features

from cluster.admin_messages import UpdateFeatureRequest
from cluster.errors import ControllerUnavailableError
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions import certain_level
from kafka_api.transactions.certain_level import NO_TRANSACTIONS, NOT_KNOWN, CertainLevel
from model.features import TRANSACTION_VERSION
from tests.feature_levels import LIVING
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.kafka_api.wire_cluster import three_brokers


class Tables:
    """raft0's tables here, and a leader that answers once it is let go on."""

    def __init__(self, level=0, *, is_offered=True):
        self.level = level
        self.asked = 0
        self.goes_on = asyncio.Event()
        self.refusal = None
        self.certain = CertainLevel(lambda: self.level, self._catch_up, is_offered=is_offered)

    async def _catch_up(self, timeout):
        assert timeout > 0
        self.asked += 1
        await self.goes_on.wait()
        if self.refusal is not None:
            raise self.refusal


@pytest.mark.parametrize(("level", "is_offered"), [(1, True), (2, True), (0, False)])
def test_a_level_that_no_raise_can_have_passed_by_is_told_without_a_question(level, is_offered):
    async def test():
        tables = Tables(level, is_offered=is_offered)
        assert await tables.certain.ask() == level
        assert tables.asked == 0

    run(test)


@pytest.mark.parametrize("raised", [0, 2])
def test_the_level_is_what_the_tables_say_behind_the_leaders_answer(raised):
    async def test():
        tables = Tables()
        asking = asyncio.ensure_future(tables.certain.ask())
        await until(lambda: tables.asked == 1)
        tables.level = raised
        tables.goes_on.set()
        assert await asking == raised

    run(test)


def test_a_leader_that_does_not_answer_leaves_level_0_unknown_and_a_higher_one_known():
    async def test():
        tables = Tables()
        tables.refusal = ControllerUnavailableError("raft0 has no leader")
        tables.goes_on.set()
        assert await tables.certain.ask() is None
        asking = asyncio.ensure_future(tables.certain.ask())
        tables.level = 1
        assert await asking == 1

    run(test)


def test_those_who_ask_during_a_question_share_the_next_one():
    async def test():
        tables = Tables()
        first = asyncio.ensure_future(tables.certain.ask())
        await until(lambda: tables.asked == 1)
        # The answer that is on its way may be of a moment before these.
        later = [asyncio.ensure_future(tables.certain.ask()) for _ in range(10)]
        await asyncio.sleep(0)
        tables.goes_on.set()
        assert await asyncio.gather(first, *later) == [0] * 11
        assert tables.asked == 2

    run(test)


def test_who_shares_a_question_that_was_cancelled_does_not_take_an_older_answer():
    async def test():
        tables = Tables()
        tables.goes_on.set()
        assert await tables.certain.ask() == 0
        tables.goes_on.clear()
        first = asyncio.ensure_future(tables.certain.ask())
        await until(lambda: tables.asked == 2)
        second, third = [asyncio.ensure_future(tables.certain.ask()) for _ in range(2)]
        await asyncio.sleep(0)
        first.cancel()
        await until(lambda: tables.asked == 3)
        second.cancel()
        tables.goes_on.set()
        assert await third is None

    run(test)


# -- three brokers ------------------------------------------------------------------------------------------------


async def raise_level(cluster, level=2):
    """Ask raft0's leader, as an administrator does."""
    await until(cluster.has_controller)
    request = UpdateFeatureRequest(TRANSACTION_VERSION, level, False, 10.0, False)
    await cluster.controller.admin.update_feature(request)


def level_at(node):
    return node.controller.features.level(TRANSACTION_VERSION)


async def answers(producer):
    """Return what FindCoordinator, InitProducerId and Produce say of a transactional id."""
    found = await producer.find()
    return found.error_code, found.error_message, (await producer.init_once()).error_code, await producer.produce(0)


def test_a_broker_whose_tables_lag_behind_the_raise_does_not_end_a_producer(tmp_path, monkeypatch):
    """Its disk hangs before the mark of the level, so it goes on at level 0; the others let producers in."""
    monkeypatch.setattr(certain_level, "_TIMEOUT", 0.2)

    async def test():
        async with three_brokers(tmp_path, founded=LIVING, features=features()) as brokers:
            cluster = brokers.cluster
            await until(cluster.has_controller)
            lagging = next(node for node in cluster.nodes.values() if node is not cluster.controller)
            number = int(lagging.options.node_id)
            others = [node for node in cluster.nodes.values() if node is not lagging]
            producer = Producer(brokers.clients[number], is_raising=False)
            # As yet the cluster really uses none.
            refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            assert await answers(producer) == (refused, NO_TRANSACTIONS, refused, refused)
            mends, stamp = asyncio.Event(), lagging.stamp.ensure

            async def hangs(levels):
                await mends.wait()
                await stamp(levels)

            monkeypatch.setattr(lagging.stamp, "ensure", hangs)
            await raise_level(cluster)
            await until(lambda: all(level_at(node) == 2 for node in others))
            assert level_at(lagging) == 0
            assert await answers(producer) == (
                *(ErrorCode.COORDINATOR_NOT_AVAILABLE, NOT_KNOWN),
                *(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
            )
            mends.set()
            # Whoever asks now waits until the level is applied here, too.
            monkeypatch.setattr(certain_level, "_TIMEOUT", 10.0)
            assert (await producer.init_once()).error_code in (0, ErrorCode.NOT_COORDINATOR)
            assert level_at(lagging) == 2

    run(test, seconds=60)
