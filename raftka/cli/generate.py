"""`raftka generate`: files for other programs, each by a command that is imported when it is asked for."""

import click

from raftka.cli.lazy_group import LazyCommand, LazyGroup

_DEPLOYMENT, _MONITORING = "raftka.cli.generate_deployment", "raftka.cli.generate_monitoring"
COMMANDS = {
    "systemd": LazyCommand(_DEPLOYMENT, "systemd", "Print a systemd unit for one broker."),
    "containerfile": LazyCommand(_DEPLOYMENT, "containerfile", "Print a Containerfile for an image with Raftka."),
    "kubernetes": LazyCommand(_DEPLOYMENT, "kubernetes", "Print Kubernetes manifests of a cluster."),
    "grafana": LazyCommand(_MONITORING, "grafana", "Print a Grafana dashboard for a cluster."),
    "alerts": LazyCommand(_MONITORING, "alerts", "Print alert rules for Prometheus."),
}


@click.group("generate", cls=LazyGroup, lazy_commands=COMMANDS)
def app() -> None:
    """Print files for other programs: units, manifests, dashboards and alert rules."""
