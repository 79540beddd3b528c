"""A deletion that fails: the group is there as before, may be joined again, and may be deleted again."""

import asyncio

import pytest

from cluster.groups.offsets_topic import OFFSETS_TOPIC, offsets_partition
from cluster.state_bounds import StateOptions
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.groups.options import GroupOptions
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import until
from tests.unit.kafka_api.groups.group_calls import Groups, with_groups
from tests.unit.kafka_api.wire_client import stuck_disk

_SECONDS = 60
# Writes give up soon where the disk hangs; where it does not, a loaded machine may still miss that.
_SHORT_WRITES = GroupOptions(initial_rebalance_delay_ms=0, write_timeout_ms=500)


async def _until_done(ask):
    async with asyncio.timeout(_SECONDS):
        while (error := await ask()) is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            await asyncio.sleep(0.01)
    assert error == 0


@with_groups(_SHORT_WRITES, seconds=2 * _SECONDS)
async def test_a_group_whose_deletion_failed_is_joined_and_commits_again(broker, groups):
    await _until_done(lambda: groups.commit(1))
    async with stuck_disk(broker):
        assert await groups.delete() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await groups.describe()).group_state == "Empty"
        joined = await groups.join()
        assert (joined.error_code, joined.generation_id) == (0, 1)
        assert await groups.delete() is ErrorCode.NON_EMPTY_GROUP
    me, generations = joined.member_id, []

    async def take_part():
        again = await groups.join(me)
        assert again.error_code == 0
        generations.append(again.generation_id)
        return ErrorCode((await groups.sync(me, again.generation_id, {me: b"part"})).error_code)

    await _until_done(take_part)
    described = await groups.describe()
    assert (described.group_state, described.members[0].member_assignment) == ("Stable", b"part")
    await _until_done(lambda: groups.commit(2, member_id=me, generation=generations[-1]))
    assert (await groups.fetch())[:2] == (0, 2)


@with_groups(_SHORT_WRITES, seconds=2 * _SECONDS)
async def test_a_group_whose_deletion_failed_is_deleted_when_asked_again(broker, groups):
    await _until_done(lambda: groups.commit(1))
    async with stuck_disk(broker):
        assert await groups.delete() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await groups.delete() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await _until_done(groups.delete)
    assert await groups.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    assert await groups.fetch(everything=True) == (0, None, None, None)
    await _until_done(lambda: groups.commit(3))
    assert (await groups.fetch())[:2] == (0, 3)


@with_groups(_SHORT_WRITES, seconds=2 * _SECONDS)
async def test_a_deletion_takes_along_the_commit_before_it_whose_outcome_nobody_knew(broker, groups):
    log = consensus_of(broker.partition(OFFSETS_TOPIC, offsets_partition("g", 8))).log
    await _until_done(lambda: groups.commit(1))
    deleting = Groups(await broker.client())
    async with stuck_disk(broker):
        assert await groups.commit(2, partition=1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        before = log.dirty_index
        deleting.client.send(ApiKey.DELETE_GROUPS, 2, deleting.delete_request())
        # It has looked at the table, in which that commit is not yet.
        await until(lambda: log.dirty_index > before, seconds=_SECONDS)
    error = (await deleting.client.receive())[1].results[0].error_code
    if error:
        assert error == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await _until_done(groups.delete)
    assert await groups.fetch(everything=True) == (0, None, None, None)


@with_groups(state=StateOptions(groups_bytes_max=900))
async def test_a_group_that_everybody_has_left_is_deleted_where_the_table_is_full(_broker, groups):
    me, generation = await groups.member()
    assert await groups.commit(1, member_id=me, generation=generation, metadata="x" * 500) == 0
    refused = await groups.commit(2, member_id=me, generation=generation, partition=1, metadata="x" * 400)
    assert refused is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert await groups.leave(me) == 0
    assert (await groups.describe()).group_state == "Empty"
    assert await groups.delete() == 0
    assert await groups.fetch(everything=True) == (0, None, None, None)


async def _confirms_nothing(active):
    return ErrorCode.NOT_COORDINATOR


@with_groups(_SHORT_WRITES, seconds=2 * _SECONDS)
async def test_a_coordinator_that_is_not_confirmed_does_not_say_that_a_group_is_not_there(broker, groups):
    """A deposed one knows nothing of what the next one has acknowledged (seed 20350)."""
    await _until_done(lambda: groups.commit(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoordinatedPartition, "exists", lambda active, group_id: False)
        assert await groups.delete() is ErrorCode.GROUP_ID_NOT_FOUND
        patch.setattr(CoordinatedPartition, "confirm", _confirms_nothing)
        assert await groups.delete() is ErrorCode.NOT_COORDINATOR
    assert (await groups.fetch())[:2] == (0, 1)


@with_groups(_SHORT_WRITES, seconds=2 * _SECONDS)
async def test_a_group_is_denied_if_nobody_confirms_that_it_is_not_there(broker, groups):
    await _until_done(lambda: groups.commit(1))

    async def confirm_existence(active, group_id):
        return ErrorCode.NONE if active.exists(group_id) else ErrorCode.GROUP_ID_NOT_FOUND

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoordinatedPartition, "exists", lambda active, group_id: False)
        patch.setattr(CoordinatedPartition, "confirm", _confirms_nothing)
        patch.setattr(CoordinatedPartition, "_confirm_existence", confirm_existence)
        assert await groups.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    assert (await groups.fetch())[:2] == (0, 1)
