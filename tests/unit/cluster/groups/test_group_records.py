"""The formats of __consumer_offsets."""

import pytest

from cluster.groups.offsets_topic import offsets_partition
from cluster.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredMember,
    decode_record,
    encode_record,
)
from cluster.record_reader import UnreadableRecordError
from model.key_value_batch import KeyValue, encode_key_values, read_key_values
from model.record_batch import check_batch
from model.record_codec import CorruptRecordsError

MEMBER = StoredMember("m-1", "one", "client", "/127.0.0.1", 60_000, 10_000, b"subscription", b"assignment")
GROUP = StoredGroup("consumer", 7, "range", "m-1", 1_700_000_000_000, (MEMBER, MEMBER._replace(instance_id=None)))
OFFSET = CommittedOffset(42, 3, "note \N{EURO SIGN}", 1_700_000_000_000)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (OffsetKey("g", "t", 5), OFFSET),
        (OffsetKey("g", "t", 5), None),
        (GroupKey("g"), GROUP),
        (GroupKey("g"), StoredGroup("", 8, None, None, 5, ())),
        (GroupKey("g"), None),
    ],
)
def test_a_record_is_read_as_it_was_written(key, value):
    assert decode_record(encode_record(key, value)) == (key, value)


def test_offsets_are_written_in_kafkas_format():
    record = encode_record(OffsetKey("g", "to", 5), CommittedOffset(1, 2, "m", 3))
    assert record.key == b"\x00\x01" + b"\x00\x01g" + b"\x00\x02to" + b"\x00\x00\x00\x05"
    number = b"\x00" * 7
    assert record.value == b"\x00\x03" + number + b"\x01" + b"\x00\x00\x00\x02" + b"\x00\x01m" + number + b"\x03"


def test_groups_are_written_in_kafkas_format():
    record = encode_record(GroupKey("g"), StoredGroup("c", 1, "r", None, 2, ()))
    assert record.key == b"\x00\x02" + b"\x00\x01g"
    head = b"\x00\x03" + b"\x00\x01c" + b"\x00\x00\x00\x01" + b"\x00\x01r" + b"\xff\xff"
    assert record.value == head + b"\x00" * 7 + b"\x02" + b"\x00\x00\x00\x00"


@pytest.mark.parametrize("record", [encode_record(OffsetKey("g", "t", 5), OFFSET), encode_record(GroupKey("g"), GROUP)])
def test_a_record_that_is_cut_off_is_refused_by_name(record):
    for length in range(len(record.key)):
        with pytest.raises(UnreadableRecordError):
            decode_record(record._replace(key=record.key[:length]))
    for length in range(len(record.value)):
        with pytest.raises(UnreadableRecordError):
            decode_record(record._replace(value=record.value[:length]))


@pytest.mark.parametrize("record", [KeyValue(b"\x00\x03\x00\x01g", b""), KeyValue(b"\x00\x02\x00\x01g", b"\x00\x09")])
def test_another_version_is_refused_by_name(record):
    with pytest.raises(UnreadableRecordError, match="version"):
        decode_record(record)


def test_a_batch_holds_its_records():
    records = [KeyValue(b"k", b"v"), KeyValue(b"", b""), KeyValue(b"x" * 5000, None), KeyValue(b"k", b"y" * 70)]
    batch = encode_key_values(records, 1234)
    header = check_batch(batch)
    assert (header.record_count, header.base_timestamp, header.max_timestamp) == (4, 1234, 1234)
    assert list(read_key_values(batch)) == records
    for length in range(61, len(batch)):
        with pytest.raises(CorruptRecordsError):
            list(read_key_values(batch[:length]))


@pytest.mark.parametrize(
    ("group", "partition"),
    # String.hashCode: "" 0, "a" 97, "group" 98629247, "polygenelubricants" -2^31, "Gruppe-\u20ac" 1117862604.
    [("", 0), ("a", 97 % 50), ("group", 98629247 % 50), ("polygenelubricants", 0)],
)
def test_groups_are_kept_where_kafka_keeps_them(group, partition):
    assert offsets_partition(group, 50) == partition
