"""Markers are Kafka's control batches, and say where the transaction begins and what decided it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.control_batch import NO_PREPARE, Marker, MarkerType, Prepare, decode_marker, encode_marker
from model.key_value_batch import KeyValue, encode_key_values, read_key_values
from model.record_batch import CONTROL_MASK, TRANSACTIONAL_MASK, BatchProducer, check_batch
from model.record_codec import CorruptRecordsError

I64 = st.integers(-(2**63), 2**63 - 1)
MARKERS = st.builds(
    Marker,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.sampled_from(MarkerType),
    st.integers(-(2**31), 2**31 - 1),
    I64,
    st.builds(Prepare, I64, I64),
)


@given(MARKERS)
def test_a_marker_is_read_as_it_was_written(marker):
    batch = encode_marker(marker, 1000)
    assert decode_marker(batch) == marker
    header = check_batch(batch)
    assert (header.is_control, header.is_transactional, header.base_sequence, header.record_count) == (
        True,
        True,
        -1,
        1,
    )


def test_a_marker_has_the_bytes_of_kafkas():
    batch = encode_marker(Marker(7, 3, MarkerType.COMMIT, 5, 40, NO_PREPARE), 1000)
    (record,) = read_key_values(batch)
    # EndTransactionMarker: version and type; version and coordinator epoch.
    assert record.key == bytes.fromhex("0000 0001")
    assert record.value == bytes.fromhex("0000 00000005")
    assert [name for name, _ in record.headers] == [b"raftka"]


def batch_of(*records, attributes=TRANSACTIONAL_MASK | CONTROL_MASK):
    return encode_key_values(records, 0, BatchProducer(7, 3, attributes))


KEY, VALUE, HEADER = bytes(4), bytes(6), (b"raftka", b"\x01" + bytes(24))


@pytest.mark.parametrize(
    "batch",
    [
        batch_of(KeyValue(KEY, VALUE, (HEADER,)), attributes=TRANSACTIONAL_MASK),
        batch_of(KeyValue(KEY, VALUE, (HEADER,)), attributes=CONTROL_MASK),
        batch_of(KeyValue(KEY, VALUE, (HEADER,)), KeyValue(KEY, VALUE, (HEADER,))),
        batch_of(KeyValue(KEY, VALUE)),
        batch_of(KeyValue(KEY, VALUE, ((b"raftka", b"\x02" + bytes(24)),))),
        batch_of(KeyValue(KEY, VALUE, ((b"raftka", b"\x01"),))),
        batch_of(KeyValue(b"\x00\x01\x00\x00", VALUE, (HEADER,))),
        batch_of(KeyValue(b"\x00\x00\x00\x02", VALUE, (HEADER,))),
        batch_of(KeyValue(KEY, b"\x00\x01" + bytes(4), (HEADER,))),
        batch_of(KeyValue(KEY, None, (HEADER,))),
    ],
)
def test_what_is_no_marker_is_refused(batch):
    with pytest.raises(CorruptRecordsError):
        decode_marker(batch)


def test_a_later_decision_is_the_larger_one_in_an_earlier_term_too():
    assert Prepare(2, 90) < Prepare(3, 10) < Prepare(3, 11)
