"""Records with keys as workloads send them: on the wire, and by the names that a history gives them."""

import random

from hypothesis import given
from hypothesis import strategies as st

from model.record_batch import read_header
from model.record_codec import unpack_records
from model.record_filter import keyed_records
from raftka.chaos.keyed_records import KeyedRecordMaker, OutgoingRecord, name_of, plain_record
from raftka.chaos.load import VALUE_BYTES
from raftka.kafka.wire.record_batches import build_batch, read_records

texts = st.binary(max_size=80)


def sent_and_read(record: OutgoingRecord) -> str:
    """Return the name that a reader gives a record."""
    [read] = read_records(build_batch(record.value, 5, key=record.key, headers=record.headers))
    return name_of(read.key, None if read.is_tombstone else read.value, read.headers)


@given(
    key=st.none() | texts,
    value=st.none() | texts,
    headers=st.lists(st.tuples(st.text(max_size=9), st.none() | texts), max_size=3),
)
def test_a_record_is_read_as_it_was_built(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    batch = build_batch(value, 5, key=key, headers=tuple(headers))
    [read] = read_records(batch)
    assert (read.key, read.value, read.is_tombstone) == (key, value or b"", value is None)
    assert read.headers == tuple(headers)
    header = read_header(batch, 0)
    [brokers_view] = keyed_records(header, unpack_records(memoryview(batch)))
    assert (brokers_view.key, brokers_view.deletes) == (key, key is not None and value is None)


def test_the_name_of_a_record_tells_its_key_and_whether_it_deletes_it() -> None:
    make = KeyedRecordMaker(random.Random(1), 3, 20, 0.5, 100)
    records = [make(7, number) for number in range(400)]
    assert len({each.name for each in records}) == len(records)
    assert {sent_and_read(each) for each in records} == {each.name for each in records}
    deleted = [each for each in records if each.value is None]
    assert 100 < len(deleted) < 300
    assert all(each.fields == {"val": each.name, "key": _key(each), "tombstone": True} for each in deleted)
    assert all(len(each.value) == 100 for each in records if each.value is not None)


def _key(record: OutgoingRecord) -> str:
    assert record.key is not None
    return record.key.decode()


def test_half_of_the_records_go_to_few_keys() -> None:
    make = KeyedRecordMaker(random.Random(1), 3, 1_000, 0.3, 100)
    keys = [_key(make(7, number)) for number in range(1_000)]
    assert 400 < sum(key in ("k0", "k1", "k2") for key in keys) < 600
    assert len(set(keys)) > 300


def test_a_record_that_comes_back_with_another_key_or_value_has_a_name_that_nobody_has_sent() -> None:
    value = OutgoingRecord("k1=7.1", b"7.1".ljust(100), b"k1")
    deletes = OutgoingRecord("k1-7.2", None, b"k1", (("number", b"7.2"),))
    assert (sent_and_read(value), sent_and_read(deletes)) == (value.name, deletes.name)
    assert sent_and_read(value._replace(key=b"k2")) == "k2=7.1"
    assert sent_and_read(value._replace(value=None)) == "k1-"
    assert sent_and_read(deletes._replace(value=b"")) == "k1="
    assert sent_and_read(value._replace(key=None)) == "7.1"


def test_a_record_without_a_key_says_nothing_of_keys() -> None:
    record = plain_record(7, 1)
    assert record == OutgoingRecord("7.1", b"7.1".ljust(VALUE_BYTES))
    assert record.fields == {"val": "7.1"}
    assert sent_and_read(record) == "7.1"
