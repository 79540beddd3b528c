"""The alerts as a rules file of Prometheus."""

import json
from collections.abc import Iterator

from raftka.monitoring.alerts import ALERTS, Alert

GROUP = "raftka"
PAGE = "docs/operations/alerts.md"


def render_rules() -> str:
    """Return the YAML for `rule_files:`."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield "# Alerts on a Raftka cluster, from `raftka generate alerts`; Prometheus reads it as one of its rule_files."
    yield "groups:"
    yield f"  - name: {GROUP}"
    yield "    rules:"
    for alert in ALERTS:
        yield from _rule(alert)


def _rule(alert: Alert) -> Iterator[str]:
    yield f"      - alert: {alert.name}"
    yield f"        expr: {_text(alert.expression)}"
    if alert.wait != "0s":
        yield f"        for: {alert.wait}"
    yield "        labels:"
    yield f"          severity: {alert.severity}"
    yield "        annotations:"
    yield f"          summary: {_text(alert.summary)}"
    yield f"          cause: {_text(alert.cause)}"
    yield f"          cure: {_text(alert.cure)}"
    yield f"          commands: {_text('; '.join(alert.commands))}"
    yield f"          page: {_text(f'{PAGE}#{alert.name.lower()}')}"


def _text(text: str) -> str:
    """Return a YAML string: JSON's are among them."""
    return json.dumps(text)
