"""`raftka generate grafana|alerts`: files for the monitoring of a cluster, from the tables of raftka.monitoring."""

import click

from raftka.cli.lazy_group import Command


@click.command("grafana", cls=Command)
def grafana() -> None:
    """Print a Grafana dashboard for a cluster.

    Import it in Grafana (Dashboards, New, Import); Grafana asks for the Prometheus data source.
    """
    from raftka.monitoring.dashboard import render_dashboard

    print(render_dashboard(), end="")


@click.command("alerts", cls=Command)
def alerts() -> None:
    """Print alert rules for Prometheus.

    Name the file in `rule_files:` of prometheus.yml. Each alert has its cause and its cure among its annotations.
    """
    from raftka.monitoring.alert_rules import render_rules

    print(render_rules(), end="")
