"""Consumer groups on the wire: a whole life in every version, and every error code."""

import asyncio
from dataclasses import replace

import pytest

from kafka_api.groups.options import GroupOptions
from kafka_api.handlers.registry import SERVED
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    CreatePartitionsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    MetadataRequest,
)
from kafka_api.transactions.certain_level import NO_TRANSACTIONS
from tests.feature_levels import LIVING
from tests.unit.cluster.cluster_nodes import run
from tests.unit.kafka_api.groups.group_calls import QUICK, SUBSCRIPTION_TO_T, Groups, with_groups
from tests.unit.kafka_api.wire_client import broker_in, produce_request
from tests.unit.model.record_batches import build_batch


def _version(key, step):
    """Spread steps over the served versions of a key."""
    served = SERVED[key]
    return min(served.first_version + step, served.last_version)


@pytest.mark.parametrize("step", range(10))
def test_a_life_of_a_group_in_every_version(tmp_path, step):
    async def test():
        async with broker_in(tmp_path, groups=QUICK) as broker:
            client = await broker.client()
            await client.create_topic("t")
            groups = Groups(client)
            await groups.wait_found()
            found = await groups.find(_version(ApiKey.FIND_COORDINATOR, step))
            assert (found.error_code, found.node_id, found.port) == (0, 1, broker.port)
            joined = await groups.join(version=_version(ApiKey.JOIN_GROUP, step))
            assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
            assert joined.leader == joined.member_id == joined.members[0].member_id
            assert joined.members[0].metadata == SUBSCRIPTION_TO_T
            me, sync = joined.member_id, _version(ApiKey.SYNC_GROUP, step)
            assert (await groups.sync(me, 1, {me: b"part"}, version=sync)).assignment == b"part"
            assert await groups.heartbeat(me, 1, version=_version(ApiKey.HEARTBEAT, step)) == 0
            fetch = _version(ApiKey.OFFSET_FETCH, step)
            assert await groups.fetch(version=fetch) == (0, -1, -1, "")
            commit = _version(ApiKey.OFFSET_COMMIT, step)
            assert await groups.commit(7, member_id=me, generation=1, metadata="note", version=commit) == 0
            epoch = 3 if commit >= 6 and fetch >= 5 else -1
            assert await groups.fetch(version=fetch) == (0, 7, epoch, "note")
            if fetch >= 2:
                assert await groups.fetch(version=fetch, everything=True) == (0, 7, epoch, "note")
            described = await groups.describe(version=_version(ApiKey.DESCRIBE_GROUPS, step))
            assert (described.group_state, described.protocol_data) == ("Stable", "range")
            (member,) = described.members
            assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")
            assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION_TO_T, b"part")
            # Another partition of groups may just have been elected, whose groups are not known yet.
            await groups.wait_found()
            (listed,) = (await groups.list(version=_version(ApiKey.LIST_GROUPS, step))).groups
            assert (listed.group_id, listed.protocol_type) == ("g", "consumer")
            assert await groups.leave(me, version=_version(ApiKey.LEAVE_GROUP, step)) == 0
            assert await groups.delete_offset() == 0
            assert await groups.fetch(version=fetch) == (0, -1, -1, "")
            assert await groups.delete(version=_version(ApiKey.DELETE_GROUPS, step)) == 0
            assert (await groups.list()).groups == []

    run(test)


@with_groups()
async def test_the_wrong_member_or_generation_is_told_so(_broker, groups):
    me, generation = await groups.member()
    assert await groups.heartbeat(me, generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert await groups.heartbeat("stranger", generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await groups.commit(1, member_id=me, generation=generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert await groups.commit(1, member_id="stranger", generation=generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await groups.commit(1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert (await groups.sync(me, 9)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert (await groups.sync(me, generation, protocol="other")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await groups.join("stranger")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert await groups.leave("stranger") is ErrorCode.UNKNOWN_MEMBER_ID
    assert await groups.fetch() == (0, -1, -1, "")


@with_groups()
async def test_a_group_that_nobody_knows_is_told_so(_broker, groups):
    assert await groups.heartbeat("a", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await groups.leave("a") is ErrorCode.UNKNOWN_MEMBER_ID
    assert (await groups.sync("a", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await groups.join("a")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert await groups.commit(1, member_id="a", generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert await groups.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    assert await groups.delete_offset() is ErrorCode.GROUP_ID_NOT_FOUND
    assert (await groups.describe()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    described = await groups.describe(version=5)
    assert (described.error_code, described.group_state) == (0, "Dead")


@with_groups()
async def test_a_group_has_to_have_a_name(_broker, groups):
    groups.group = ""
    assert (await groups.join()).error_code == ErrorCode.INVALID_GROUP_ID
    assert (await groups.sync("a", 1)).error_code == ErrorCode.INVALID_GROUP_ID
    assert await groups.heartbeat("a", 1) is ErrorCode.INVALID_GROUP_ID
    assert await groups.leave("a") is ErrorCode.INVALID_GROUP_ID


@with_groups()
async def test_a_join_that_cannot_be_is_refused(_broker, groups):
    assert (await groups.join(session_ms=199)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert (await groups.join(session_ms=1_800_001)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert (await groups.join(protocols={})).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await groups.join(kind="")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await groups.join(protocols={"p" * 256: b""})).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await groups.join(instance="")).error_code == ErrorCode.INVALID_REQUEST
    assert (await groups.join(instance="i" * 250)).error_code == ErrorCode.INVALID_REQUEST
    await groups.member()
    assert (await groups.join(kind="connect")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await groups.join(protocols={"other": b""})).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@with_groups(GroupOptions(initial_rebalance_delay_ms=0, max_size=1))
async def test_a_full_group_takes_nobody_else(_broker, groups):
    await groups.member()
    assert (await groups.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@with_groups(GroupOptions(initial_rebalance_delay_ms=0, member_bytes_max=20_000))
async def test_members_of_all_groups_together_take_no_more_memory_than_they_may(_broker, groups):
    me, generation = await groups.member(protocols={"range": bytes(15_000)})
    other = Groups(groups.client, "other")
    assert (await other.join(protocols={"range": bytes(15_000)})).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert await groups.heartbeat(me, generation) == 0
    # Who is a member already may say as much as before, and no more.
    assert (await groups.join(me, protocols={"range": bytes(16_000)})).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await groups.join(me, protocols={"range": b"x" * 15_000})).error_code == 0
    assert await groups.leave(me) == 0
    async with asyncio.timeout(60):
        # The group is forgotten once it is on the disk that it has no members.
        while (await other.join(protocols={"range": bytes(15_000)})).error_code:
            await asyncio.sleep(0.01)


@with_groups(GroupOptions(initial_rebalance_delay_ms=0, member_bytes_max=20_000, min_session_timeout_ms=200))
async def test_groups_that_hold_nothing_but_ids_take_no_more_memory_than_they_may_either(_broker, groups):
    others = [Groups(groups.client, f"{number}") for number in range(10)]
    for other in others:
        # Each partition of the offsets topic is loaded by itself.
        await other.wait_found()
    requests = [other.join_request(session_ms=500) for other in others]
    codes = [(await groups.call(ApiKey.JOIN_GROUP, 4, request)).error_code for request in requests]
    assert set(codes[:4]) == {ErrorCode.MEMBER_ID_REQUIRED}
    assert set(codes[-4:]) == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    async with asyncio.timeout(60):
        while (await groups.join()).error_code:
            await asyncio.sleep(0.05)


@with_groups()
async def test_a_new_life_of_a_static_member_fences_the_former_one_off(_broker, groups):
    former, generation = await groups.member(instance="one")
    joined = await groups.join(instance="one")
    assert (joined.error_code, joined.generation_id, joined.skip_assignment) == (0, generation, True)
    synced = await groups.sync(joined.member_id, generation, instance="one")
    assert synced.assignment == b"part"
    assert await groups.heartbeat(former, generation, instance="one") is ErrorCode.FENCED_INSTANCE_ID
    commit = await groups.commit(1, member_id=former, generation=generation, instance="one")
    assert commit is ErrorCode.FENCED_INSTANCE_ID
    assert (await groups.sync(former, generation, instance="one")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert (await groups.join(former, instance="one")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert await groups.leave(former, instance="one") is ErrorCode.FENCED_INSTANCE_ID
    assert await groups.leave("", instance="one") == 0


@with_groups()
async def test_a_silent_member_is_removed(_broker, groups):
    me, generation = await groups.member(session_ms=300)
    async with asyncio.timeout(10):
        while (await groups.describe()).group_state != "Empty":
            await asyncio.sleep(0.05)
    assert await groups.heartbeat(me, generation) is ErrorCode.UNKNOWN_MEMBER_ID


@with_groups()
async def test_a_commit_is_refused_by_partition(_broker, groups):
    assert await groups.commit(1, topic="unknown") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await groups.commit(1, partition=2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await groups.commit(1, metadata="x" * 4097) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert await groups.commit(1, metadata="x" * 4096) == 0
    assert await groups.fetch() == (0, 1, 3, "x" * 4096)


@with_groups(GroupOptions(initial_rebalance_delay_ms=0, record_bytes_max=2000))
async def test_a_generation_that_is_too_large_to_be_stored_is_not_taken(_broker, groups):
    joined = await groups.join()
    me = joined.member_id
    refused = await groups.sync(me, joined.generation_id, {me: bytes(2000)})
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    again = await groups.join(me)
    assert (await groups.sync(me, again.generation_id, {me: b"small"})).assignment == b"small"


@with_groups(GroupOptions(initial_rebalance_delay_ms=0, record_bytes_max=1000))
async def test_a_group_is_deleted_that_has_committed_more_than_one_record_batch_may_hold(_broker, groups):
    long, longer = "l" * 240, "m" * 240
    for topic in (long, longer):
        await groups.client.create_topic(topic, partitions=10)
        for partition in range(10):
            assert await groups.commit(partition, topic=topic, partition=partition) == 0
    request = DeleteTopicsRequest(topic_names=[longer], timeout_ms=5000)
    assert (await groups.client.call(ApiKey.DELETE_TOPICS, 4, request)).responses[0].error_code == 0
    async with asyncio.timeout(10):
        while (await groups.fetch(topic=longer, partition=9))[1] != -1:
            await asyncio.sleep(0.01)
    assert await groups.fetch(topic=long, partition=9) == (0, 9, 3, "")
    assert await groups.delete() == 0
    assert await groups.fetch(everything=True) == (0, None, None, None)


@with_groups()
async def test_only_groups_without_members_are_deleted(_broker, groups):
    me, generation = await groups.member()
    assert await groups.commit(1, member_id=me, generation=generation) == 0
    assert await groups.delete() is ErrorCode.NON_EMPTY_GROUP
    assert await groups.delete_offset() is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert await groups.delete_offset(topic="unknown") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await groups.leave(me) == 0
    assert await groups.delete() == 0
    assert await groups.fetch(everything=True) == (0, None, None, None)
    assert await groups.delete() is ErrorCode.GROUP_ID_NOT_FOUND


@with_groups()
async def test_offsets_of_a_group_of_another_type_stay_while_it_has_members(_broker, groups):
    await groups.member(kind="connect")
    assert await groups.delete_offset() is ErrorCode.NON_EMPTY_GROUP


@with_groups()
async def test_groups_are_listed_by_state_and_type(_broker, groups):
    await groups.member()
    assert await Groups(groups.client, "other").commit(1) == 0
    assert {each.group_id: each.group_state for each in (await groups.list()).groups} == {
        "g": "Stable",
        "other": "Empty",
    }
    assert [each.group_id for each in (await groups.list(states=["stable"])).groups] == ["g"]
    assert [each.group_id for each in (await groups.list(types=["consumer"])).groups] == []
    assert len((await groups.list(types=["classic"])).groups) == 2


@with_groups(founded=LIVING)
async def test_there_is_no_coordinator_of_transactions_where_the_cluster_uses_none(_broker, groups):
    found = await groups.find(key_type=1)
    assert (found.error_code, found.error_message) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS)


@with_groups()
async def test_there_is_no_coordinator_of_an_unknown_type(_broker, groups):
    assert (await groups.find(key_type=2)).error_code == ErrorCode.INVALID_REQUEST


@with_groups()
async def test_clients_do_not_write_what_brokers_keep_there(_broker, groups):
    request = produce_request("__consumer_offsets", build_batch())
    answer = await groups.client.call(ApiKey.PRODUCE, 7, request)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@with_groups()
async def test_clients_do_not_delete_what_brokers_keep_there(_broker, groups):
    assert await groups.commit(1) == 0
    everything = [DeleteRecordsRequest.DeleteRecordsPartition(partition_index=each, offset=-1) for each in range(8)]
    named = DeleteRecordsRequest.DeleteRecordsTopic(name="__consumer_offsets", partitions=everything)
    request = DeleteRecordsRequest(topics=[named], timeout_ms=5000)
    (answer,) = (await groups.client.call(ApiKey.DELETE_RECORDS, 2, request)).topics
    refused = (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert [(each.error_code, each.low_watermark) for each in answer.partitions] == [refused] * 8


@with_groups()
async def test_offsets_of_a_deleted_topic_are_deleted(_broker, groups):
    assert await groups.commit(1) == 0
    request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000)
    assert (await groups.client.call(ApiKey.DELETE_TOPICS, 4, request)).responses[0].error_code == 0
    async with asyncio.timeout(10):
        while await groups.fetch(everything=True) != (0, None, None, None):
            await asyncio.sleep(0.01)


@with_groups()
async def test_the_topic_is_internal_and_keeps_its_number_of_partitions(_broker, groups):
    named = MetadataRequest.MetadataRequestTopic(name="__consumer_offsets")
    (topic,) = (await groups.client.call(ApiKey.METADATA, 9, MetadataRequest(topics=[named]))).topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 8)
    grown = CreatePartitionsRequest.CreatePartitionsTopic(name="__consumer_offsets", count=9)
    request = CreatePartitionsRequest(topics=[grown], timeout_ms=5000)
    (result,) = (await groups.client.call(ApiKey.CREATE_PARTITIONS, 0, request)).results
    assert result.error_code == ErrorCode.INVALID_PARTITIONS


def test_before_the_topic_is_there_nobody_is_the_coordinator(tmp_path):
    async def test():
        async with broker_in(tmp_path, groups=replace(QUICK, first_leader_wait_ms=0)) as broker:
            groups = Groups(await broker.client())
            assert (await groups.join()).error_code == ErrorCode.NOT_COORDINATOR
            assert await groups.heartbeat("a", 1) is ErrorCode.NOT_COORDINATOR
            assert (await groups.fetch())[0] is ErrorCode.NOT_COORDINATOR
            assert (await groups.describe()).error_code == ErrorCode.NOT_COORDINATOR
            assert await groups.delete() is ErrorCode.NOT_COORDINATOR
            assert await groups.delete_offset() is ErrorCode.NOT_COORDINATOR
            found = await groups.find()
            assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
            await groups.wait_found()

    run(test)
