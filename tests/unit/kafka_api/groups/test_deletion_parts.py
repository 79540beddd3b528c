"""How a long list of deletions is divided."""

import pytest

from cluster.groups.records import GroupKey, OffsetKey, encode_record
from kafka_api.groups.deletion_parts import deletion_parts
from model.key_value_batch import encode_key_values

_KEYS = [OffsetKey("g", "t" * (number % 50), number) for number in range(300)] + [GroupKey("g")]


@pytest.mark.parametrize("bytes_max", [300, 1000, 100_000])
def test_every_part_is_a_batch_within_the_bound_and_nothing_is_left_out(bytes_max):
    parts = list(deletion_parts(_KEYS, bytes_max))
    assert [key for part in parts for key in part] == _KEYS
    for part in parts:
        assert len(encode_key_values([encode_record(key, None) for key in part], 0)) <= bytes_max


def test_a_key_that_is_longer_than_the_bound_goes_alone():
    long = OffsetKey("g" * 500, "t", 0)
    assert list(deletion_parts([long, GroupKey("g"), long], 200)) == [[long], [GroupKey("g")], [long]]


def test_what_is_empty_has_no_parts():
    assert list(deletion_parts([], 1000)) == []
