"""The time in which the lost leader is to be seen."""

from collections.abc import Sequence
from dataclasses import dataclass

from raftka.pipeline.telemetry.plot_data import UNAVAILABLE, Span

# A second is told by its begin, reports by the one that they are of: what happens within a second is in two of them.
_SLACK_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Outage:
    """When a leader was lost, and when another one was known to lead: seconds since 1970."""

    partition: int
    lost_at: float
    led_again_at: float


def unavailable(shades: Sequence[Span], outage: Outage) -> list[Span]:
    """Return the shades of an outage that prove it: that nobody reported would be no proof."""
    return [span for span in during(shades, outage) if span.name in UNAVAILABLE]


def during(shades: Sequence[Span], outage: Outage) -> list[Span]:
    """Return the shades that touch an outage."""
    return [
        span
        for span in shades
        if span.end > outage.lost_at - _SLACK_SECONDS and span.begin < outage.led_again_at + _SLACK_SECONDS
    ]
