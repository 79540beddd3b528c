"""Which partition keeps a key, and batches that no leader refuses."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cluster.telemetry.telemetry_batch import BATCH_BYTES_MAX, REPLICAS_PER_BATCH, Sample, batches
from cluster.telemetry.telemetry_topic import TELEMETRY_TOPIC_CONFIGS, telemetry_partition
from model.key_value_batch import KeyValue, encode_key_values
from model.topic_config import check_topic_config, resolve_topic_config
from raft.interval_figures import IntervalFigures


def samples(*sizes: int) -> list[Sample]:
    taken = IntervalFigures(0.0).take(1.0)
    nobody: Any = SimpleNamespace()
    return [Sample(nobody, taken, KeyValue(b"t-%d" % number, b"x" * size)) for number, size in enumerate(sizes)]


@given(st.lists(st.integers(min_value=0, max_value=400), max_size=60))
def test_batches_keep_the_order_and_their_bounds(sizes: list[int]):
    given_samples = samples(*sizes)
    parts = list(batches(given_samples, replicas_max=7, bytes_max=1000))
    assert [sample for part in parts for sample in part] == given_samples
    for part in parts:
        assert 1 <= len(part) <= 7
        size = sum(len(sample.record.key) + len(sample.record.value or b"") for sample in part)
        assert size <= 1000 or len(part) == 1


def test_a_full_batch_is_within_what_the_topic_takes():
    records = [KeyValue(b"k" * 260, b"x" * (BATCH_BYTES_MAX // REPLICAS_PER_BATCH))] * REPLICAS_PER_BATCH
    assert len(encode_key_values(records, 0)) < int(TELEMETRY_TOPIC_CONFIGS["max.message.bytes"])


@given(st.binary(max_size=300), st.integers(min_value=1, max_value=50))
def test_a_key_has_one_partition(key: bytes, partitions: int):
    assert 0 <= telemetry_partition(key, partitions) < partitions
    assert telemetry_partition(key, partitions) == telemetry_partition(key, partitions)


def test_the_topic_may_be_configured_as_it_is():
    check_topic_config(TELEMETRY_TOPIC_CONFIGS, 3)
    config = resolve_topic_config(TELEMETRY_TOPIC_CONFIGS, resolve_topic_config({}, None))
    assert (config.retention_ms, config.segment_ms) == (3_600_000, 600_000)
