"""Consume, transform, produce (KIP-447): members of a group, their offsets and one coordinator of each kind, as clients ask.

Clients of the older protocol name the group by AddOffsetsToTxn. Those of level 2 leave that to the group's coordinator.
"""

import asyncio

import pytest
from coordinating_brokers import AGAIN, HeldEntries, with_brokers
from transaction_calls import Producer, found, let_time_pass, markers, readable, with_transactions

from cluster.groups.offsets_topic import OFFSETS_TOPIC
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions import transaction
from model.control_batch import MarkerType
from tests.unit.kafka_api.groups.group_calls import QUICK as QUICK_GROUPS
from tests.unit.kafka_api.groups.group_calls import Groups

of_both_protocols = pytest.mark.parametrize("level", [1, 2])
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
NONE = ErrorCode.NONE


async def commit_offset(producer, groups, offset, **member):
    """Commit an input's position in the producer's transaction, as the client of its protocol does."""
    if not producer.is_raising and (code := await producer.add_offsets()):
        return code
    version = 5 if producer.is_raising else 3
    who = {"producer": producer.producer_id, "epoch": producer.epoch}
    return await groups.txn_commit(offset, version=version, **who, **member)


def as_member(me, generation):
    return {"member_id": me, "generation": generation}


async def position(groups):
    """Return what the next member begins at: it waits while something is pending."""
    error, offset, _, _ = await groups.fetch(stable=True)
    return UNSTABLE if error else offset


async def settled(groups, offset):
    """Wait until nothing is pending, and compare the offset."""
    async with asyncio.timeout(10):
        while (at := await position(groups)) is UNSTABLE:
            await asyncio.sleep(0.01)
    assert at == offset


async def rebalanced(groups, me, generation, other):
    """Let another member join; return both with their new generation."""
    joining = asyncio.ensure_future(other.join())
    await groups.until_moving(me, generation)
    mine, theirs = await asyncio.gather(groups.join(me), joining)
    assert mine.generation_id == theirs.generation_id == generation + 1
    given = {mine.member_id: b"part", theirs.member_id: b"part"}
    synced = await asyncio.gather(
        *(
            who.sync(joined.member_id, joined.generation_id, given if joined.leader == joined.member_id else None)
            for who, joined in ((groups, mine), (other, theirs))
        )
    )
    assert [each.error_code for each in synced] == [0, 0]
    return as_member(mine.member_id, mine.generation_id), as_member(theirs.member_id, theirs.generation_id)


def with_group(test):
    """Run a test at both protocols with a broker, a producer, and group "g" whose coordinator is found."""

    @of_both_protocols
    def wrapped(tmp_path, monkeypatch, level):
        monkeypatch.setattr(transaction, "_OFFICE_MS", 0)

        @with_transactions(level=level, groups=QUICK_GROUPS, seconds=60)
        async def whole(broker, producer):
            groups = Groups(await broker.client())
            await groups.wait_found()
            await test(broker, producer, groups)

        whole(tmp_path)

    wrapped.__name__ = test.__name__
    return wrapped


@with_group
async def test_offsets_are_seen_with_the_records_of_their_transaction(broker, producer, groups):
    me, generation = await groups.member()
    assert await groups.commit(3, **as_member(me, generation)) is NONE
    await producer.init()
    before, end = 3, 0
    for offset, is_commit in ((7, True), (8, False), (9, True)):
        assert await producer.send(b"a", b"b") is NONE
        assert await commit_offset(producer, groups, offset, **as_member(me, generation)) is NONE
        # A plain reader sees what was there; one that waits for stable offsets waits.
        assert (await groups.fetch())[1] == before
        assert await position(groups) is UNSTABLE
        assert await readable(producer.client) == (end + 2, end)
        assert await producer.end(is_commit) is NONE
        await producer.until_state("CompleteCommit" if is_commit else "CompleteAbort")
        before, end = offset if is_commit else before, end + 3
        assert await position(groups) == (await groups.fetch())[1] == before
        assert await readable(producer.client) == (end, end)
        if not producer.is_raising:
            await producer.init()
    assert await groups.heartbeat(me, generation) is NONE


@with_group
async def test_a_member_of_a_former_generation_aborts_and_its_input_is_transformed_once(broker, producer, groups):
    me, generation = await groups.member()
    assert await groups.commit(3, **as_member(me, generation)) is NONE
    await producer.init()
    assert await producer.send(b"of the former generation") is NONE
    other = Groups(await broker.client())
    mine, theirs = await rebalanced(groups, me, generation, other)
    assert await commit_offset(producer, groups, 7, **as_member(me, generation)) is ErrorCode.ILLEGAL_GENERATION
    assert await position(groups) == 3
    assert await producer.end(is_commit=False) is NONE
    await producer.until_state("CompleteAbort")
    # Whoever has the input now transforms it.
    second = await found(Producer(await broker.client(), name="other", is_raising=producer.is_raising))
    await second.init()
    assert await second.send(b"of this generation", partition=1) is NONE
    assert await commit_offset_of(second, other, 7, theirs) is NONE
    assert await second.end() is NONE
    await second.until_state("CompleteCommit")
    await settled(groups, 7)
    # A member that has left is no member.
    assert await groups.leave(me) is NONE
    if not producer.is_raising:
        await producer.init()
    assert await producer.send() is NONE
    assert await commit_offset(producer, groups, 8, **mine) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await producer.end(is_commit=False) is NONE
    await producer.until_state("CompleteAbort")
    await settled(groups, 7)
    assert [kind for kind, _ in await markers(producer.client)] == [MarkerType.ABORT] * 2
    assert [kind for kind, _ in await markers(producer.client, partition=1)] == [MarkerType.COMMIT]


async def commit_offset_of(producer, groups, offset, member):
    """As `commit_offset`, for a producer whose id is not "sink"."""
    return await commit_offset(producer, groups, offset, name=producer.name, **member)


@with_group
async def test_the_next_member_waits_for_the_transaction_of_one_that_died(broker, producer, groups):
    """Its offsets are pending. The coordinator aborts its transaction after the time-out, and the input comes again."""
    me, generation = await groups.member()
    assert await groups.commit(3, **as_member(me, generation)) is NONE
    await producer.init(timeout_ms=60_000)
    assert await producer.send() is NONE
    assert await commit_offset(producer, groups, 7, **as_member(me, generation)) is NONE
    assert await groups.leave(me) is NONE
    other = Groups(await broker.client())
    await other.member()
    assert await position(other) is UNSTABLE
    let_time_pass(broker, 60_000)
    await settled(other, 3)
    await producer.until_state("CompleteAbort")
    assert await producer.end() is ErrorCode.PRODUCER_FENCED
    assert (await markers(producer.client))[0][0] is MarkerType.ABORT
    assert await readable(producer.client) == (2, 2)


# -- a coordinator that changes -------------------------------------------------------------------------------------


async def until_answered(brokers, ask):
    """Ask the group's coordinator, whoever that is, until it knows its groups."""
    async with asyncio.timeout(20):
        while True:
            answer = await ask(brokers.groups())
            if (answer[0] if isinstance(answer, tuple) else answer) not in AGAIN:
                return answer
            await asyncio.sleep(0.02)


async def stable_fetch(groups):
    return (await groups.fetch(stable=True))[:2]


@of_both_protocols
def test_pending_offsets_outlive_the_coordinators_of_their_group_and_their_transaction(tmp_path, level):
    async def test(brokers):
        await Groups(brokers.clients[1]).wait_found()
        before = -1
        for offset, is_commit in ((7, True), (8, False)):
            assert await brokers.send() is NONE
            assert await pend(brokers, offset) is NONE
            await brokers.move(brokers.led(OFFSETS_TOPIC, "g"))
            assert (await until_answered(brokers, stable_fetch))[0] is UNSTABLE
            # A second commit of the same transaction, at the next coordinator.
            assert await pend(brokers, offset + 10) is NONE
            await brokers.move_coordinator()
            assert await brokers.end(is_commit) is NONE
            await brokers.completed("CompleteCommit" if is_commit else "CompleteAbort")
            before = offset + 10 if is_commit else before
            assert await until_answered(brokers, stable_fetch) == (NONE, before)
            if level == 1:
                await brokers.init()

    with_brokers(tmp_path, test, level)


async def pend(brokers, offset):
    if not brokers.producer.is_raising:
        assert await brokers.again(brokers.producer.add_offsets) is NONE
    return await until_answered(brokers, lambda groups: txn_commit(brokers, groups, offset))


async def txn_commit(brokers, groups, offset):
    producer = brokers.producer
    who = {"producer": producer.producer_id, "epoch": producer.epoch}
    return await groups.txn_commit(offset, version=5 if producer.is_raising else 3, **who)


@of_both_protocols
def test_offsets_whose_record_was_on_its_way_are_committed_again(tmp_path, level):
    """The group's coordinator is deposed amid TxnOffsetCommit: the record is lost, or kept by the next coordinator."""

    async def test(brokers):
        await Groups(brokers.clients[1]).wait_found()
        for is_kept in (False, True):
            assert await brokers.send() is NONE
            # So that the transaction has the group's partition, and only the record is on its way.
            assert await brokers.again(brokers.producer.add_offsets) is NONE
            held = HeldEntries(brokers, brokers.led(OFFSETS_TOPIC, "g"), is_kept=is_kept)
            asking = asyncio.ensure_future(txn_commit(brokers, brokers.groups(), 7 + is_kept))
            await held.appended()
            await held.depose()
            assert await asking in AGAIN
            error, offset = await until_answered(brokers, stable_fetch)
            assert (error, offset) == ((UNSTABLE, -1) if is_kept else (NONE, -1))
            assert await pend(brokers, 7 + is_kept) is NONE
            assert await brokers.end() is NONE
            await brokers.completed("CompleteCommit")
            assert await until_answered(brokers, stable_fetch) == (NONE, 7 + is_kept)
            if level == 1:
                await brokers.init()

    with_brokers(tmp_path, test, level)
