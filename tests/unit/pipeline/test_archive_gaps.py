"""Why offsets have no record: batches as brokers store them, and what is said of the gaps between records."""

import struct
from collections.abc import Callable, Sequence

import pytest

from raftka.kafka.wire.fields import AnswerError
from raftka.kafka.wire.record_batches import AbortedTransaction, read_layout
from raftka.pipeline.archive.blocks import Span
from raftka.pipeline.archive.gaps import Cause, Piece, Told, causes, tallied
from tests.unit.model.record_batches import CONTROL, GZIP, LZ4, NONE, SNAPPY, TRANSACTIONAL, ZSTD, packed, varint
from tests.unit.model.record_batches import build_batch as batch
from tests.unit.model.record_batches import record as encoded

ABORT, COMMIT = 0, 1


def marker(at: int, kind: int, producer: int) -> bytes:
    """Return the mark with which a broker ends a transaction, as Kafka writes it."""
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)
    body = b"\0" + varint(0) + varint(0) + varint(len(key)) + key + varint(len(value)) + value + varint(0)
    attributes = TRANSACTIONAL | CONTROL
    return batch(payload=varint(len(body)) + body, attributes=attributes, producer_id=producer, base_offset=at)


def sent(at: int, count: int, producer: int) -> bytes:
    """Return records of a transaction."""
    return batch(*[b"v"] * count, attributes=TRANSACTIONAL, producer_id=producer, base_offset=at)


def compacted(at: int, size: int, left: Sequence[int], codec: int = NONE) -> bytes:
    """Return a batch of which compaction has left the records at these places."""
    records = packed(codec, b"".join(encoded(b"v", offset_delta=delta) for delta in left))
    return batch(payload=records, count=len(left), last_offset_delta=size - 1, codec=codec, base_offset=at)


def reader(log: bytes, end: int, aborted: Sequence[AbortedTransaction] = ()) -> Callable[[int], Piece]:
    def read(offset: int) -> Piece:
        return Piece([each for each in read_layout(log, aborted) if each.end > offset], end)

    return read


def told(
    gaps: Sequence[Span], read: Callable[[int], Piece], *, is_compacted: bool = False
) -> list[tuple[str, int, int]]:
    return [(cause.value, span.begin, span.end) for cause, span in causes(gaps, read, is_compacted=is_compacted)]


def test_marks_of_transactions_are_control_records_whatever_was_read() -> None:
    log = sent(0, 3, 7) + marker(3, COMMIT, 7) + sent(4, 1, 7) + marker(5, COMMIT, 7)
    assert told([Span(3, 4), Span(5, 6)], reader(log, 6)) == [("control", 3, 4), ("control", 5, 6)]


def test_records_of_an_aborted_transaction_are_no_records_where_the_answer_says_so() -> None:
    log = (
        sent(0, 2, 7)
        + sent(2, 2, 8)
        + marker(4, ABORT, 7)
        + sent(5, 2, 7)
        + marker(7, COMMIT, 7)
        + marker(8, COMMIT, 8)
    )
    gaps = [Span(0, 2), Span(4, 5), Span(7, 9)]
    aborted = [AbortedTransaction(7, 0)]
    control = [("control", 4, 5), ("control", 7, 8), ("control", 8, 9)]
    assert told(gaps, reader(log, 9, aborted)) == [("aborted", 0, 2), *control]
    # With read_uncommitted there are no aborted ones, and every record is to be there.
    assert told(gaps, reader(log, 9)) == [("record", 0, 2), *control]
    # What the same producer has committed behind its mark is to be seen, and so is what another one has.
    assert told([Span(2, 4), Span(5, 7)], reader(log, 9, aborted)) == [("record", 2, 4), ("record", 5, 7)]


def test_a_producer_may_abort_again_and_again() -> None:
    log = (
        sent(0, 1, 7) + marker(1, ABORT, 7) + sent(2, 1, 7) + marker(3, COMMIT, 7) + sent(4, 1, 7) + marker(5, ABORT, 7)
    )
    layout = read_layout(log, [AbortedTransaction(7, 4), AbortedTransaction(7, 0)])
    assert [(each.is_control, each.is_aborted) for each in layout] == [
        *((False, True), (True, False), (False, False), (True, False), (False, True), (True, False))
    ]


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_places_in_a_batch_and_between_batches_are_compacted_away_where_that_may_be(codec: int) -> None:
    log = compacted(10, 6, [1, 4], codec) + compacted(20, 3, []) + batch(b"a", b"b", base_offset=30)
    gaps = [Span(5, 11), Span(12, 14), Span(15, 30)]
    spans = [(5, 10), (10, 11), (12, 14), (15, 16), (16, 20), (20, 23), (23, 30)]
    assert told(gaps, reader(log, 32), is_compacted=True) == [("compacted", *each) for each in spans]
    assert told(gaps, reader(log, 32)) == [("unknown", *each) for each in spans]


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_record_that_the_log_has_is_no_gap(is_compacted: bool) -> None:
    log = batch(b"a", b"b", b"c", base_offset=0) + compacted(3, 4, [0, 1, 3])
    nothing = "compacted" if is_compacted else "unknown"
    found = told([Span(1, 2), Span(4, 7)], reader(log, 7), is_compacted=is_compacted)
    assert found == [("record", 1, 2), ("record", 4, 5), (nothing, 5, 6), ("record", 6, 7)]


def test_the_log_is_read_on_piece_by_piece_and_only_where_there_are_gaps() -> None:
    asked = []

    def read(offset: int) -> Piece:
        asked.append(offset)
        base = offset - offset % 10
        return Piece(read_layout(batch(*[b"v"] * 9, base_offset=base) + marker(base + 9, COMMIT, 7)), base + 10)

    found = told([Span(9, 10), Span(39, 40), Span(45, 51), Span(59, 60)], read)
    assert found == [
        *(("control", 9, 10), ("control", 39, 40), ("record", 45, 49), ("control", 49, 50)),
        *(("record", 50, 51), ("control", 59, 60)),
    ]
    assert asked == [9, 39, 45, 50]


def test_what_the_log_has_given_up_since_is_not_held_against_anybody() -> None:
    def read(offset: int) -> Piece:
        if offset < 20:
            return Piece([], 20, is_gone=True)
        return Piece(read_layout(marker(20, COMMIT, 7)), 21)

    assert told([Span(5, 8), Span(15, 21)], read) == [("expired", 5, 8), ("expired", 15, 20), ("control", 20, 21)]


def test_where_nothing_can_be_read_nothing_is_explained_and_nobody_is_asked_again() -> None:
    asked = []

    def read(offset: int) -> Piece:
        asked.append(offset)
        return Piece([], offset)

    found = told([Span(5, 8), Span(15, 21)], read, is_compacted=True)
    assert found == [("unknown", 5, 8), ("unknown", 15, 21)]
    assert asked == [5]


def test_a_batch_whose_records_cannot_be_read_explains_nothing() -> None:
    log = batch(payload=b"\xff" * 9, count=2, last_offset_delta=3, codec=ZSTD)
    assert told([Span(1, 3)], reader(log, 4), is_compacted=True) == [("unknown", 1, 3)]


def test_no_gap_asks_for_nothing() -> None:
    def read(_: int) -> Piece:
        raise AssertionError

    assert told([], read) == []


def test_causes_are_summed_up_with_the_first_and_the_last_offset() -> None:
    found = [(Cause.UNKNOWN, Span(1, 3)), (Cause.CONTROL, Span(5, 6)), (Cause.UNKNOWN, Span(9, 10))]
    assert tallied(found) == (
        Told(cause=Cause.CONTROL, offsets=1, first=5, last=5),
        Told(cause=Cause.UNKNOWN, offsets=3, first=1, last=9),
    )


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (batch(b"a", magic=1), "magic 1"),
        (batch(b"a", count=3, last_offset_delta=1), "has 3 records up to offset 1"),
        (batch(b"a", base_offset=5) + batch(b"b", base_offset=5), "has 1 records"),
        (batch(payload=b"\x01", attributes=CONTROL), "within its key"),
    ],
)
def test_batches_that_contradict_themselves_are_not_read(log: bytes, why: str) -> None:
    with pytest.raises(AnswerError, match=why):
        read_layout(log)


def test_a_batch_that_is_cut_off_is_left_for_the_next_answer() -> None:
    whole, cut = batch(b"a", b"b"), batch(b"c", base_offset=2)
    assert [(each.begin, each.end) for each in read_layout(whole + cut[:-1])] == [(0, 2)]
