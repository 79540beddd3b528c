"""The Grafana dashboard: what is wrong first, then clients, brokers, disks and topics."""

import json
from typing import Any, NamedTuple

from raftka.monitoring.alerts import OF_RAFTKA
from raftka.monitoring.catalogue import BY_NAME, Kind

TITLE = "Raftka"
_UID = "raftka-cluster"
# Grafana's grid has 24 columns.
_COLUMNS = 24
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_VARIABLE = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
# Grafana's units.
_SECONDS, _BYTES, _BYTES_PER_SECOND, _PER_SECOND, _NUMBER = "s", "bytes", "Bps", "ops", "short"


class Panel(NamedTuple):
    """One panel: a number if it is for the first row, otherwise a chart.

    Attributes:
        title: Above it.
        expressions: PromQL by legend; the legend may have `{{label}}`.
        unit: Of Grafana.
        height, width: In cells of Grafana's grid.
        is_number: Only the newest value, red from 1 on.
    """

    title: str
    expressions: dict[str, str]
    unit: str = _NUMBER
    width: int = 12
    height: int = 8
    is_number: bool = False


def _quantile(name: str, by: str) -> str:
    assert BY_NAME[name].kind is Kind.HISTOGRAM
    return f"histogram_quantile(0.99, sum by (le, {by}) (rate({name}_bucket[$__rate_interval])))"


def _rate(name: str) -> str:
    return f"rate({name}[$__rate_interval])"


def _number(title: str, expression: str) -> Panel:
    return Panel(title, {"": expression}, width=4, height=4, is_number=True)


ROWS: dict[str, tuple[Panel, ...]] = {
    "State": (
        _number("Brokers lost", "max(raftka_cluster_brokers - raftka_cluster_brokers_alive)"),
        _number("Offline partitions", "max(raftka_cluster_offline_partitions)"),
        _number("Under min. in-sync", "sum(raftka_under_min_isr_partitions)"),
        _number("Under-replicated", "sum(raftka_under_replicated_partitions)"),
        _number("Stalled", "sum(raftka_stalled_partitions)"),
        _number("Failed replicas", "sum(raftka_failed_replicas)"),
        Panel("Brokers", {"alive": "max(raftka_cluster_brokers_alive)", "all": "max(raftka_cluster_brokers)"}),
        Panel("Partitions led", {"{{instance}}": "raftka_partitions_led"}),
    ),
    "Clients": (
        Panel(
            "Records in and out",
            {
                "in": f"sum({_rate('raftka_topic_records_in_total')})",
                "out": f"sum({_rate('raftka_topic_records_out_total')})",
            },
            _PER_SECOND,
        ),
        Panel(
            "Bytes in and out",
            {
                "in": f"sum({_rate('raftka_topic_bytes_in_total')})",
                "out": f"sum({_rate('raftka_topic_bytes_out_total')})",
            },
            _BYTES_PER_SECOND,
        ),
        Panel("Request latency, 99 %", {"{{api}}": _quantile("raftka_kafka_request_seconds", "api")}, _SECONDS),
        Panel("Requests", {"{{api}}": f"sum by (api) ({_rate('raftka_kafka_requests_total')})"}, _PER_SECOND),
        Panel(
            "Error codes",
            {"{{api}} {{code}}": f"sum by (api, code) ({_rate('raftka_kafka_errors_total')})"},
            _PER_SECOND,
        ),
        Panel("Connections", {"{{instance}}": "raftka_kafka_connections"}),
    ),
    "Transactions": (
        Panel(
            "Transactions",
            {
                "committed": f"sum({_rate('raftka_transactions_committed_total')})",
                "aborted": f"sum({_rate('raftka_transactions_aborted_total')})",
            },
            _PER_SECOND,
        ),
        Panel("Oldest open transaction", {"{{instance}}": "raftka_oldest_transaction_seconds"}, _SECONDS),
    ),
    "Brokers": (
        Panel("CPU", {"{{instance}}": _rate("process_cpu_seconds_total") + OF_RAFTKA}),
        Panel("Memory", {"{{instance}}": "process_resident_memory_bytes" + OF_RAFTKA}, _BYTES),
        Panel("Loop lag, longest of 60 s", {"{{instance}}": "raftka_loop_lag_max_seconds"}, _SECONDS),
        Panel("Garbage collection, longest of 60 s", {"{{instance}}": "raftka_gc_pause_max_seconds"}, _SECONDS),
        Panel("Elections started", {"{{instance}}": _rate("raftka_raft_elections_started_total")}, _PER_SECOND),
        Panel("Links that are down", {"{{instance}} to {{node}}": "1 - raftka_peer_up"}),
        Panel("Refused because of a bound", {"{{what}}": "sum by (what) (increase(raftka_bound_refusals_total[5m]))"}),
        Panel("Unsent on links", {"{{instance}} to {{peer}}": "raftka_link_unsent_bytes"}, _BYTES),
    ),
    "Disks": (
        Panel("Fsync, 99 %", {"{{instance}}": _quantile("raftka_fsync_seconds", "instance")}, _SECONDS),
        Panel("Kvstore sync, 99 %", {"{{instance}}": _quantile("raftka_kvstore_sync_seconds", "instance")}, _SECONDS),
        Panel("Space above the reserve", {"{{instance}}": "raftka_disk_spare_bytes"}, _BYTES),
        Panel("Descriptors in use", {"{{instance}}": "process_open_fds / process_max_fds" + OF_RAFTKA}, "percentunit"),
    ),
    "Topics": (
        Panel(
            "Bytes in, ten largest",
            {"{{topic}}": f"topk(10, sum by (topic) ({_rate('raftka_topic_bytes_in_total')}))"},
            _BYTES_PER_SECOND,
        ),
        Panel("Size, ten largest", {"{{topic}}": "topk(10, sum by (topic) (raftka_topic_size_bytes))"}, _BYTES),
        Panel(
            "Replicas in sync above min.insync.replicas, ten smallest",
            {"{{topic}}": "bottomk(10, min by (topic) (raftka_isr_size_min - raftka_min_isr_setting))"},
        ),
    ),
}


def render_dashboard() -> str:
    """Return the JSON that Grafana imports; it asks for the Prometheus data source."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS.items():
        panels.append(_heading(len(panels) + 1, title, top))
        top += 1
        left = height = 0
        for panel in row:
            if left + panel.width > _COLUMNS:
                left, top, height = 0, top + height, 0
            panels.append(_panel(len(panels) + 1, panel, left, top))
            left, height = left + panel.width, max(height, panel.height)
        top += height
    dashboard = {
        "uid": _UID,
        "title": TITLE,
        "tags": ["raftka"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "templating": {"list": [_VARIABLE]},
        "annotations": {"list": []},
        "panels": panels,
    }
    return json.dumps(dashboard, indent=2) + "\n"


def _heading(number: int, title: str, top: int) -> dict[str, Any]:
    place = {"h": 1, "w": _COLUMNS, "x": 0, "y": top}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": place}


def _panel(number: int, panel: Panel, left: int, top: int) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.is_number:
        steps.append({"color": "red", "value": 1})
    return {
        "id": number,
        "type": "stat" if panel.is_number else "timeseries",
        "title": panel.title,
        "datasource": _DATASOURCE,
        "gridPos": {"h": panel.height, "w": panel.width, "x": left, "y": top},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {"colorMode": "background"} if panel.is_number else {"tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": _DATASOURCE, "expr": expression, "legendFormat": legend}
            for place, (legend, expression) in enumerate(panel.expressions.items())
        ],
    }
