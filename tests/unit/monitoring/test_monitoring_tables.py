"""Alerts, dashboard and pages use names that brokers expose, and the pages say what the tables say."""

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from raftka.cli.root import app, run
from raftka.monitoring.alert_rules import render_rules
from raftka.monitoring.alerts import ALERTS, Alert
from raftka.monitoring.catalogue import FAMILIES
from raftka.monitoring.dashboard import ROWS, render_dashboard
from raftka.monitoring.reference_pages import alerts_page, metrics_page
from tests.unit.monitoring.promql_names import SAMPLES, faults, uses

ROOT = Path(__file__).parents[3]
PANELS = [
    pytest.param(expression, legend, id=f"{panel.title}-{place}")
    for row in ROWS.values()
    for panel in row
    for place, (legend, expression) in enumerate(panel.expressions.items())
]
# Names that are no metrics of a broker: topics, metrics of pipelines.
OTHER_NAMES = re.compile(r"__raftka_telemetry\w*|raftka_pipeline_\w*")
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("rfcs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_uses_exposed_names_and_says_what_to_do(alert: Alert) -> None:
    assert faults(alert.expression) == []
    shown = set(re.findall(r"\$labels\.(\w+)", alert.summary))
    assert shown <= uses(alert.expression).result_labels
    assert re.fullmatch(r"Raftka[A-Z][A-Za-z0-9]+", alert.name)
    assert re.fullmatch(r"\d+[sm]", alert.wait)
    for text in (alert.summary, alert.cause, alert.cure):
        assert text.endswith(".")
    # The alerts on the cluster wait longer than a deposed leader of raft0 speaks.
    if "raftka_cluster_" in alert.expression:
        assert alert.wait == "30s"


@pytest.mark.parametrize("expression", [*(alert.expression for alert in ALERTS), *(each[0] for each in PANELS)])
def test_metrics_that_every_program_has_count_for_brokers_alone(expression: str) -> None:
    assert ("process_" in expression) == ("and on (instance, job) raftka_build_info" in expression)


def test_the_names_of_alerts_differ() -> None:
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)


@pytest.mark.parametrize("command", sorted({command for alert in ALERTS for command in alert.commands}))
def test_a_cure_is_a_command_that_exists(command: str) -> None:
    program, *words = command.replace(" N", " 2").split()
    assert program == "raftka"
    found: click.Command = app
    while isinstance(found, click.Group):
        context = click.Context(found)
        word = words.pop(0)
        found_below = found.get_command(context, word)
        assert found_below is not None, f"{command}: no {word}"
        found = found_below
    assert found.make_context("cure", words) is not None


@pytest.mark.parametrize(("expression", "legend"), PANELS)
def test_a_panel_uses_exposed_names(expression: str, legend: str) -> None:
    assert faults(expression) == []
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= uses(expression).result_labels


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("sum(raftka_no_such_thing) > 0", "raftka_no_such_thing is not exposed"),
        ("raftka_peer_up == raftka_peer_down", "raftka_peer_down is not exposed"),
        ('rate(raftka_kafka_errors_total{kind="x"}[5m])', "kind is no label of ['raftka_kafka_errors_total']"),
        ("sum by (topic) (raftka_peer_up)", "topic is no label of ['raftka_peer_up']"),
        ("sum by (le) (raftka_fsync_max_seconds)", "le is no label of ['raftka_fsync_max_seconds']"),
        ("raftka_fsync_seconds > 1", "raftka_fsync_seconds is not exposed"),
        ("1 > 0", "it uses no sample"),
    ],
)
def test_a_name_that_nobody_exposes_is_found(expression: str, fault: str) -> None:
    assert faults(expression) == [fault]


def test_the_dashboard_has_each_panel_once_and_none_over_another() -> None:
    panels = json.loads(render_dashboard())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_pages_are_what_the_tables_say() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "docs" / "metrics.py", "--check"], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stderr


def test_every_metric_and_every_alert_is_documented() -> None:
    metrics, alerts = metrics_page(), alerts_page()
    assert [family.name for family in FAMILIES if f"| `{family.name}" not in metrics] == []
    assert [alert.name for alert in ALERTS if f"\n## {alert.name}\n" not in alerts] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_no_metric_that_is_not_exposed(page: Path) -> None:
    known = {*SAMPLES, *(family.name for family in FAMILIES)}
    prefixes = {name[:end] for name in known for end in range(len(name)) if name[end - 1] == "_"}
    named = set(re.findall(r"\braftka_[a-z0-9_]+", OTHER_NAMES.sub("", page.read_text())))
    assert sorted(named - known - prefixes) == []


@pytest.mark.parametrize(("name", "render"), [("alerts", render_rules), ("grafana", render_dashboard)])
def test_generate_prints_the_file_and_nothing_else(name, render, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", name]) == 0
    assert capsys.readouterr() == (render(), "")
