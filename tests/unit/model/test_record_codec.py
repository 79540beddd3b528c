"""Looking into a batch: every codec, and what hostile records meet."""

import tracemalloc

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.record_batch import CODECS, read_header
from model.record_codec import CorruptRecordsError, RecordPosition, record_positions, unpack, unpack_records
from tests.unit.model.record_batches import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    build_batch,
    packed,
    record,
    varint,
    xerial,
)

EVERY_CODEC = pytest.mark.parametrize("codec", range(len(CODECS)), ids=CODECS)


def records(batch):
    return record_positions(read_header(batch), unpack_records(batch))


@EVERY_CODEC
def test_records_are_found_behind_every_codec(codec):
    batch = build_batch(b"a" * 5000, b"b", b"c", timestamps=[100, 90, 300], codec=codec, base_offset=40)
    assert list(records(batch)) == [RecordPosition(40, 100), RecordPosition(41, 90), RecordPosition(42, 300)]


def test_librdkafkas_raw_snappy_is_read():
    payload = bytes(cramjam.snappy.compress_raw(record(b"x" * 1000)))
    assert len(list(records(build_batch(codec=SNAPPY, payload=payload)))) == 1


def test_snappy_in_several_xerial_blocks_is_read():
    data = record(b"x" * 1000)
    payload = xerial([data[:100], data[100:900], b"", data[900:]])
    assert unpack(SNAPPY, memoryview(payload)) == data


def test_times_before_the_first_record_are_read():
    batch = build_batch(b"a", b"b", timestamps=[1000, -5])
    assert list(records(batch)) == [RecordPosition(0, 1000), RecordPosition(1, -5)]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_a_named_error(codec):
    with pytest.raises(CorruptRecordsError, match=f"codec {codec}"):
        list(records(build_batch(codec=codec, payload=b"abc")))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("payload", [b"\xff" * 40, b"\x82SNAPPY\x00" + b"\xff" * 40])
def test_garbage_in_place_of_compressed_records_is_a_named_error(codec, payload):
    with pytest.raises(CorruptRecordsError):
        list(records(build_batch(codec=codec, payload=payload)))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_compressed_records_that_are_cut_off_are_a_named_error(codec):
    whole = packed(codec, record(b"abcdefgh" * 100))
    with pytest.raises(CorruptRecordsError):
        list(records(build_batch(codec=codec, payload=whole[:-9])))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_is_larger_than_the_first_guess_is_read_all_the_same(codec):
    data = b"\0" * (20 * 1024 * 1024)
    assert unpack(codec, memoryview(packed(codec, data))) == data


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_meets_the_bound(codec):
    assert len(unpack(codec, memoryview(packed(codec, bytes(100_000))), 100_000)) == 100_000
    with pytest.raises(CorruptRecordsError):
        unpack(codec, memoryview(packed(codec, bytes(100_001))), 100_000)


def test_a_snappy_bomb_in_many_small_blocks_meets_the_bound():
    with pytest.raises(CorruptRecordsError, match="more than 100000"):
        unpack(SNAPPY, memoryview(xerial([bytes(50_000)] * 3)), 100_000)


def test_a_snappy_block_that_announces_4_gib_is_refused_before_memory_is_taken():
    with pytest.raises(CorruptRecordsError, match="4294967295"):
        unpack(SNAPPY, memoryview(b"\xff\xff\xff\xff\x0f"))


def test_a_snappy_block_cannot_announce_more_than_it_can_hold():
    with pytest.raises(CorruptRecordsError, match="8 bytes say that they unpack to 268435455, more than they can"):
        unpack(SNAPPY, memoryview(b"\xff\xff\xff\x7f1234"))


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
@pytest.mark.parametrize("garbage", [b"", b"abc", b"\x1f\x8b" + b"\xff" * 30])
def test_a_few_bytes_of_garbage_take_no_more_memory_than_they_can_stand_for(codec, garbage):
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordsError):
            unpack(codec, memoryview(garbage))
        assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        varint(100) + b"\0" * 10,
        varint(-1) + b"\0" * 10,
        b"\xff" * 20,
        varint(2) + b"\0\x80",
        record(b"x")[:-1],
    ],
    ids=["none", "past the end", "negative length", "endless varint", "cut varint", "short by one"],
)
def test_records_that_contradict_their_lengths_are_a_named_error(payload):
    with pytest.raises(CorruptRecordsError):
        list(records(build_batch(payload=payload)))


@pytest.mark.parametrize("size", range(6))
def test_a_record_shorter_than_any_record_is_refused(size):
    with pytest.raises(CorruptRecordsError):
        list(records(build_batch(payload=varint(size) + b"\0" * 50)))


@pytest.mark.parametrize("delta", [-1, 1, 2**31, 2**62, -(2**62)])
def test_an_offset_outside_the_batch_is_refused(delta):
    with pytest.raises(CorruptRecordsError, match="offset"):
        list(records(build_batch(payload=record(b"x", offset_delta=delta))))


@pytest.mark.parametrize("delta", [2**63, 2**64, -(2**63) - 2000])
def test_a_time_that_no_response_can_say_is_refused(delta):
    with pytest.raises(CorruptRecordsError, match="timestamp"):
        list(records(build_batch(payload=record(b"x", timestamp_delta=delta))))


def test_more_records_announced_than_there_are_is_a_named_error():
    with pytest.raises(CorruptRecordsError):
        list(records(build_batch(payload=record(b"x"), count=2**31 - 1)))


@settings(deadline=None, max_examples=30)
@given(st.binary(max_size=120), st.integers(0, 7), st.integers(1, 2**31 - 1))
def test_hostile_records_meet_a_named_error_or_positions_inside_the_batch(payload, codec, count):
    batch = build_batch(payload=payload, codec=codec, count=count, base_offset=17)
    try:
        for position in records(batch):
            assert 17 <= position.offset < 17 + count
            assert -(2**63) <= position.timestamp < 2**63
    except CorruptRecordsError:
        pass
