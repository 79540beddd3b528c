"""Records as log compaction sees them: what clients have written is found, and anything else is refused."""

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.record_batch import HEADER_BYTES, check_batch, read_header
from model.record_codec import CorruptRecordsError, unpack_records
from model.record_filter import filtered_batch, keyed_records
from tests.unit.model.record_batches import LOG_APPEND_TIME, SNAPPY, build_batch, packed, varint

MAYBE = st.none() | st.binary(max_size=200)


def record(delta: int, key: bytes | None, value: bytes | None, timestamp_delta: int = 0) -> bytes:
    parts = [b"\0", varint(timestamp_delta), varint(delta)]
    for each in (key, value):
        parts += [varint(-1)] if each is None else [varint(len(each)), each]
    body = b"".join([*parts, varint(0)])
    return varint(len(body)) + body


def batch_of(records: list[bytes], **how: object) -> bytes:
    body = b"".join(records)
    return build_batch(*[b""] * len(records), payload=body, **how)  # type: ignore[arg-type]


@given(
    records=st.lists(st.tuples(MAYBE, MAYBE, st.integers(-(2**40), 2**40)), min_size=1, max_size=80),
    kept=st.sets(st.integers(0, 79), min_size=1),
    codec=st.integers(0, 4),
)
def test_what_is_kept_of_a_batch_has_its_bytes_offsets_and_times(
    records: list[tuple[bytes | None, bytes | None, int]], kept: set[int], codec: int
) -> None:
    encoded = [record(delta, key, value, time) for delta, (key, value, time) in enumerate(records)]
    batch = build_batch(*[b""] * len(records), codec=codec, payload=packed(codec, b"".join(encoded)))
    header, data = read_header(batch), unpack_records(batch)
    found = keyed_records(header, data)
    for delta, (each, (key, value, time)) in enumerate(zip(found, records, strict=True)):
        assert data[each.begin : each.end] == encoded[delta]
        assert (each.offset_delta, each.timestamp_delta, each.key) == (delta, time, key)
        assert each.deletes == (key is not None and value is None)
    chosen = [each for each in found if each.offset_delta in kept] or found[:1]
    rebuilt = filtered_batch(batch, header, data, chosen)
    after = read_header(rebuilt)
    assert unpack_records(rebuilt) == b"".join(encoded[each.offset_delta] for each in chosen)
    assert (after.size, after.record_count) == (len(rebuilt), len(chosen))
    assert (after.base_offset, after.last_offset_delta) == (header.base_offset, header.last_offset_delta)
    assert (after.codec, after.base_timestamp) == (codec, header.base_timestamp)
    assert after.max_timestamp == header.base_timestamp + max(each.timestamp_delta for each in chosen)
    if len(chosen) == len(found):
        assert check_batch(rebuilt).record_count == len(found)


def test_the_largest_time_stays_where_times_are_the_brokers() -> None:
    batch = batch_of([record(0, b"a", b"1"), record(1, b"b", b"1", 70)], attributes=LOG_APPEND_TIME)
    header, data = read_header(batch), unpack_records(batch)
    rebuilt = filtered_batch(batch, header, data, keyed_records(header, data)[:1])
    assert read_header(rebuilt).max_timestamp == header.max_timestamp


def test_raw_snappy_stays_raw() -> None:
    body = record(0, b"a", b"1" * 90) + record(1, b"b", b"1")
    batch = build_batch(b"", b"", codec=SNAPPY, payload=bytes(cramjam.snappy.compress_raw(body)))
    header, data = read_header(batch), unpack_records(batch)
    rebuilt = filtered_batch(batch, header, data, keyed_records(header, data)[1:])
    assert bytes(cramjam.snappy.decompress_raw(rebuilt[HEADER_BYTES:])) == record(1, b"b", b"1")


@given(st.binary(max_size=60), st.integers(1, 3), st.integers(0, 5))
def test_garbage_is_refused(data: bytes, count: int, last_delta: int) -> None:
    header = read_header(build_batch(*[b""] * count))._replace(last_offset_delta=last_delta)
    try:
        found = keyed_records(header, data)
    except CorruptRecordsError:
        return
    assert b"".join(data[each.begin : each.end] for each in found) == data
    assert all(0 <= each.offset_delta <= last_delta for each in found)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: b"\1" + data[1:]])
def test_records_that_are_cut_off_or_followed_by_something_are_refused(change: object) -> None:
    batch = batch_of([record(0, b"a", b"1"), record(1, b"b", b"1")])
    with pytest.raises(CorruptRecordsError):
        list(keyed_records(read_header(batch), change(unpack_records(batch))))  # type: ignore[operator]
