"""Numbers in the paths and queries of admin requests."""

import pytest

from raftka.broker.admin_http import parse_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("2147483647", 2**31 - 1)])
def test_a_number_of_a_partition_or_a_node_is_read(text, number):
    assert parse_number(text) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1_0", "x", "\u0663", "2147483648", "0" * 11, "9" * 5000])
def test_a_number_that_no_partition_and_no_node_can_have_is_none(text):
    assert parse_number(text) is None
