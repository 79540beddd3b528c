"""Readers at read_committed of a log of several segments: which aborted transactions a Fetch names."""

import asyncio
from dataclasses import replace
from typing import NamedTuple

import pytest
from test_fetch import joined
from test_file_sends import sent_bytes
from wire_client import broker_in, fetch_request

from kafka_api.fetch_memory import FetchLease
from kafka_api.handlers.registry import SERVED
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import FetchRequest, ListOffsetsRequest
from model.control_batch import Marker, MarkerType, Prepare, encode_marker
from model.ids import ConsistencyLevel, Offset
from model.topic_config import TopicConfig
from raftka.kafka.wire.record_batches import AbortedTransaction, read_layout
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import FAST, run, until
from tests.unit.model.record_batches import TRANSACTIONAL, build_batch

SEGMENTS = TopicConfig(segment_bytes=1000)
FROM_FILES = replace(FAST, tail_cache_bytes=1, range_bytes_min=100)
LATEST, EARLIEST = -1, -2
VALUE = b"v" * 150
FIRST_VERSION_WITH_TOPIC_ID = 13


class Put(NamedTuple):
    """A batch of so many records; of a producer's transaction, or of nobody's."""

    producer: int = -1
    records: int = 1


class End(NamedTuple):
    """The marker of a producer's transaction."""

    producer: int
    how: MarkerType


ABORT, COMMIT = MarkerType.ABORT, MarkerType.COMMIT
# Transactions overlap, lie in each other, end in later segments than they begin in, and follow each other. Producer 5's stays open.
STORY = (
    *(Put(), Put(1), Put(2, records=2), Put(1), Put()),
    *(End(1, ABORT), Put(), Put(3), Put(6), Put(1, records=3), End(6, ABORT), Put(2)),
    *(End(2, COMMIT), Put(), End(3, ABORT), Put(3), Put(1), End(1, COMMIT)),
    *(Put(4), Put(), Put(2), End(3, COMMIT), Put(), Put(4), Put(1)),
    *(End(4, ABORT), End(2, ABORT), Put(), End(1, ABORT), Put(records=2)),
    *(Put(5), Put(), Put(1), End(1, ABORT), Put()),
)


class Told(NamedTuple):
    """What follows from a story.

    Attributes:
        seen: The offsets of the records that readers at read_committed see.
        rows: Of each aborted transaction the producer, the first offset and that of the marker, by their markers.
        stable: The last stable offset.
        end: Of the log.
    """

    seen: list[int]
    rows: list[tuple[int, int, int]]
    stable: int
    end: int


def told_by(story):
    offset, seen, rows, transactions = 0, [], [], {}
    for step in story:
        if isinstance(step, End):
            offsets = transactions.pop(step.producer)
            if step.how is ABORT:
                rows.append((step.producer, offsets[0], offset))
            else:
                seen += offsets
            offset += 1
            continue
        offsets = list(range(offset, offset + step.records))
        offset += step.records
        if step.producer < 0:
            seen += offsets
        else:
            transactions.setdefault(step.producer, []).extend(offsets)
    stable = min((offsets[0] for offsets in transactions.values()), default=offset)
    return Told(sorted(each for each in seen if each < stable), rows, stable, offset)


TOLD = told_by(STORY)


def soon():
    return asyncio.get_running_loop().time() + 10.0


async def write(partition, story=STORY):
    """Append a story at the leader."""
    state, sequences = partition.log_state, {}
    for number, step in enumerate(story):
        term = partition.leader_epoch
        if isinstance(step, End):
            first = state.transactions.open_of(step.producer).first_offset
            marker = encode_marker(Marker(step.producer, 0, step.how, 0, first, Prepare(1, number)), 0)
            stages = partition.write_marker(marker, term, soon())
        else:
            is_transactional, first = step.producer >= 0, sequences.get(step.producer, 0)
            sequences[step.producer] = first + step.records
            batch = build_batch(
                *[VALUE] * step.records,
                producer_id=step.producer,
                base_sequence=first if is_transactional else -1,
                attributes=TRANSACTIONAL if is_transactional else 0,
            )
            guard = state.fences.guard(step.producer) if is_transactional else None
            stages = partition.produce(
                *(bytearray(batch), step.records, ConsistencyLevel.QUORUM_ACK, soon(), term),
                guard=guard,
                is_durable=is_transactional,
            )
        await stages.replicated


def with_story(tmp_path, test, **options):
    """Run a test with a broker, a client, and the partition that has the story in it, in several segments."""

    async def body():
        async with broker_in(tmp_path, defaults=SEGMENTS, **options) as broker:
            client = await broker.client()
            topic_id = await client.create_topic("t", 2)
            partition = broker.partition("t")
            await write(partition)
            assert partition.high_watermark == TOLD.end
            assert len(consensus_of(partition).log._segments) >= 5
            await test(broker, client, partition, topic_id)

    run(body)


def told_rows(result):
    return [(each.producer_id, each.first_offset) for each in result.aborted_transactions]


def expected_rows(begin, end):
    return [(producer, first) for producer, first, marker in TOLD.rows if first < end and marker >= begin]


def seen_in(result, offset):
    """Return what a client shows of an answer, and where the answer ends; and check that it shows the right records."""
    aborted = [AbortedTransaction(*row) for row in told_rows(result)]
    layout = read_layout(joined(result), aborted)
    shown = [each.offsets() for each in layout if not each.is_control and not each.is_aborted]
    shown = sorted(each for offsets in shown for each in offsets if each >= offset)
    end = layout[-1].end if layout else offset
    assert shown == [each for each in TOLD.seen if offset <= each < end]
    return layout, end


async def committed(client, offset, **fields):
    result = await client.fetch("t", offset, isolation_level=1, **fields)
    assert (result.error_code, result.last_stable_offset, result.high_watermark) == (0, TOLD.stable, TOLD.end)
    return result


def test_the_story_has_what_it_is_for():
    assert TOLD.rows[0][2] > TOLD.rows[0][1] + 1
    assert TOLD.stable < TOLD.rows[-1][1] < TOLD.end
    assert [first for _, first, _ in TOLD.rows] != sorted(first for _, first, _ in TOLD.rows)
    assert TOLD.seen


@pytest.mark.parametrize("raft", [FAST, FROM_FILES], ids=["in memory", "from files"])
def test_a_read_from_any_offset_tells_the_aborted_transactions_of_what_it_returns(tmp_path, raft):
    async def test(broker, client, partition, topic_id):
        for max_bytes in (1, 700, 1_000_000):
            for offset in range(TOLD.stable):
                result = await committed(client, offset, partition_max_bytes=max_bytes)
                layout, end = seen_in(result, offset)
                assert end <= TOLD.stable
                # In the order of their markers, and no others: as Kafka does.
                rows = expected_rows(layout[0].begin, end)
                if sent_bytes(broker) == 0:
                    assert told_rows(result) == rows
                else:
                    assert set(rows) <= set(told_rows(result)) <= set(expected_rows(layout[0].begin, TOLD.end))
        assert (sent_bytes(broker) > 0) == (raft is FROM_FILES)
        result = await committed(client, TOLD.stable)
        assert (joined(result), told_rows(result)) == (b"", [])

    with_story(tmp_path, test, raft=raft)


@pytest.mark.parametrize("raft", [FAST, FROM_FILES], ids=["in memory", "from files"])
def test_a_reader_that_goes_on_from_answer_to_answer_sees_every_committed_record_once(tmp_path, raft):
    async def test(broker, client, partition, topic_id):
        for reader in (client, await broker.client()):
            offset, seen = 0, []
            while offset < TOLD.stable:
                result = await committed(reader, offset, partition_max_bytes=600)
                _, end = seen_in(result, offset)
                seen += [each for each in TOLD.seen if offset <= each < end]
                offset = end
            assert seen == TOLD.seen
        assert (sent_bytes(broker) > 0) == (raft is FROM_FILES)

    with_story(tmp_path, test, raft=raft)


def test_every_version_of_fetch_tells_aborted_transactions_at_read_committed_only(tmp_path):
    async def test(broker, client, partition, topic_id):
        served = SERVED[ApiKey.FETCH]
        assert served.first_version == 4
        for version in range(served.first_version, served.last_version + 1):
            ids = {"topic_id": topic_id} if version >= FIRST_VERSION_WITH_TOPIC_ID else {}
            for offset in (0, 4):
                result = await committed(client, offset, version=version, **ids)
                _, end = seen_in(result, offset)
                assert (end, told_rows(result)) == (TOLD.stable, expected_rows(offset, TOLD.stable))
                result = await client.fetch("t", offset, version=version, **ids)
                assert result.aborted_transactions is None
                assert read_layout(joined(result))[-1].end == TOLD.end

    with_story(tmp_path, test)


def test_a_session_tells_aborted_transactions_in_each_of_its_answers(tmp_path):
    async def test(broker, client, partition, topic_id):
        request = fetch_request("t", 0, session_epoch=0, isolation_level=1, partition_max_bytes=600)
        response = await client.call(ApiKey.FETCH, 12, request)
        _, end = seen_in(response.responses[0].partitions[0], 0)
        session = {"session_id": response.session_id, "isolation_level": 1}
        request = fetch_request("t", end, session_epoch=1, **session)
        response = await client.call(ApiKey.FETCH, 12, request)
        result = response.responses[0].partitions[0]
        _, last = seen_in(result, end)
        assert (last, told_rows(result)) == (TOLD.stable, expected_rows(end, TOLD.stable))

    with_story(tmp_path, test)


def test_offsets_are_listed_as_before(tmp_path):
    async def test(broker, client, partition, topic_id):
        async def listed(timestamp, isolation):
            asked = ListOffsetsRequest.ListOffsetsPartition(
                partition_index=0, current_leader_epoch=-1, timestamp=timestamp
            )
            topics = [ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[asked])]
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
            result = (await client.call(ApiKey.LIST_OFFSETS, 9, request)).topics[0].partitions[0]
            return result.error_code, result.offset

        assert [await listed(LATEST, level) for level in (0, 1)] == [(0, TOLD.end), (0, TOLD.stable)]
        assert [await listed(EARLIEST, level) for level in (0, 1)] == [(0, 0), (0, 0)]

    with_story(tmp_path, test)


async def delete_up_to(partition, offset):
    """Delete records, and return once their segments have left the log."""
    log = consensus_of(partition).log
    first = await log.reader.index_of_offset(Offset(offset))
    kept = log._segments.holding(first)[0]
    assert await partition.delete_records(offset, soon()) == offset
    await until(lambda: log._segments[0] is kept)


def disturb_once(monkeypatch, partition, change, *, before):
    """Let `change` happen once while rows are looked up, `before` the look-up or behind it; return what has happened."""
    reader, done = consensus_of(partition).log.reader, []
    owner, name = (reader, "_rows_within") if before else (reader._aborted, "within")
    look_up = getattr(owner, name)

    async def disturbed(*where):
        found = None if before else await look_up(*where)
        if not done:
            done.append(change)
            await change()
        return await look_up(*where) if before else found

    monkeypatch.setattr(owner, name, disturbed)
    return done


@pytest.mark.parametrize("before", [True, False], ids=["before the look-up", "behind the look-up"])
def test_what_retention_removes_between_a_read_and_its_rows_is_not_answered(tmp_path, monkeypatch, before):
    """Schedule 11: without rows a reader would see aborted records, and with rows of another view no committed ones."""

    async def test(broker, client, partition, topic_id):
        # The markers of the first two aborted transactions go with their segments.
        behind = TOLD.rows[1][2] + 1
        done = disturb_once(monkeypatch, partition, lambda: delete_up_to(partition, behind), before=before)
        result = await client.fetch("t", 1, isolation_level=1)
        assert done
        assert (result.error_code, joined(result)) == (ErrorCode.OFFSET_OUT_OF_RANGE, b"")
        assert result.aborted_transactions is None
        result = await committed(client, behind)
        layout, end = seen_in(result, behind)
        assert (end, told_rows(result)) == (TOLD.stable, expected_rows(layout[0].begin, TOLD.stable))

    with_story(tmp_path, test)


@pytest.mark.parametrize("before", [True, False], ids=["before the look-up", "behind the look-up"])
def test_a_log_start_that_moves_up_to_what_is_read_leaves_the_rows(tmp_path, monkeypatch, before):
    async def test(broker, client, partition, topic_id):
        producer, first, marker = TOLD.rows[2]
        begin = first + 1
        done = disturb_once(monkeypatch, partition, lambda: delete_up_to(partition, begin), before=before)
        result = await committed(client, begin)
        assert done
        layout, end = seen_in(result, begin)
        assert told_rows(result) == expected_rows(layout[0].begin, end)
        assert (producer, first) in told_rows(result)
        assert partition.start_offset == begin < marker

    with_story(tmp_path, test)


def test_what_a_response_has_of_aborted_transactions_is_counted_as_its_memory(tmp_path, monkeypatch):
    async def test(broker, client, partition, topic_id):
        covered, cover = [], FetchLease.cover

        async def watched(lease, size):
            covered.append(size)
            return await cover(lease, size)

        monkeypatch.setattr(FetchLease, "cover", watched)
        result = await committed(client, 0)
        assert covered == [len(joined(result)) + 16 * len(told_rows(result))]
        assert told_rows(result)

    with_story(tmp_path, test)


def test_an_answer_without_batches_tells_no_aborted_transactions(tmp_path):
    async def test(broker, client, partition, topic_id):
        await write(broker.partition("t", 1))
        batch = joined(await committed(client, 0, partition_max_bytes=1))
        request = fetch_request("t", 0, isolation_level=1, max_bytes=len(batch) + 50)
        request.topics[0].partitions.append(
            FetchRequest.FetchPartition(partition=1, fetch_offset=1, partition_max_bytes=1_000_000)
        )
        response = await client.call(ApiKey.FETCH, 12, request)
        first, second = response.responses[0].partitions
        assert (joined(first), told_rows(first)) == (batch, [])
        assert (second.error_code, joined(second), second.aborted_transactions) == (0, b"", [])

    with_story(tmp_path, test)


def test_a_log_without_transactions_looks_up_no_rows(tmp_path):
    async def test():
        async with broker_in(tmp_path, defaults=SEGMENTS) as broker:
            client = await broker.client()
            await client.create_topic("t")
            for _ in range(12):
                assert (await client.produce("t", build_batch(VALUE))).error_code == 0
            log = consensus_of(broker.partition("t")).log
            assert len(log._segments) >= 3
            # Whoever asked for the rows of a segment would fail.
            log.reader._aborted._rows_of = None
            result = await client.fetch("t", 0, isolation_level=1)
            assert (result.error_code, told_rows(result)) == (0, [])
            assert read_layout(joined(result))[-1].end == 12

    run(test)
