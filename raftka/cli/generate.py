"""`raftka generate`: files for deployment, each by a command that is imported when it is asked for."""

import click

from raftka.cli.lazy_group import LazyCommand, LazyGroup

_DEPLOYMENT = "raftka.cli.generate_deployment"
COMMANDS = {
    "systemd": LazyCommand(_DEPLOYMENT, "systemd", "Print a systemd unit for one broker."),
    "containerfile": LazyCommand(_DEPLOYMENT, "containerfile", "Print a Containerfile for an image with Raftka."),
    "kubernetes": LazyCommand(_DEPLOYMENT, "kubernetes", "Print Kubernetes manifests of a cluster."),
}


@click.group("generate", cls=LazyGroup, lazy_commands=COMMANDS)
def app() -> None:
    """Print files for deployment."""
