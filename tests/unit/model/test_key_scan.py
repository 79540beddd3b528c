"""Which records have no key: the scan against the slow reading of the same records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.key_scan import KeyScan
from model.record_batch import HEADER_BYTES, read_header
from model.record_codec import CorruptRecordsError
from model.record_filter import keyed_records
from tests.unit.model.record_batches import build_batch
from tests.unit.model.test_record_filter import MAYBE, batch_of, record


def scanned(header, data, begin=0, step=7):
    scan = KeyScan(header, data, begin)
    while not scan.is_over:
        scan.advance(step)
    return scan.keyless


@given(
    records=st.lists(st.tuples(MAYBE, MAYBE, st.integers(-(2**40), 2**40)), min_size=1, max_size=200),
    step=st.integers(1, 250),
)
def test_records_without_a_key_are_named(records, step):
    batch = batch_of([record(delta, *each) for delta, each in enumerate(records)])
    found = scanned(read_header(batch), batch, HEADER_BYTES, step)
    assert found == [position for position, (key, _, _) in enumerate(records) if key is None]


@pytest.mark.parametrize("size", [62, 63, 64, 8190, 8192, 2**20])
def test_lengths_of_every_size_are_read(size):
    batch = batch_of([record(0, bytes(size), b""), record(1, None, bytes(size)), record(2, b"", None)])
    assert scanned(read_header(batch), batch, HEADER_BYTES) == [1]


@given(data=st.binary(max_size=60), count=st.integers(1, 3))
def test_garbage_is_refused_as_a_pass_refuses_it(data, count):
    header = read_header(build_batch(*[b""] * count))
    try:
        found = scanned(header, data)
    except CorruptRecordsError:
        return
    keyed = keyed_records(header, data)
    assert found == [position for position, each in enumerate(keyed) if each.key is None]
    assert [each.offset_delta for each in keyed] == list(range(count))


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: b"\1" + data[1:]])
def test_records_that_are_cut_off_or_followed_by_something_are_refused(change):
    batch = batch_of([record(0, b"a", b"1"), record(1, b"b", b"1")])
    with pytest.raises(CorruptRecordsError):
        scanned(read_header(batch), change(batch[HEADER_BYTES:]))


def test_offsets_that_are_not_one_after_the_other_are_refused():
    batch = batch_of([record(0, b"a", b"1"), record(2, b"b", b"1")])
    with pytest.raises(CorruptRecordsError, match=r"record 1.*another offset"):
        scanned(read_header(batch), batch, HEADER_BYTES)
