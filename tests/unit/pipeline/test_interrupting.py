"""What py4j says of a batch that a stop cuts short, and signals while a JVM is launched."""

import logging
import signal

import pytest

from raftka.pipeline.runner import interrupting
from raftka.pipeline.spark_session import signals_postponed

PY4J = logging.getLogger("py4j.clientserver")


def test_a_batch_that_a_stop_cuts_short_prints_nothing(caplog: pytest.LogCaptureFixture) -> None:
    first, second = interrupting(), interrupting()
    # Two pipelines of one process, whose stops overlap.
    first.__enter__()
    second.__enter__()
    PY4J.error("cut short")
    first.__exit__(None, None, None)
    PY4J.error("the other one, cut short")
    second.__exit__(None, None, None)
    PY4J.error("a failure")
    assert [each.getMessage() for each in caplog.records] == ["a failure"]


def test_a_signal_takes_effect_when_the_jvm_is_launched() -> None:
    steps = []

    def launch() -> None:
        with signals_postponed():
            signal.raise_signal(signal.SIGINT)
            steps.append("launched")

    with pytest.raises(KeyboardInterrupt):
        launch()
    assert steps == ["launched"]
