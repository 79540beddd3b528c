"""kafka-python's clients for the tests. It reads its schemas in a way that Python deprecates: see MARK."""

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, KafkaAdminClient

__all__ = ["MARK", "ConfigResource", "KafkaAdminClient", "KafkaConsumer", "KafkaProducer", "TopicPartition"]

# For every test that uses it: the schemas are read at their first use.
MARK = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")
