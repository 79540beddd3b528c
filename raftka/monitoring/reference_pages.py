"""docs/metrics.md and docs/operations/alerts.md, from the tables."""

from collections.abc import Iterator

from raftka.monitoring.alert_rules import GROUP
from raftka.monitoring.alerts import ALERTS, Alert
from raftka.monitoring.catalogue import SECTIONS, Family, Path

_METRICS = """\
# Metrics

<!-- Written by `python docs/metrics.py` from raftka/monitoring/catalogue.py. -->

This page lists every metric of a broker. It is for operators who write dashboards and alerts;
[Metrics and admin HTTP](operations/monitoring.md) describes the port, and [Alerts](operations/alerts.md) what to do.

A broker exposes them at its admin port, at `/metrics`. Series of single replicas are at `/metrics/partitions`: a broker
may have thousands of them, so scrape them only if you need them. Both answer in the text format of Prometheus, or in
OpenMetrics if the `Accept` header asks for it.

- A scrape is rendered in short steps, and everybody who asks within a second gets the same answer.
- Durations are histograms with the same 14 bounds for all, from 0.5 ms to 10 s. Metrics named `..._max_seconds` are
  the longest of the last 50 to 60 s.
- Counters begin at 0 when a broker starts, and those of a topic when it is created.
- `raftka generate grafana` prints a dashboard, and `raftka generate alerts` prints alert rules for Prometheus.

```yaml
scrape_configs:
  - job_name: raftka
    scrape_interval: 10s
    static_configs:
      - targets: ["127.0.0.1:9644", "127.0.0.1:9645", "127.0.0.1:9646"]
```

Sections:
"""

_ALERTS = """\
# Alerts

<!-- Written by `python docs/metrics.py` from raftka/monitoring/alerts.py. -->

This page leads from an alert to its cure. It is for operators who were just called.

`raftka generate alerts > raftka-alerts.yml` writes the rules; name the file in Prometheus' `rule_files`. In the
commands below, `N` is the broker in question, `TOPIC` the topic, `GROUP` the group, and `BYTES` what a partition may
keep. `raftka dev logs N` and `raftka dev restart N` are for a broker of `raftka dev`. On a machine of its own, read the
log of the broker's service (`journalctl -u raftka`) and restart the service instead.

"""

# What the list of alerts says for what Prometheus fills in.
_WORDS = {
    "{{ $labels.instance }}": "a broker",
    "{{ $labels.node }}": "N",
    "{{ $labels.peer }}": "N",
    "{{ $labels.what }}": "a bound",
    "{{ $labels.api }}": "a request",
    "{{ $labels.group }}": "GROUP",
    "{{ $value }} ": "some ",
    "by some s": "by more than 5 s",
    "{{ $value | humanize1024 }}B left": "little room left",
    "{{ $value | humanizeDuration }} late": "late",
    "takes {{ $value | humanizeDuration }}": "takes long",
    "longer than {{ $value | humanizeDuration }}": "long",
    "is {{ $value | humanizePercentage }} full": "is nearly full",
    "uses {{ $value | humanizePercentage }} of": "uses nearly all of",
}


def metrics_page() -> str:
    """Return docs/metrics.md."""
    return _METRICS + "".join(f"{line}\n" for line in _metrics_lines())


def _metrics_lines() -> Iterator[str]:
    yield ""
    for title in SECTIONS:
        yield f"- [{title}](#{title.lower().replace(' ', '-')})"
    for title, families in SECTIONS.items():
        yield from ("", f"## {title}", "")
        if all(family.path is Path.PARTITIONS for family in families):
            yield from (f"At `{Path.PARTITIONS}`, one series per replica of this broker.", "")
        yield from ("| metric | type | what it is | look when |", "| --- | --- | --- | --- |")
        for family in families:
            yield f"| {_shown(family)} | {family.kind} | {_help(family)} | {family.tells} |"


def _shown(family: Family) -> str:
    return f"`{family.name}{{{', '.join(family.labels)}}}`" if family.labels else f"`{family.name}`"


def _help(family: Family) -> str:
    if family.path is Path.BROKER and family.series:
        return f"{family.help} Series: {family.series}."
    return family.help


def alerts_page() -> str:
    """Return docs/operations/alerts.md."""
    return _ALERTS + "".join(f"{line}\n" for line in _alerts_lines())


def _alerts_lines() -> Iterator[str]:
    for alert in ALERTS:
        yield f"- [{alert.name}](#{alert.name.lower()}) ({alert.severity}): {_words(alert.summary)}"
    yield from ("", f"All of them are in the group `{GROUP}`.")
    for alert in ALERTS:
        yield from ("", f"## {alert.name}", "")
        yield from _section(alert)


def _section(alert: Alert) -> Iterator[str]:
    after = "at once" if alert.wait == "0s" else f"after {alert.wait}"
    yield f"Severity {alert.severity}; fires {after}."
    yield from ("", "```promql", alert.expression, "```", "")
    yield f"**Cause.** {alert.cause}"
    yield from ("", f"**Cure.** {alert.cure}")
    yield from ("", "```console", *(f"$ {command}" for command in alert.commands), "```")


def _words(summary: str) -> str:
    """Return a summary without Prometheus' templates."""
    for template, words in _WORDS.items():
        summary = summary.replace(template, words)
    assert "{{" not in summary, summary
    return summary[0].upper() + summary[1:]
