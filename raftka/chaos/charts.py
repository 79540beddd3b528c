"""Charts of a report as inline SVG: rows of intervals, and lines, all along one time axis."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_LEFT, _WIDTH, _RIGHT = 110.0, 1000.0, 20.0
_ROW, _ROW_GAP = 22.0, 5.0
_LINES_HEIGHT = 190.0
_AXIS_HEIGHT = 24.0
# Room for what begins at the top.
_TOP = 6.0
_TICKS_MAX = 12
_TICK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
# Told apart by most eyes, also by those that see few colours (after Okabe and Ito).
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8c6bb1", "#7f7f7f", "#b8a700", "#444")
_LABEL_WIDTH = 9.0
_INSTANT_WIDTH = 3.0
_GAP_SECONDS = 1.5


class Interval(NamedTuple):
    """Something that lasted, in seconds; `title` is shown to who points at it, `label` is drawn if there is room."""

    begin: float
    end: float
    kind: str
    title: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The time that all charts of a report share; `bands` are spans that each of them shades."""

    seconds: float
    bands: tuple[tuple[float, float], ...] = ()

    def x(self, at: float) -> float:
        """Return where an instant is."""
        return _LEFT + min(max(at, 0.0), self.seconds) / self.seconds * _WIDTH

    def ticks(self) -> list[int]:
        """Return seconds that are worth a mark."""
        step = next((each for each in _TICK_STEPS if self.seconds / each <= _TICKS_MAX), _TICK_STEPS[-1])
        return list(range(0, int(self.seconds) + 1, step))


class Chart:
    """Collects what is drawn below one heading."""

    def __init__(self, axis: TimeAxis) -> None:
        self._axis = axis
        self._parts: list[str] = []
        self._height = _TOP

    def row(self, name: str, intervals: Sequence[Interval], kinds: Sequence[str]) -> None:
        """Draw a row of intervals, coloured by where their kind stands in `kinds`."""
        top = self._height
        middle = top + _ROW / 2
        self._parts.append(_text(_LEFT - 8, middle, name, "end"))
        self._parts.append(f'<rect class="row" x="{_LEFT}" y="{top:.1f}" width="{_WIDTH}" height="{_ROW}"/>')
        for each in intervals:
            begin = self._axis.x(each.begin)
            width = max(_INSTANT_WIDTH, self._axis.x(each.end) - begin)
            self._parts.append(
                f'<rect x="{begin:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_ROW}" rx="2" class="bar"'
                f' fill="{colour(kinds.index(each.kind))}"><title>{html.escape(each.title)}</title></rect>'
            )
            if each.label and width > _LABEL_WIDTH * (len(each.label) + 0.5):
                self._parts.append(_text(begin + width / 2, middle, each.label, "middle", "in-bar"))
        self._height += _ROW + _ROW_GAP

    def lines(
        self,
        series: Mapping[str, Sequence[tuple[float, float]]],
        *,
        is_logarithmic: bool = False,
        is_filled: bool = False,
    ) -> None:
        """Draw lines through (second, value), all on one scale; a line ends where seconds have no value."""
        values = [value for points in series.values() for _, value in points]
        scale = _Scale(values, self._height, is_logarithmic=is_logarithmic)
        for value, y in scale.marks():
            self._parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
            self._parts.append(_text(_LEFT - 8, y, f"{value:,g}" if value < 1e6 else f"{value / 1e6:g} M", "end"))
        for number, points in enumerate(series.values()):
            for run in _unbroken(points):
                drawn = " ".join(f"{self._axis.x(at):.1f},{scale.y(value):.1f}" for at, value in run)
                if is_filled:
                    first, last = self._axis.x(run[0][0]), self._axis.x(run[-1][0])
                    area = f"{first:.1f},{scale.bottom:.1f} {drawn} {last:.1f},{scale.bottom:.1f}"
                    self._parts.append(f'<polygon points="{area}" fill="{colour(number)}" class="area"/>')
                self._parts.append(f'<polyline points="{drawn}" stroke="{colour(number)}"/>')
        self._height = scale.bottom + _ROW_GAP

    def render(self) -> str:
        """Return the SVG, with the time below."""
        ticks = []
        for begin, end in self._axis.bands:
            width = max(_INSTANT_WIDTH, self._axis.x(end) - self._axis.x(begin))
            x = self._axis.x(begin)
            ticks.append(f'<rect class="band" x="{x:.1f}" y="0" width="{width:.1f}" height="{self._height:.1f}"/>')
        for second in self._axis.ticks():
            x = self._axis.x(second)
            ticks.append(f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{self._height:.1f}"/>')
            ticks.append(_text(x, self._height + _AXIS_HEIGHT / 2, _clock(second), "middle"))
        size = f"{_LEFT + _WIDTH + _RIGHT:.0f} {self._height + _AXIS_HEIGHT:.0f}"
        return f'<svg viewBox="0 0 {size}" role="img">{"".join(ticks)}{"".join(self._parts)}</svg>'


def _unbroken(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Return the stretches of a line in which no second is left out."""
    runs: list[list[tuple[float, float]]] = []
    for point in points:
        if not runs or point[0] - runs[-1][-1][0] > _GAP_SECONDS:
            runs.append([])
        runs[-1].append(point)
    return runs


class _Scale:
    """Where values are, from 0 (or a power of ten) at the bottom to a little above the largest at the top."""

    def __init__(self, values: Sequence[float], top: float, *, is_logarithmic: bool) -> None:
        self._top = top
        self.bottom = top + _LINES_HEIGHT
        self._is_logarithmic = is_logarithmic
        largest = max(values, default=1.0) or 1.0
        if is_logarithmic:
            self._low = float(math.floor(math.log10(min(values, default=1.0))))
            self._high = max(self._low + 1, math.ceil(math.log10(largest)))
        else:
            step = 10.0 ** math.floor(math.log10(largest))
            self._step = next(each for each in (step / 5, step / 2, step, step * 2) if largest / each <= 5)
            self._low, self._high = 0.0, float(math.ceil(largest / self._step) * self._step)

    def y(self, value: float) -> float:
        """Return where a value is."""
        at = math.log10(value) if self._is_logarithmic else value
        return self.bottom - (at - self._low) / (self._high - self._low) * _LINES_HEIGHT

    def marks(self) -> list[tuple[float, float]]:
        """Return (value, where) for lines across the chart."""
        if self._is_logarithmic:
            values = [10.0**power for power in range(int(self._low), int(self._high) + 1)]
        else:
            values = [number * self._step for number in range(round(self._high / self._step) + 1)]
        return [(value, self.y(value)) for value in values]


def colour(number: int) -> str:
    """Return the colour of the so-manieth of several."""
    return _COLOURS[number % len(_COLOURS)]


def legend(names: Sequence[str]) -> str:
    """Return what the colours stand for."""
    items = (
        f'<li><i style="background:{colour(number)}"></i>{html.escape(name)}</li>' for number, name in enumerate(names)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _clock(second: int) -> str:
    return f"{second // 60}:{second % 60:02d}"
