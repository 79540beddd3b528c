"""Group requests of a few words, for tests on the wire."""

import asyncio
import functools

from kafka_api.groups.answered_errors import ANSWERED_ERRORS
from kafka_api.groups.options import GroupOptions
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.message_classes import Message
from kafka_api.protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from tests.unit.cluster.cluster_nodes import run
from tests.unit.kafka_api.wire_client import broker_in

# No waiting for further members: what that does is told by the transcripts.
QUICK = GroupOptions(initial_rebalance_delay_ms=0, min_session_timeout_ms=200)
SUBSCRIPTION_TO_T = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x00"


def errors_of(message):
    """Return every error code in a response, at whatever level."""
    if isinstance(message, list):
        return {error for each in message for error in errors_of(each)}
    if not isinstance(message, Message):
        return set()
    inner = {error for name in message.__slots__ for error in errors_of(getattr(message, name))}
    return inner | {ErrorCode(message.error_code)} if hasattr(message, "error_code") else inner


class Groups:
    """What one client asks about one group. An error that kafka_api does not list for its key fails the test."""

    def __init__(self, client, group="g"):
        self.client = client
        self.group = group

    async def call(self, key, version, request):
        answer = await self.client.call(key, version, request)
        assert errors_of(answer) <= ANSWERED_ERRORS[key] | {ErrorCode.NONE}
        return answer

    async def find(self, version=4, *, key_type=0):
        request = FindCoordinatorRequest(key=self.group, key_type=key_type, coordinator_keys=[self.group])
        answer = await self.call(ApiKey.FIND_COORDINATOR, version, request)
        return answer.coordinators[0] if version >= 4 else answer

    async def wait_found(self):
        """Ask until there is a coordinator that knows its groups."""
        async with asyncio.timeout(20):
            while (await self.find()).error_code or (await self.list()).error_code:
                await asyncio.sleep(0.01)

    def join_request(
        self,
        member_id="",
        *,
        instance=None,
        session_ms=10_000,
        rebalance_ms=10_000,
        kind="consumer",
        protocols=None,
    ):
        named = {"range": SUBSCRIPTION_TO_T} if protocols is None else protocols
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=data) for name, data in named.items()
            ],
        )

    async def join(self, member_id="", *, version=9, **options):
        """Join; who is told its id joins again with it."""
        answer = await self.call(ApiKey.JOIN_GROUP, version, self.join_request(member_id, **options))
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request = self.join_request(answer.member_id, **options)
            answer = await self.call(ApiKey.JOIN_GROUP, version, request)
        return answer

    async def sync(
        self, member_id, generation, assignments=None, *, version=5, instance=None, protocol=None, kind=None
    ):
        given = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=name, assignment=data)
            for name, data in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocol_name=protocol,
            assignments=given,
        )
        return await self.call(ApiKey.SYNC_GROUP, version, request)

    async def member(self, **options):
        """Be the only member: return its id and generation."""
        joined = await self.join(**options)
        assert joined.error_code == 0, joined
        instance = options.get("instance")
        synced = await self.sync(joined.member_id, joined.generation_id, {joined.member_id: b"part"}, instance=instance)
        assert (synced.error_code, synced.assignment) == (0, b"part")
        return joined.member_id, joined.generation_id

    async def heartbeat(self, member_id, generation, *, version=4, instance=None):
        request = HeartbeatRequest(
            group_id=self.group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return ErrorCode((await self.call(ApiKey.HEARTBEAT, version, request)).error_code)

    async def until_moving(self, member_id, generation):
        """Be alive until one is told that the group is about to begin its next generation."""
        async with asyncio.timeout(60):
            while await self.heartbeat(member_id, generation) is not ErrorCode.REBALANCE_IN_PROGRESS:
                await asyncio.sleep(0.01)

    async def leave(self, member_id, *, version=5, instance=None):
        named = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance)
        request = LeaveGroupRequest(group_id=self.group, member_id=member_id, members=[named])
        answer = await self.call(ApiKey.LEAVE_GROUP, version, request)
        return ErrorCode(answer.error_code or (answer.members[0].error_code if version >= 3 else 0))

    async def leave_together(self, *identities, version=5):
        """Let several members go, named by id and instance; return what is said of each."""
        named = [LeaveGroupRequest.MemberIdentity(member_id=each, group_instance_id=one) for each, one in identities]
        answer = await self.call(ApiKey.LEAVE_GROUP, version, LeaveGroupRequest(group_id=self.group, members=named))
        assert answer.error_code == 0
        return [(each.member_id, each.group_instance_id, each.error_code) for each in answer.members]

    async def commit(
        self, offset, *, member_id="", generation=-1, topic="t", partition=0, metadata="", version=9, instance=None
    ):
        asked = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=3, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[asked])],
        )
        answer = await self.call(ApiKey.OFFSET_COMMIT, version, request)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def txn_request(
        self,
        offset,
        *,
        member_id="",
        generation=-1,
        topic="t",
        partition=0,
        metadata="",
        instance=None,
        producer=1000,
        epoch=0,
        name="sink",
    ):
        asked = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=3, committed_metadata=metadata
        )
        return TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=self.group,
            producer_id=producer,
            producer_epoch=epoch,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[asked])],
        )

    async def txn_commit(self, offset, *, version=5, **options):
        """Commit as a part of a transaction, of producer 1000 and "sink" unless `options` say otherwise."""
        answer = await self.call(ApiKey.TXN_OFFSET_COMMIT, version, self.txn_request(offset, **options))
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def fetch(self, *, version=9, topic="t", partition=0, everything=False, stable=False):
        """Return error, offset, epoch and metadata; None for an offset that is not listed."""
        if version >= 8:
            topics = (
                None
                if everything
                else [OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
            )
            asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.group, topics=topics)
            request = OffsetFetchRequest(groups=[asked], require_stable=stable)
        else:
            topics = (
                None
                if everything
                else [OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])]
            )
            request = OffsetFetchRequest(group_id=self.group, topics=topics, require_stable=stable)
        answer = await self.call(ApiKey.OFFSET_FETCH, version, request)
        found = answer.groups[0] if version >= 8 else answer
        if not found.topics:
            return ErrorCode(found.error_code), None, None, None
        each = found.topics[0].partitions[0]
        error = ErrorCode(found.error_code or each.error_code)
        return error, each.committed_offset, each.committed_leader_epoch, each.metadata

    async def fetch_together(self, *asked, version=9):
        """Ask for several groups, each with a topic of which partition 0 is meant, or None; return what is said of each:
        error, and offsets by topic and partition."""
        groups = [
            OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id=group,
                topics=topic and [OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
            )
            for group, topic in asked
        ]
        answer = await self.call(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(groups=groups))
        return {
            each.group_id: (
                ErrorCode(each.error_code),
                {
                    (topic.name, partition.partition_index): partition.committed_offset
                    for topic in each.topics
                    for partition in topic.partitions
                },
            )
            for each in answer.groups
        }

    async def describe(self, *, version=6):
        request = DescribeGroupsRequest(groups=[self.group])
        return (await self.call(ApiKey.DESCRIBE_GROUPS, version, request)).groups[0]

    def list_request(self, states=(), types=()):
        return ListGroupsRequest(states_filter=[*states], types_filter=[*types])

    async def list(self, *, version=5, states=(), types=()):
        return await self.call(ApiKey.LIST_GROUPS, version, self.list_request(states, types))

    def delete_request(self):
        return DeleteGroupsRequest(groups_names=[self.group])

    async def delete(self, *, version=2):
        answer = await self.call(ApiKey.DELETE_GROUPS, version, self.delete_request())
        return ErrorCode(answer.results[0].error_code)

    async def delete_offset(self, *, topic="t", partition=0):
        asked = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=partition)
        request = OffsetDeleteRequest(
            group_id=self.group, topics=[OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic, partitions=[asked])]
        )
        answer = await self.call(ApiKey.OFFSET_DELETE, 0, request)
        return ErrorCode(answer.error_code or answer.topics[0].partitions[0].error_code)


def with_groups(options=QUICK, *, seconds=30, **of_node):
    """Run a test with a broker, whose coordinators are there, and a client's view of group "g"."""

    def decorate(test):
        @functools.wraps(test)
        def wrapped(tmp_path):
            async def whole():
                async with broker_in(tmp_path, groups=options, **of_node) as broker:
                    client = await broker.client()
                    await client.create_topic("t", partitions=2)
                    groups = Groups(client)
                    await groups.wait_found()
                    await test(broker, groups)

            run(whole, seconds=seconds)

        del wrapped.__wrapped__
        return wrapped

    return decorate
