"""The picture of a partition, by matplotlib, which nothing else imports."""

import importlib.util
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from raftka.error_text import short_reason_of
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.telemetry.plot_data import COMMIT, PlotData

_INCHES = (12.0, 8.0)
DPI = 120
_HINT = "pip install 'raftka[spark]'"
_SHADES = {
    "leaderless": ("tab:red", "no leader"),
    "stalled": ("tab:orange", "commit stands still"),
    "silent": ("lightgrey", "no reports"),
}


def require_matplotlib() -> None:
    """Refuse to go on without matplotlib.

    Raises:
        PipelineError: It is not there; the line says what to install.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise PipelineError(f"a plot needs matplotlib: {_HINT}")


def draw(data: PlotData, path: Path) -> None:
    """Draw a partition into a PNG file.

    Raises:
        PipelineError: matplotlib is missing, or the file cannot be written.
    """
    require_matplotlib()
    # Not pyplot: that looks for a screen, and keeps every figure.
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, dpi=DPI, layout="constrained")
    lag, leader, latency = figure.subplots(3, 1, sharex=True, height_ratios=(3, 1, 2))
    colors = {broker: f"C{number}" for number, broker in enumerate(data.brokers)}
    for panel in (lag, leader, latency):
        _shade(panel, data, is_named=panel is lag)
    _draw_lags(lag, data, colors)
    _draw_leaders(leader, data, colors)
    _draw_latency(latency, data)
    lag.set_title(f"{data.title}, from {clock(data.begin)} UTC")
    latency.set_xlim(0, data.end - data.begin)
    latency.set_xlabel("seconds")
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise PipelineError(f"{path}: {short_reason_of(error)}") from None


def _draw_lags(panel: Any, data: PlotData, colors: dict[str, str]) -> None:
    for name, points in data.lags.items():
        xs, ys = xy(points, data.begin)
        if name == COMMIT:
            panel.plot(xs, ys, color="black", linestyle="--", linewidth=1, label="not committed")
        else:
            panel.plot(xs, ys, color=colors[name], drawstyle="steps-mid", label=f"broker {name}")
    # A lag is 0 most of the time, and thousands after a leader was killed.
    panel.set_yscale("symlog", linthresh=10)
    panel.set_ylim(bottom=0)
    panel.set_ylabel("records behind the leader")
    panel.grid(alpha=0.3)
    legend(panel)


def _draw_leaders(panel: Any, data: PlotData, colors: dict[str, str]) -> None:
    places = {broker: number for number, broker in enumerate(data.brokers)}
    for span, term in data.leaders:
        begin = span.begin - data.begin
        panel.barh(places[span.name], span.end - span.begin, left=begin, height=0.8, color=colors[span.name])
        panel.text(begin, places[span.name], f" term {term}", va="center", fontsize="small", clip_on=True)
    panel.set_yticks(list(places.values()), [f"broker {broker}" for broker in places])
    panel.set_ylim(-0.6, max(len(places), 1) - 0.4)
    panel.set_ylabel("leader")


def _draw_latency(panel: Any, data: PlotData) -> None:
    for number, (name, points) in enumerate(data.latency_ms.items()):
        xs, ys = xy(points, data.begin)
        # A second alone between two without writes has no line to be seen by.
        panel.plot(xs, ys, color=f"C{number + 4}", marker=".", markersize=3, linewidth=1, label=name)
    if data.latency_ms:
        panel.set_yscale("log")
        legend(panel)
    panel.set_ylabel("produce latency, ms")
    panel.grid(alpha=0.3)


def legend(panel: Any) -> None:
    """Name the lines of a panel."""
    # Beside the panel: whatever is drawn last is what people look for.
    panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")


def _shade(panel: Any, data: PlotData, is_named: bool) -> None:
    named: set[str] = set()
    for span in data.shades:
        color, name = _SHADES[span.name]
        label = name if is_named and name not in named else None
        named.add(name)
        panel.axvspan(span.begin - data.begin, span.end - data.begin, color=color, alpha=0.3, linewidth=0, label=label)


def xy(points: list[tuple[int, Any]], begin: int) -> tuple[list[float], list[float]]:
    """Return places and values of points, in seconds after `begin`; what is not known breaks the line."""
    nan = float("nan")
    return [at - begin + 0.5 for at, _ in points], [nan if value is None else float(value) for _, value in points]


def clock(seconds: int) -> str:
    """Return a time since 1970 as people read it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
