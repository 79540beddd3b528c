"""Several members of a group on the wire, and several groups in one request."""

import asyncio

from kafka_api.groups.options import GroupOptions
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from tests.unit.kafka_api.groups.group_calls import Groups, with_groups


@with_groups()
async def test_several_members_leave_at_once_and_each_is_answered(broker, groups):
    second = Groups(await broker.client())
    for version in (3, 4, 5):
        joined = await groups.join()
        me = joined.member_id
        joining = asyncio.ensure_future(second.join(instance="one"))
        await groups.until_moving(me, joined.generation_id)
        assert (await groups.join(me)).error_code == 0
        static = (await joining).member_id
        identities = [(me, None), ("stranger", None), ("former", "one"), ("", "one"), (static, "one"), (me, None)]
        unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
        errors = [0, unknown, fenced, 0, unknown, unknown]
        told = [(*identity, error) for identity, error in zip(identities, errors, strict=True)]
        assert await groups.leave_together(*identities, version=version) == told
        assert (await groups.describe()).group_state == "Empty"


@with_groups(GroupOptions(initial_rebalance_delay_ms=1000))
async def test_members_that_come_within_the_initial_delay_are_one_generation(broker, groups):
    others = [Groups(await broker.client()) for _ in range(2)]
    for each in others:
        each.client.send(ApiKey.JOIN_GROUP, 3, each.join_request())
    first, second = [(await each.client.receive())[1] for each in others]
    assert (first.error_code, first.generation_id) == (second.error_code, second.generation_id) == (0, 1)
    assert first.leader == second.leader
    told = first.members or second.members
    assert {each.member_id for each in told} == {first.member_id, second.member_id}
    assert (await groups.describe()).group_state == "CompletingRebalance"


# Sessions outlive the test: it is the time to join again that ends.
@with_groups()
async def test_who_does_not_join_again_within_the_rebalance_timeout_is_out_of_the_next_generation(broker, groups):
    me, generation = await groups.member(session_ms=600_000, rebalance_ms=2000)
    second = Groups(await broker.client())
    second.client.send(ApiKey.JOIN_GROUP, 3, second.join_request(session_ms=600_000, rebalance_ms=2000))
    await groups.until_moving(me, generation)
    joined = (await second.client.receive())[1]
    assert (joined.error_code, joined.generation_id) == (0, generation + 1)
    assert [each.member_id for each in joined.members] == [joined.leader] == [joined.member_id]
    assert await groups.heartbeat(me, generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert (await groups.join(me)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@with_groups()
async def test_the_offsets_of_several_groups_are_fetched_at_once(_broker, groups):
    other = Groups(groups.client, "other")
    assert await groups.commit(7) == 0
    assert await groups.commit(8, partition=1) == 0
    assert await other.commit(9) == 0
    for version in (8, 9):
        asked = [("other", "t"), ("unknown", None), ("g", None), ("unknown too", "t")]
        assert await groups.fetch_together(*asked, version=version) == {
            "other": (0, {("t", 0): 9}),
            "unknown": (0, {}),
            "g": (0, {("t", 0): 7, ("t", 1): 8}),
            "unknown too": (0, {("t", 0): -1}),
        }


@with_groups()
async def test_members_are_told_of_a_rebalance(broker, groups):
    me, generation = await groups.member()
    second = Groups(await broker.client())
    joining = asyncio.ensure_future(second.join())
    await groups.until_moving(me, generation)
    assert (await groups.sync(me, generation)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert await groups.commit(5, member_id=me, generation=generation) == 0
    assert (await groups.describe()).group_state == "PreparingRebalance"
    mine, other = await groups.join(me), await joining
    assert mine.generation_id == other.generation_id == generation + 1
    assert {each.member_id for each in mine.members} == {me, other.member_id}
    assert other.members == []
    commit = await groups.commit(6, member_id=me, generation=generation + 1)
    assert commit is ErrorCode.REBALANCE_IN_PROGRESS
    waiting = asyncio.ensure_future(second.sync(other.member_id, generation + 1))
    assert (await groups.sync(me, generation + 1, {me: b"1", other.member_id: b"2"})).assignment == b"1"
    assert (await waiting).assignment == b"2"
