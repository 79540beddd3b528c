"""What the command line makes of what confluent-kafka says of groups, without any broker."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from raftka.cli.group import _report
from raftka.kafka import groups as kafka_groups
from raftka.kafka.assignments import parse_assignment
from raftka.kafka.errors import KafkaClientError
from raftka.kafka.groups import GroupInfo, GroupMember


@pytest.mark.parametrize("carrier", [lambda error: error, KafkaException])
def test_a_broker_that_does_not_list_its_groups_is_told_in_its_words(carrier: Callable[[KafkaError], Any]) -> None:
    told = kafka_groups._partial_list(carrier(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)))
    assert isinstance(told, KafkaClientError)
    assert str(told) == "not every broker lists its groups: Coordinator not available"
    # Left to who looks at the addresses.
    assert isinstance(kafka_groups._partial_list(carrier(KafkaError(KafkaError._TIMED_OUT))), KafkaException)


def test_an_exception_without_an_error_of_kafkas_is_told_in_one_line() -> None:
    assert str(kafka_groups._partial_list(KafkaException("two\nlines"))).endswith("its groups: two lines")


def test_a_commit_below_zero_is_shown_and_counts_for_no_lag() -> None:
    ends = {("t", 0): 9, ("t", 1): 5}
    report = _report(GroupInfo("g", "Empty", 1, "", []), {("t", 0): -1, ("t", 1): 3}, ends, set())
    assert [(row["committed"], row["lag"]) for row in report["partitions"]] == [(-1, None), (3, 2)]
    assert report["lag"] == 2


def test_a_lag_with_a_part_that_is_not_known_is_not_known() -> None:
    group = GroupInfo("g", "Stable", 1, "range", [GroupMember("m", "", "c", "h", [("t", 0), ("t", 1)])])
    report = _report(group, {("t", 1): 3}, {("t", 0): 9, ("t", 1): 3}, {("t", 0)})
    assert [row["lag"] for row in report["partitions"]] == [None, 0]
    assert report["lag"] is None
    unread = GroupInfo("g", "Stable", 1, "range", [GroupMember("m", "", "c", "h", None)])
    report = _report(unread, {}, {}, set())
    assert (report["lag"], report["members"][0]["partitions"]) == (None, None)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\3\0\0\0\1" + b"\xff" * 4, [("t", 1), ("t", 3)]),
        (b"\0\1" + b"\0\0\0\0", []),
        (b"\xff\xff\xff", None),
        (b"\0\0" + b"\0\0\0\1" + b"\0\1\xff" + b"\0\0\0\0", None),
        (b"\0\0" + b"\x7f\xff\xff\xff", None),
        (b"\0\0" + b"\0\0\0\1" + b"\xff\xff", None),
        (b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\x7f\xff\xff\xff", None),
    ],
)
def test_an_assignment_is_read_or_known_to_be_none(data: bytes, expected: list[tuple[str, int]] | None) -> None:
    assert parse_assignment(data) == expected
