"""The formats of __transaction_state."""

import dataclasses

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.record_reader import UnreadableRecordError
from cluster.transactions.records import (
    StoredTransaction,
    TopicPartition,
    TransactionState,
    decode_record,
    encode_record,
    encoded_size,
)
from cluster.transactions.transactions_topic import transactions_partition
from model.key_value_batch import KeyValue

EMPTY = StoredTransaction(7, 1, 60_000, TransactionState.EMPTY, frozenset(), 1_700_000_000_000)
ONGOING = StoredTransaction(
    7,
    1,
    60_000,
    TransactionState.ONGOING,
    frozenset({TopicPartition("b", 1), TopicPartition("a", 3), TopicPartition("b", 0)}),
    1_700_000_000_001,
    1_700_000_000_000,
    client_version=2,
)

_I64 = st.integers(-(2**63), 2**63 - 1)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=150)
_PARTITIONS = st.frozensets(st.builds(TopicPartition, _TEXTS, st.integers(-(2**31), 2**31 - 1)), max_size=5)


@st.composite
def stored_transactions(draw):
    state = draw(st.sampled_from(list(TransactionState)[:6]))
    return StoredTransaction(
        draw(_I64),
        draw(st.integers(-(2**15), 2**15 - 1)),
        draw(st.integers(-(2**31), 2**31 - 1)),
        state,
        frozenset() if state is TransactionState.EMPTY else draw(_PARTITIONS),
        draw(_I64),
        draw(_I64),
        draw(st.just(-1) | _I64),
        draw(st.just(-1) | _I64),
        draw(st.sampled_from([0, 0, 2])),
    )


@given(_TEXTS, st.none() | stored_transactions())
@example("x" * 32_767, None)
@example("t", dataclasses.replace(ONGOING, partitions=frozenset(TopicPartition("a", each) for each in range(200))))
def test_a_record_is_read_as_it_was_written_and_its_size_is_told(transactional_id, value):
    record = encode_record(transactional_id, value)
    assert decode_record(record) == (transactional_id, value)
    if value is not None:
        assert encoded_size(transactional_id, value) == len(record.key) + len(record.value)


def test_an_idle_id_is_written_in_kafkas_format():
    record = encode_record("tx", EMPTY)
    assert record.key == b"\x00\x00" + b"\x00\x02tx"
    assert record.value == bytes.fromhex(
        "0001"  # version
        "0000000000000007"  # producer id
        "0001"  # epoch
        "0000ea60"  # 60,000 ms
        "00"  # Empty
        "00"  # no array of partitions
        "0000018bcfe56800"  # last update
        "ffffffffffffffff"  # no start
        "00"  # no tagged field
    )


def test_an_open_transaction_is_written_in_kafkas_format():
    record = encode_record("tx", dataclasses.replace(ONGOING, previous_producer_id=6, next_producer_id=8))
    assert record.value == bytes.fromhex(
        "0001"  # version
        "0000000000000007"  # producer id
        "0001"  # epoch
        "0000ea60"  # 60,000 ms
        "01"  # Ongoing
        "03"  # two topics
        "0261" "02" "00000003" "00"  # a: 3, no tagged field
        "0262" "03" "00000000" "00000001" "00"  # b: 0 and 1
        "0000018bcfe56801"  # last update
        "0000018bcfe56800"  # start
        "03"  # three tagged fields
        "00" "08" "0000000000000006"  # previous producer id
        "01" "08" "0000000000000008"  # next producer id
        "02" "02" "0002"  # client transaction version
    )  # fmt: skip


def test_version_0_of_kafka_is_read():
    value = bytes.fromhex(
        "0000"  # version
        "0000000000000007"  # producer id
        "0001"  # epoch
        "0000ea60"  # 60,000 ms
        "01"  # Ongoing
        "00000002"  # two topics
        "000161" "00000001" "00000003"  # a: 3
        "000162" "00000002" "00000000" "00000001"  # b: 0 and 1
        "0000018bcfe56801"  # last update
        "0000018bcfe56800"  # start
    )  # fmt: skip
    expected = dataclasses.replace(ONGOING, client_version=0)
    assert decode_record(KeyValue(b"\x00\x00\x00\x02tx", value)) == ("tx", expected)


def test_no_partitions_are_null_in_version_0():
    value = bytes.fromhex("0000000000000000000700010000ea6000ffffffff0000018bcfe56800") + b"\xff" * 8
    assert decode_record(KeyValue(b"\x00\x00\x00\x02tx", value)) == ("tx", EMPTY)


def test_tagged_fields_that_are_not_known_are_skipped():
    record = encode_record("tx", EMPTY)
    newer = record.value[:-1] + bytes.fromhex("02020200020302002a")
    assert decode_record(record._replace(value=newer)) == ("tx", dataclasses.replace(EMPTY, client_version=2))


def test_partitions_are_written_in_one_order():
    partitions = [TopicPartition(topic, number) for topic in "cab" for number in (2, 0, 1)]
    forth, back = (
        encode_record("t", dataclasses.replace(ONGOING, partitions=frozenset(order)))
        for order in (partitions, partitions[::-1])
    )
    assert forth == back


@pytest.mark.parametrize("value", [EMPTY, dataclasses.replace(ONGOING, next_producer_id=8)])
def test_a_record_that_is_cut_off_is_refused_by_name(value):
    record = encode_record("tx", value)
    for length in range(len(record.key)):
        with pytest.raises(UnreadableRecordError):
            decode_record(record._replace(key=record.key[:length]))
    for length in range(len(record.value)):
        with pytest.raises(UnreadableRecordError):
            decode_record(record._replace(value=record.value[:length]))


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        (b"\x00\x01\x00\x01t", b"", "a key of version 1"),
        (b"\x00\x00\xff\xff", b"", "a string is missing"),
        (b"\x00\x00\x00\x01\xff", b"", "not UTF-8"),
        (b"\x00\x00\x00\x01t", b"\x00\x02", "a value of version 2"),
        (b"\x00\x00\x00\x01t", encode_record("t", EMPTY).value[:16] + b"\x06" + b"\x00" * 18, "a state of number 6"),
        (b"\x00\x00\x00\x01t", encode_record("t", EMPTY).value[:17] + b"\xff" * 5, "a varint of more than 5 bytes"),
        (b"\x00\x00\x00\x01t", encode_record("t", EMPTY).value[:-1] + b"\x01\x02\x01\x00", "tagged field 2 of 1 bytes"),
    ],
)
def test_a_record_of_another_version_or_damaged_is_refused_by_name(key, value, word):
    with pytest.raises(UnreadableRecordError, match=word):
        decode_record(KeyValue(key, value))


@given(st.binary(max_size=80))
def test_any_value_is_read_or_refused_by_name(data):
    for version in (b"\x00\x00", b"\x00\x01"):
        try:
            transactional_id, value = decode_record(KeyValue(b"\x00\x00\x00\x01t", version + data))
        except UnreadableRecordError:
            continue
        assert decode_record(encode_record(transactional_id, value)) == (transactional_id, value)


def test_states_have_the_names_that_tools_show():
    assert [state.shown for state in TransactionState] == [
        *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
        "PrepareEpochFence",
    ]


@pytest.mark.parametrize(
    ("transactional_id", "partition"),
    # String.hashCode: "a" 97, "group" 98629247, "polygenelubricants" -2^31.
    [("", 0), ("a", 97 % 8), ("group", 98629247 % 8), ("polygenelubricants", 0)],
)
def test_ids_are_kept_where_kafka_keeps_them(transactional_id, partition):
    assert transactions_partition(transactional_id, 8) == partition
