"""kafka-python's clients for the tests; every test that uses them is marked with `with_kafka_python`."""

import warnings
from collections.abc import Callable

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, KafkaAdminClient

__all__ = [
    "ConfigResource",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "TopicPartition",
    "with_kafka_python",
]


def with_kafka_python(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test: kafka-python reads its schemas in a way that Python deprecates, and leaks sockets.

    What it was just connecting to a dead broker it leaves to the garbage collector; the fixture closes it before another
    test, or the end of all, gets the warning.
    """
    ignored = ("ignore:read_text is deprecated:DeprecationWarning", "ignore:unclosed <socket:ResourceWarning")
    return pytest.mark.filterwarnings(*ignored)(pytest.mark.usefixtures("collected_sockets")(test))
