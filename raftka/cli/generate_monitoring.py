"""`raftka generate grafana|alerts`: files for the monitoring of a cluster, from the tables of raftka.monitoring."""

from pathlib import Path

import click

from raftka.cli.generated_file import out_options, write_generated
from raftka.cli.lazy_group import Command


@click.command("grafana", cls=Command)
@out_options
def grafana(out: Path | None, force: bool) -> None:
    """Print a Grafana dashboard for a cluster.

    Import it in Grafana (Dashboards, New, Import); Grafana asks for the Prometheus data source.
    """
    from raftka.monitoring.dashboard import render_dashboard

    write_generated(render_dashboard(), out, force)


@click.command("alerts", cls=Command)
@out_options
def alerts(out: Path | None, force: bool) -> None:
    """Print alert rules for Prometheus.

    Name the file in `rule_files:` of prometheus.yml. Each alert has its cause and its cure among its annotations.
    """
    from raftka.monitoring.alert_rules import render_rules

    write_generated(render_rules(), out, force)
