"""A step that never ends is an error of its run, and not a run that never ends."""

import time

import pytest

from tests.simulation.world.endless_steps import EndlessStepError, endless_steps_end

# So that a guard that does not work fails this test instead of stopping it.
_SECONDS_MAX = 20.0


def _spin(seconds: float, step=lambda: None) -> None:
    began = time.process_time()
    while time.process_time() - began < seconds:
        step()


def test_a_step_that_does_not_end_is_ended() -> None:
    with pytest.raises(EndlessStepError, match="does not end"), endless_steps_end(lambda: 7, look_seconds=0.02):
        _spin(_SECONDS_MAX)


def test_a_run_in_which_something_happens_goes_on() -> None:
    happened = []
    with endless_steps_end(lambda: len(happened), look_seconds=0.02):
        _spin(0.3, lambda: happened.append(None))
