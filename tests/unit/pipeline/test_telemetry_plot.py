"""What is drawn of a partition, and that it can be drawn."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.telemetry.plot import draw
from raftka.pipeline.telemetry.plot_data import COMMIT, SECONDS_MAX, PlotData, Second, Span, plot_data

BASE = 1_767_225_600


def second(at: int, state: str = "led", leader: int | None = 1, term: int | None = 1, **changes: Any) -> Second:
    is_led = state in ("led", "stalled")
    found = Second(
        at=BASE + at,
        state=state,
        leader=leader if is_led else None,
        term=term if is_led else None,
        lags={2: at, 3: 0} if is_led else {},
        commit_lag=0 if is_led else None,
        latency_us={"quorum_ack_p50": 1500, "quorum_ack_p99": 9000} if is_led else {},
    )
    return found._replace(**changes)


def killed() -> PlotData:
    """Return the picture of a leader that is killed: broker 1 leads, nobody, broker 2 with a stall, silence."""
    rows = [second(at) for at in range(3)] + [second(at, "leaderless") for at in (3, 4)]
    rows += [second(5, "stalled", 2, 2, lags={1: 40, 3: 1})]
    rows += [second(at, "led", 2, 2, lags={1: 50, 3: 0}) for at in (6, 7)] + [second(8, "silent")]
    return plot_data("orders-0", rows)


def test_spans_say_who_led_and_when_nobody_did() -> None:
    data = killed()
    assert (data.begin, data.end, data.brokers) == (BASE, BASE + 9, ["1", "2", "3"])
    assert data.leaders == [(Span("1", BASE, BASE + 3), 1), (Span("2", BASE + 5, BASE + 8), 2)]
    assert data.shades == [
        Span("leaderless", BASE + 3, BASE + 5),
        Span("stalled", BASE + 5, BASE + 6),
        Span("silent", BASE + 8, BASE + 9),
    ]


def test_a_line_breaks_where_nothing_is_known() -> None:
    data = killed()
    assert [value for _, value in data.lags["2"]] == [0, 1, 2, *[None] * 6]
    assert [value for _, value in data.lags["1"]] == [*[None] * 5, 40, 50, 50, None]
    assert [value for _, value in data.lags[COMMIT]] == [0, 0, 0, None, None, 0, 0, 0, None]
    assert set(data.latency_ms) == {"quorum_ack p50", "quorum_ack p99"}
    assert data.latency_ms["quorum_ack p99"][0] == (BASE, 9.0)


def test_seconds_that_are_not_there_end_lines_and_spans() -> None:
    data = plot_data("orders-0", [second(9), second(0), second(1)])
    assert [span for span, _ in data.leaders] == [Span("1", BASE, BASE + 2), Span("1", BASE + 9, BASE + 10)]
    assert data.lags["2"] == [(BASE, 0), (BASE + 1, 1), (BASE + 2, None), (BASE + 9, 9)]


def test_a_line_goes_on_over_a_second_whose_leader_was_not_heard() -> None:
    data = plot_data("orders-0", [second(0), second(1, lags={}, commit_lag=None, latency_us={}), second(2)])
    assert data.lags["2"] == [(BASE, 0), (BASE + 2, 2)]
    assert [span for span, _ in data.leaders] == [Span("1", BASE, BASE + 3)]


def test_the_same_leader_in_another_term_is_another_span() -> None:
    data = plot_data("orders-0", [second(0), second(1, term=2)])
    assert [(span.name, term) for span, term in data.leaders] == [("1", 1), ("1", 2)]


def test_nothing_and_too_much_cannot_be_drawn() -> None:
    with pytest.raises(PipelineError, match="there is nothing to draw of orders-0"):
        plot_data("orders-0", [])
    with pytest.raises(PipelineError, match="choose them with --begin and --end"):
        plot_data("orders-0", [second(0), second(SECONDS_MAX)])


def test_a_picture_is_a_png_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib comes with the extra spark")
    path = tmp_path / "lag.png"
    draw(killed(), path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    # A partition of one replica without writes, and one that nobody has led.
    for rows in ([second(0, lags={}, latency_us={})], [second(0, "leaderless")]):
        draw(plot_data("orders-0", rows), path)
    with pytest.raises(PipelineError, match=r"[Ii]s a directory"):
        draw(killed(), tmp_path)


def test_without_matplotlib_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(PipelineError, match=r"a plot needs matplotlib: pip install 'raftka\[spark\]'"):
        draw(killed(), tmp_path / "lag.png")
