"""Why offsets of Raftka's own log have no record, as `archive verify` reads it: markers, and records that were aborted."""

import asyncio

import pytest

from kafka_api.protocol.error_codes import ErrorCode
from model.topic_config import TopicConfig
from raftka.pipeline.archive.blocks import Span
from raftka.pipeline.archive.gaps import causes
from raftka.pipeline.archive.log_pieces import LogPieces
from tests.engine import consensus_of
from tests.unit.kafka_api.transactions.transaction_calls import Producer, found, with_transactions
from tests.unit.model.record_batches import build_batch

# Offsets of the log below, by what lies there.
COMMITTED, ABORTED, MARKERS = [0, 3, 8, 12, 13], [1, 2, 5, 6, 10], [4, 7, 9, 11, 14]
END = 15


async def write(producer, second):
    """Two producers whose transactions overlap, and nobody's records between them; in several segments."""
    none = ErrorCode.NONE
    value = b"v" * 200
    assert (await producer.client.produce("t", build_batch(value))).error_code == 0
    assert await producer.send(value, value) is none
    assert await second.send(value) is none
    assert await producer.end(is_commit=False) is none
    await producer.until_state("CompleteAbort")
    assert await producer.send(value, value) is none
    assert await producer.end(is_commit=False) is none
    await producer.until_state("CompleteAbort")
    assert await second.send(value) is none
    assert await second.end() is none
    await second.until_state("CompleteCommit")
    assert await second.send(value) is none
    assert await second.end(is_commit=False) is none
    await second.until_state("CompleteAbort")
    assert await producer.send(value, value) is none
    assert await producer.end() is none
    await producer.until_state("CompleteCommit")


@pytest.mark.parametrize("segment_bytes", [600, 1 << 20], ids=["several segments", "one segment"])
def test_gaps_of_raftkas_log_are_markers_and_aborted_records(tmp_path, segment_bytes):
    @with_transactions(defaults=TopicConfig(segment_bytes=segment_bytes), seconds=60)
    async def test(broker, producer):
        await producer.init()
        second = await (await found(Producer(producer.client, name="second"))).init()
        await write(producer, second)
        log = consensus_of(broker.partition("t")).log
        assert (len(log._segments) > 2) == (segment_bytes == 600)
        assert broker.partition("t").high_watermark == END == len(COMMITTED + ABORTED + MARKERS)

        def said(isolation):
            with LogPieces(f"127.0.0.1:{broker.port}", isolation) as pieces:
                whole = [Span(0, END)]
                return list(causes(whole, lambda offset: pieces.read("t", 0, offset), is_compacted=False))

        for isolation, records, aborted in (
            ("read_committed", COMMITTED, ABORTED),
            ("read_uncommitted", sorted(COMMITTED + ABORTED), []),
        ):
            told = {"control": [], "aborted": [], "record": []}
            for cause, span in await asyncio.to_thread(said, isolation):
                told[cause.value] += range(span.begin, span.end)
            assert told == {"control": MARKERS, "aborted": aborted, "record": records}

    test(tmp_path)


@with_transactions(seconds=60)
async def test_what_is_open_is_not_told_before_its_end(broker, producer):
    """An archive of what was read at read_committed ends at the last stable offset."""
    await producer.init()
    assert (await producer.client.produce("t", build_batch(b"v"))).error_code == 0
    assert await producer.send() is ErrorCode.NONE

    def read(offset):
        with LogPieces(f"127.0.0.1:{broker.port}", "read_committed") as pieces:
            return pieces.read("t", 0, offset)

    piece = await asyncio.to_thread(read, 0)
    assert [(each.begin, each.is_aborted) for each in piece.batches] == [(0, False)]
    assert piece.end == 1
