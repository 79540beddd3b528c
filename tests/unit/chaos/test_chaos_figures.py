"""Histories as they are written, latencies, turns, and charts."""

import json
import re

import pytest

from raftka.chaos.charts import Chart, Interval, TimeAxis
from raftka.chaos.history import History
from raftka.chaos.latencies import LatencyHistogram
from raftka.chaos.pacing import Pacer
from raftka.check.history_file import read_lines


def test_percentiles_are_exact_to_a_sixteenth():
    histogram = LatencyHistogram()
    for milliseconds in range(1, 1001):
        histogram.add(milliseconds * 1_000_000)
    assert histogram.percentile(50) == pytest.approx(500, rel=1 / 16)
    assert histogram.percentile(99) == pytest.approx(990, rel=1 / 16)
    assert histogram.summary()["max"] == 1000


def test_an_empty_histogram_has_no_percentiles():
    assert LatencyHistogram().summary() == {}


def test_a_history_is_one_that_the_checker_reads(tmp_path):
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        process = history.process()
        line = history.begin("send", process, tp="t-0", val="a", acks="all", idem=False, off=None, epoch=None, err=None)
        history.end(line, "ok", off=0, node=1)
        history.polled(history.process(), 1, [("t-0", [(0, "a")])], final=True)
        history.fault("kill", nodes=[1])
        history.begin("latest", process, tp="t-0")
    ((first, operations),) = read_lines(path)
    assert (first, len(operations)) == (1, 4)
    assert json.loads(path.read_text().splitlines()[-1])["ret"] is None
    assert history.counts == {"send ok": 1, "poll ok": 1, "polled": 1}
    assert history.acked == 1


def test_a_pacer_gives_turns_at_its_rate():
    pacer = Pacer(1_000_000)
    assert pacer.take() == 0.0
    slow = Pacer(0.001)
    assert slow.take() == 0.0
    assert slow.take() > 900


def test_a_chart_draws_what_lasted_and_says_what_it_was():
    chart = Chart(TimeAxis(60))
    chart.row("broker 1", [Interval(10, 20, "kill", "kill <1>")], ["kill"])
    chart.lines({"a": [(0, 0), (1, 1_500), (2, 900)]})
    chart.lines({"b": [(0, 0.2), (1, 4_000), (60, 40)]}, is_logarithmic=True)
    drawn = chart.render()
    assert "kill &lt;1&gt;" in drawn
    assert drawn.count("<polyline") == 3, "a line ends where nothing was measured"
    numbers = [float(each) for each in re.findall(r'(?:x|y|x1|x2|y1|y2)="([-\d.]+)"', drawn)]
    assert min(numbers) >= 0
