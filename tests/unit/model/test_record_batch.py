"""The header of a v2 batch: what is refused, by which error, and that hostile bytes meet no other."""

import struct

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.record_batch import (
    HEADER_BYTES,
    BatchChecksumError,
    MalformedBatchError,
    check_batch,
    read_header,
    stamp,
)
from tests.unit.model.record_batches import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, ZSTD, build_batch


def _with(batch: bytes, position: int, value: bytes) -> bytes:
    """Overwrite bytes and make the CRC right again."""
    changed = bytearray(batch)
    changed[position : position + len(value)] = value
    changed[17:21] = struct.pack(">I", crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)


def test_a_good_batch_is_taken_and_all_fields_are_read():
    batch = build_batch(b"a", b"bb", timestamps=[5, 9], base_offset=7, leader_epoch=3)
    header = check_batch(batch)
    assert header.base_offset == 7
    assert header.leader_epoch == 3
    assert header.magic == 2
    assert header.size == len(batch)
    assert (header.base_timestamp, header.max_timestamp) == (5, 9)
    assert (header.record_count, header.last_offset_delta) == (2, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def test_the_attributes_say_codec_transaction_control_and_time():
    plain = check_batch(build_batch())
    assert (plain.codec, plain.is_transactional, plain.is_control, plain.uses_log_append_time) == (
        0,
        False,
        False,
        False,
    )
    full = check_batch(build_batch(codec=ZSTD, attributes=LOG_APPEND_TIME | TRANSACTIONAL | CONTROL))
    assert (full.codec, full.is_transactional, full.is_control, full.uses_log_append_time) == (4, True, True, True)


@pytest.mark.parametrize("size", [0, 1, 12, HEADER_BYTES - 1])
def test_fewer_bytes_than_a_header_are_refused(size):
    with pytest.raises(MalformedBatchError, match=f"{size} bytes are too few"):
        check_batch(build_batch()[:size])


@pytest.mark.parametrize("magic", [-1, 0, 1, 3, 127])
def test_another_magic_is_refused(magic):
    with pytest.raises(MalformedBatchError, match=f"magic {magic} is not supported"):
        check_batch(build_batch(magic=magic))


def test_a_batch_cut_off_at_the_end_is_refused():
    batch = build_batch()
    with pytest.raises(MalformedBatchError, match=f"a batch of {len(batch)} bytes in {len(batch) - 1} bytes"):
        check_batch(batch[:-1])


def test_two_batches_are_refused():
    with pytest.raises(MalformedBatchError, match="a batch of"):
        check_batch(build_batch() + build_batch())


@pytest.mark.parametrize("length", [-(2**31), -13, -12, 0, 2**31 - 1])
def test_an_impossible_length_is_refused(length):
    with pytest.raises(MalformedBatchError, match="a batch of"):
        check_batch(_with(build_batch(), 8, struct.pack(">i", length)))


@pytest.mark.parametrize(("count", "last"), [(0, -1), (-1, -2), (2, 0), (1, 1), (-(2**31), 2**31 - 1), (2**31 - 1, 0)])
def test_counts_that_contradict_each_other_are_refused(count, last):
    with pytest.raises(MalformedBatchError, match=f"{count} records with a last offset delta of {last}"):
        check_batch(build_batch(count=count, last_offset_delta=last))


@pytest.mark.parametrize("position", [17, 21, 27, 43, 61, -1])
def test_a_flipped_bit_under_the_crc_is_noticed(position):
    batch = bytearray(build_batch())
    batch[position] ^= 0x80
    with pytest.raises(BatchChecksumError, match="CRC32C"):
        check_batch(batch)


def test_a_checksum_error_is_a_malformed_batch_too():
    assert issubclass(BatchChecksumError, MalformedBatchError)


def test_stamping_changes_offset_and_epoch_and_nothing_else():
    original = build_batch(b"a", b"b")
    batch = bytearray(original)
    stamp(batch, 2**62, 2**31 - 1)
    header = check_batch(batch)
    assert (header.base_offset, header.leader_epoch) == (2**62, 2**31 - 1)
    assert batch[8:12] == original[8:12]
    assert batch[16:] == original[16:]


def test_a_header_is_read_in_the_middle_of_a_buffer():
    batch = build_batch(base_offset=5)
    assert read_header(b"xyz" + batch, 3) == read_header(batch)
    with pytest.raises(MalformedBatchError):
        read_header(b"xyz" + batch[: HEADER_BYTES - 1], 3)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_is_taken(kind):
    assert check_batch(kind(build_batch())).record_count == 1


@given(st.binary(max_size=200))
def test_hostile_bytes_meet_a_named_error(data):
    with pytest.raises(MalformedBatchError):
        check_batch(data)


@given(st.integers(0, 66), st.binary(min_size=1, max_size=8))
def test_a_batch_with_overwritten_bytes_is_refused_or_consistent(position, value):
    batch = build_batch(b"a", b"b", b"c")
    changed = _with(batch, position, value[: len(batch) - position])
    try:
        header = check_batch(changed)
    except MalformedBatchError:
        return
    assert header.size == len(changed)
    assert header.record_count == header.last_offset_delta + 1 >= 1
    assert header.magic == 2
