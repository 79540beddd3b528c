"""promtool, of Debian's `prometheus`: it accepts our metrics and rules, and each alert fires and ends as it should."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from kafka_api.options import KafkaOptions
from kafka_api.server import KafkaServer
from raftka.broker.exposition import Exposition, Format
from raftka.broker.loop_watch import LoopWatch
from raftka.broker.metrics import row_sources
from raftka.broker.scrapes import render
from raftka.broker.stall_watch import StallWatch
from raftka.monitoring import catalogue
from raftka.monitoring.alert_rules import render_rules
from raftka.monitoring.alerts import ALERTS, Alert
from tests.needed_tools import needs_tools
from tests.unit.cluster.cluster_nodes import cluster_of, run
from tests.unit.monitoring.alert_series import ALL_MINUTES, BAD_MINUTES, SERIES

pytestmark = [pytest.mark.long, needs_tools("promtool")]


def _promtool(*arguments: object, stdin: str = "") -> str:
    """Run promtool and return what it prints; it must succeed."""
    done = subprocess.run(
        ["promtool", *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_check_metrics_accepts_every_path(tmp_path: Path) -> None:
    texts = []

    async def test() -> None:
        async with cluster_of(tmp_path, 2) as cluster:
            await cluster.create_topic("t", partitions=2, replication_factor=2)
            node = cluster.controller
            server = KafkaServer(node.env, node, KafkaOptions())
            server.figures.of(0, 9).ended(0.1, asyncio.get_running_loop().time())
            server.traffic.count_in("t", 100, 1)
            sources = row_sources(node, server, LoopWatch(), StallWatch(node))
            texts.extend(
                [(await render(path, sources[path], Exposition(Format.TEXT))).decode() for path in catalogue.Path]
            )

    run(test)
    assert len(texts) == len(catalogue.Path)
    for text in texts:
        assert _promtool("check", "metrics", stdin=text).strip() == ""


def test_check_rules_accepts_the_alerts(tmp_path: Path) -> None:
    rules = tmp_path / "raftka-alerts.yml"
    rules.write_text(render_rules())
    assert f"{len(ALERTS)} rules found" in _promtool("check", "rules", rules)


def test_every_alert_has_series() -> None:
    assert {alert.name for alert in ALERTS} == set(SERIES)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_fires_while_it_is_bad_and_ends_afterwards(tmp_path: Path, alert: Alert) -> None:
    (tmp_path / "raftka-alerts.yml").write_text(render_rules())
    firing = f'count(ALERTS{{alertname="{alert.name}", alertstate="firing"}})'
    pending = f'count(ALERTS{{alertname="{alert.name}", alertstate="pending"}})'
    one = [{"labels": "{}", "value": 1}]
    tests = {
        "rule_files": ["raftka-alerts.yml"],
        "evaluation_interval": "10s",
        "tests": [
            {
                "interval": "10s",
                "input_series": [{"series": each.name, "values": each.values} for each in SERIES[alert.name]],
                "promql_expr_test": [
                    {"expr": firing, "eval_time": "0s", "exp_samples": []},
                    *(
                        [{"expr": pending, "eval_time": "30s", "exp_samples": one}]
                        if alert.wait.endswith("m") and "[" not in alert.expression
                        else []
                    ),
                    {"expr": firing, "eval_time": f"{BAD_MINUTES - 1}m", "exp_samples": one},
                    {"expr": firing, "eval_time": f"{ALL_MINUTES - 1}m", "exp_samples": []},
                ],
            }
        ],
    }
    # JSON is YAML.
    unit_tests = tmp_path / "unit-tests.yml"
    unit_tests.write_text(json.dumps(tests))
    _promtool("test", "rules", unit_tests)
