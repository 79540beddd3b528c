"""The picture of a topic's, a broker's or the cluster's replication, by matplotlib: a panel for each figure."""

from pathlib import Path
from typing import Any

from raftka.error_text import short_reason_of
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.telemetry.charts_data import Charts, Panel
from raftka.pipeline.telemetry.plot import DPI, clock, legend, require_matplotlib, xy

_INCHES = (20.0, 14.0)
_COLUMNS = 2


def draw_charts(data: Charts, path: Path) -> None:
    """Draw the panels into a PNG file.

    Raises:
        PipelineError: matplotlib is missing, or the file cannot be written.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, dpi=DPI, layout="constrained")
    lines = -(-len(data.panels) // _COLUMNS)
    places = figure.subplots(lines, _COLUMNS, sharex=True, squeeze=False)
    for panel, place in zip(data.panels, places.flat, strict=True):
        _draw(place, panel, data)
    for place in places[-1]:
        place.set_xlim(0, data.end - data.begin)
        place.set_xlabel("seconds")
    figure.suptitle(f"replication of {data.title}, from {clock(data.begin)} UTC")
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise PipelineError(f"{path}: {short_reason_of(error)}") from None


def _draw(place: Any, panel: Panel, data: Charts) -> None:
    for name, points in panel.lines.items():
        xs, ys = xy(points, data.begin)
        # A second alone between two without calls has no line to be seen by.
        place.plot(xs, ys, marker=".", markersize=3, linewidth=1, label=name)
    place.set_ylabel(panel.label)
    place.grid(alpha=0.3)
    if not panel.lines:
        place.text(0.5, 0.5, panel.empty, ha="center", va="center", transform=place.transAxes)
        place.set_yticks([])
        return
    legend(place)
    if panel.is_duration:
        place.set_yscale("log")
    else:
        place.set_ylim(bottom=0)
