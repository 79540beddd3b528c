"""A group table at its bound: which requests are refused, with which code, and what goes on."""

import asyncio
from dataclasses import replace

from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.groups.records import CommittedOffset, OffsetKey, encoded_size
from cluster.state_bounds import StateOptions
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import OffsetCommitRequest
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import FAST, run, until
from tests.unit.kafka_api.groups.group_calls import QUICK, Groups, with_groups
from tests.unit.kafka_api.wire_client import broker_in, stuck_disk

_METADATA = "🐘" * 100
# Three of such offsets, and a group of a few words.
_BOUND = 1 + 3 * (8 + encoded_size(OffsetKey("g", "t", 0), CommittedOffset(0, 0, _METADATA, 0)))
_ONE_PARTITION = replace(QUICK, topic_partitions=1)


def _request(group, *partitions):
    asked = [
        OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=1, committed_metadata=_METADATA
        )
        for number in partitions
    ]
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=asked)]
    return OffsetCommitRequest(group_id=group, topics=topics)


def _codes(answer):
    return [ErrorCode(each.error_code) for each in answer.topics[0].partitions]


@with_groups(_ONE_PARTITION, state=StateOptions(groups_bytes_max=_BOUND))
async def test_a_table_that_is_full_takes_no_more_commits(broker, groups):
    state = broker.partition(OFFSETS_TOPIC).log_state
    for number in range(2):
        assert await groups.commit(number, partition=number, metadata=_METADATA) == 0
    other = Groups(groups.client, "h")
    assert await other.commit(1, metadata=_METADATA) == 0
    assert state.table.size_bytes == _BOUND == len(b"".join(state.snapshot()))
    # Every partition of the request is told, as by Kafka: it is one batch.
    answer = await other.call(ApiKey.OFFSET_COMMIT, 8, _request("h", 0, 1))
    assert _codes(answer) == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] * 2
    assert (await other.fetch())[1] == 1
    # Nobody loses its place, and what is deleted makes room.
    assert await other.commit(2, metadata=_METADATA) == 0
    assert await groups.delete() == 0
    assert await other.commit(2, partition=1, metadata=_METADATA) == 0
    assert [fill.refused for fill in state.fills()] == [1, 0]


@with_groups(_ONE_PARTITION, state=StateOptions(groups_bytes_max=_BOUND))
async def test_commits_that_are_under_way_do_not_pass_the_bound_together(broker, groups):
    state = broker.partition(OFFSETS_TOPIC).log_state
    client = groups.client
    async with stuck_disk(broker):
        # They share an entry, or the first goes alone and the others share one. The shared entry is refused; then each
        # is judged while none of the others is committed.
        for group in "abcdef":
            client.send(ApiKey.OFFSET_COMMIT, 8, _request(group, 0))
        active = broker.server._groups.locate("a")
        await until(lambda: state.fills()[0].refused == 4 or len(active._writes._waiting) == 5)
        assert state.table.record_count == 0
    codes = [_codes((await client.receive())[1])[0] for _ in range(6)]
    assert codes == [ErrorCode.NONE] * 3 + [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] * 3
    assert state.fills()[0].refused == 1 + 3
    assert state.table.size_bytes == _BOUND


@with_groups(replace(_ONE_PARTITION, record_bytes_max=1_000))
async def test_a_deletion_waits_for_a_commit_that_a_refused_one_has_overtaken(broker, groups):
    """What stopped a broker's loop for ever: the newest write was over, and an older one was not."""
    partition = broker.partition(OFFSETS_TOPIC)
    state, log = partition.log_state, consensus_of(partition).log
    other = Groups(await broker.client())
    assert await Groups(groups.client, "h").commit(1) == 0
    before = log.dirty_index
    async with stuck_disk(broker):
        groups.client.send(ApiKey.OFFSET_COMMIT, 8, _request("g", 0))
        await until(lambda: log.dirty_index > before)
        assert await other.commit(1, metadata="x" * 1_000) is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        deletion = asyncio.ensure_future(other.delete())
        await asyncio.sleep(0.05)
        assert not deletion.done()
    assert _codes((await groups.client.receive())[1]) == [ErrorCode.NONE]
    assert await deletion == 0
    assert state.table.record_count == 1


@with_groups(_ONE_PARTITION, state=StateOptions(groups_bytes_max=_BOUND))
async def test_a_generation_that_the_table_has_no_room_for_is_an_error_of_the_sync(_broker, groups):
    joined = await groups.join()
    refused = await groups.sync(joined.member_id, joined.generation_id, {joined.member_id: bytes(_BOUND)})
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    again = await groups.join(joined.member_id)
    assert (await groups.sync(again.member_id, again.generation_id, {again.member_id: b"small"})).assignment == b"small"


def test_metadata_of_many_bytes_and_fewer_characters_neither_passes_the_bound_nor_ends_a_broker(tmp_path):
    """What ended every broker: 40 MiB were counted in characters, and the snapshot of 65 MiB was an assert."""
    bound = 60_000
    options = StateOptions(groups_bytes_max=bound)
    raft = replace(FAST, snapshot_entries=5, state_bytes_max=2 * bound)

    async def test():
        async with broker_in(tmp_path, groups=_ONE_PARTITION, state=options, raft=raft) as broker:
            client = await broker.client()
            await client.create_topic("t", partitions=20)
            groups = Groups(client)
            await groups.wait_found()
            codes = []
            for number in range(48):
                answer = await client.call(ApiKey.OFFSET_COMMIT, 8, _request(f"g{number}", *range(10)))
                codes += _codes(answer)
            assert set(codes) == {ErrorCode.NONE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
            partition = broker.partition(OFFSETS_TOPIC)
            assert 0.9 * bound < partition.log_state.table.size_bytes <= bound
            log = consensus_of(partition).log
            await until(lambda: log.snapshot_index >= 10)
            assert partition.failure is None

    run(test)


def test_a_table_above_the_bound_of_a_snapshot_is_served_and_its_log_grows(tmp_path, caplog):
    """As left by an older version: no save, and nothing else is lost by it, neither now nor after a restart."""
    raft = replace(FAST, snapshot_entries=5, state_bytes_max=3000)

    async def serve(broker, committed):
        client = await broker.client()
        groups = Groups(client)
        await groups.wait_found()
        for number in range(committed, committed + 10):
            assert await groups.commit(number, partition=number, metadata=_METADATA) == 0
        partition = broker.partition(OFFSETS_TOPIC)
        refused = broker.node.groups.probe
        await until(lambda: refused.snapshots_refused > 0)
        assert partition.failure is None
        assert (await groups.fetch(partition=0))[1] == 0
        return partition

    async def test():
        async with broker_in(tmp_path, groups=_ONE_PARTITION, raft=raft) as broker:
            client = await broker.client()
            await client.create_topic("t", partitions=30)
            partition = await serve(broker, 0)
            kept = consensus_of(partition).log.snapshot_index
            assert "state of more than 3000 bytes" in caplog.text
            await broker.cluster.stop(1)
            await broker.cluster.start(1)
            node = broker.cluster[1]
            await until(lambda: broker.cluster.find_leader(OFFSETS_TOPIC) is not None)
            again = broker.partition(OFFSETS_TOPIC)
            await until(lambda: node.groups.probe.snapshots_refused > 0)
            assert again.log_state.table.record_count == 10
            assert again.failure is None
            assert consensus_of(again).log.snapshot_index == kept

    run(test)
