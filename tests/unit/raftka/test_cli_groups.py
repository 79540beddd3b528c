"""What the command line makes of what confluent-kafka says of groups, without any broker."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from raftka import kafka_groups
from raftka.cli.group import _report
from raftka.kafka_groups import GroupInfo, KafkaClientError


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
    report = _report(GroupInfo("g", "Empty", 1, "", []), {("t", 0): -1, ("t", 1): 3}, {("t", 0): 9, ("t", 1): 5})
    assert [(row["committed"], row["lag"]) for row in report["partitions"]] == [(-1, None), (3, 2)]
    assert report["lag"] == 2
