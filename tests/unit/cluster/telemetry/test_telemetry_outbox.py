"""What waits for the topic of telemetry: in order, for some seconds, up to so many bytes."""

from types import SimpleNamespace
from typing import Any

from cluster.telemetry.outbox import KEPT_SECONDS, Outbox
from cluster.telemetry.telemetry_batch import Sample
from model.key_value_batch import KeyValue
from raft.interval_figures import IntervalFigures


def sample(figures: IntervalFigures, now: float, size: int = 10) -> Sample:
    partition: Any = SimpleNamespace(figures=figures)
    return Sample(partition, figures.take(now), KeyValue(b"", b"x" * size))


def test_batches_wait_in_order_until_they_are_taken():
    outbox, figures = Outbox(), IntervalFigures(0.0)
    for second in (1.0, 2.0):
        outbox.add([sample(figures, second)], round(1000 * second), second)
    assert [outbox.first(2.0).at_ms, outbox.first(2.0).at_ms] == [1000, 1000]
    outbox.drop_first()
    assert outbox.first(2.0).at_ms == 2000
    outbox.drop_first()
    assert outbox.first(2.0) is None


def test_what_has_waited_too_long_goes_into_the_next_record_from_its_very_beginning():
    outbox, figures = Outbox(), IntervalFigures(0.0)
    for second in (1.0, 2.0, 3.0):
        figures.recovery_bytes += 5
        outbox.add([sample(figures, second)], round(1000 * second), second)
    first = outbox.first(2.5 + KEPT_SECONDS)
    assert first is not None
    assert (first.at_ms, len(outbox)) == (3000, 1)
    taken = figures.take(20.0)
    assert (taken.since, taken.recovery_bytes) == (0.0, 10)


def test_what_there_is_no_room_for_goes_into_the_next_record():
    outbox, figures = Outbox(bytes_max=25), IntervalFigures(0.0)
    for second in (1.0, 2.0, 3.0):
        figures.recovery_bytes += 5
        outbox.add([sample(figures, second)], round(1000 * second), second)
    assert len(outbox) == 2
    assert (figures.take(4.0).since, figures.recovery_bytes) == (2.0, 0)
    outbox.drop_first()
    outbox.add([sample(figures, 5.0)], 5000, 5.0)
    assert len(outbox) == 2
