"""What the command line makes of what confluent-kafka says of groups, without any broker."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from raftka import kafka_groups


@pytest.mark.parametrize("carrier", [lambda error: error, KafkaException])
def test_a_broker_that_does_not_list_its_groups_is_told_in_its_words(carrier: type[KafkaException]) -> None:
    error = KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)
    assert kafka_groups._carried_text(carrier(error)) == "Coordinator not available"


def test_an_exception_without_an_error_of_kafkas_is_told_in_one_line() -> None:
    assert kafka_groups._carried_text(KafkaException("two\nlines")) == "two lines"
