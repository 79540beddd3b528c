"""`raftka generate systemd`, `containerfile` and `kubernetes`."""

import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from raftka.cli.exit_codes import UsageError
from raftka.cli.generated_file import out_options, write_generated
from raftka.cli.lazy_group import Command
from raftka.cli.options import parse_pairs
from raftka.cli.param_types import BoundedInt, EnumChoice
from raftka.deploy import checked
from raftka.deploy.containerfile import ImageRequest, render_containerfile
from raftka.deploy.kubernetes import NAME_CHARACTERS_MAX, Affinity, ClusterRequest, render_cluster
from raftka.deploy.systemd import UnitRequest, render_unit, visible_path
from raftka.version import installed_version

_NODE_ID_MAX = 2**31 - 1
_PORT_MAX = 65_535
_REPLICAS_MAX = 15


class Checked(click.ParamType[str]):
    """A text that a function checks and returns; its ValueError is the error."""

    def __init__(self, name: str, *checks: Callable[[str], str]) -> None:
        self.name = name
        self._checks = checks

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return what the checks return, each that of the one before it."""
        text = str(value)
        try:
            for check in self._checks:
                text = check(text)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return text


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        raise ValueError(f"{text!r} is no network, such as 10.0.0.0/24: {error}") from None


def _name(text: str) -> str:
    return checked.checked_service(text, NAME_CHARACTERS_MAX)


_VISIBLE_PATH = Checked("path", checked.checked_path, visible_path)
_USER = Checked("user", checked.checked_user)
_IMAGE = Checked("image", checked.checked_image)
_SIZE = Checked("size", checked.checked_quantity)


@click.command("systemd", cls=Command)
@click.option(
    "--node-id", type=BoundedInt(0, _NODE_ID_MAX), metavar="N", help="node.id. [default: the configuration file's]"
)
@click.option(
    *("--config", "config"),
    type=_VISIBLE_PATH,
    default="/etc/raftka/broker.toml",
    metavar="FILE",
    help="Configuration file.",
)
@click.option(
    "--data-dir", type=_VISIBLE_PATH, default="/var/lib/raftka", metavar="DIR", help="Data directory; it must exist."
)
@click.option("--user", type=_USER, default="raftka", metavar="NAME", help="User and group that run the broker.")
@click.option(
    "--executable",
    type=_VISIBLE_PATH,
    default="/opt/raftka/bin/raftka",
    metavar="FILE",
    help="The command raftka on the machine of the unit.",
)
@click.option(
    *("--allow", "networks"),
    type=Checked("network", _network),
    multiple=True,
    metavar="NETWORK",
    help="Network of clients and brokers; packets of others are dropped. Repeat for more. [default: all networks]",
)
@out_options
def systemd(
    node_id: int | None,
    config: str,
    data_dir: str,
    user: str,
    executable: str,
    networks: tuple[str, ...],
    out: Path | None,
    force: bool,
) -> None:
    """Print a systemd unit for one broker."""
    request = UnitRequest(
        node_id=node_id, config=config, data_dir=data_dir, user=user, executable=executable, networks=networks
    )
    write_generated(render_unit(request, installed_version()), out, force)


@click.command("containerfile", cls=Command)
@click.option(
    "--base",
    type=_IMAGE,
    default="docker.io/library/python:3.13-slim",
    metavar="IMAGE",
    help="Image with Python 3.11 or newer.",
)
@click.option("--admin-port", type=BoundedInt(1, _PORT_MAX), default=9644, metavar="N", help="Port of the admin port.")
@out_options
def containerfile(base: str, admin_port: int, out: Path | None, force: bool) -> None:
    """Print a Containerfile that installs Raftka from its wheel."""
    request = ImageRequest(base=base, version=installed_version(), admin_port=admin_port)
    write_generated(render_containerfile(request), out, force)


@click.command("kubernetes", cls=Command)
@click.option("--image", type=_IMAGE, required=True, metavar="IMAGE", help="Image of `raftka generate containerfile`.")
@click.option(
    "--replicas",
    type=BoundedInt(1, _REPLICAS_MAX),
    default=3,
    metavar="N",
    help="Number of brokers, for ever: brokers neither join nor leave a cluster.",
)
@click.option("--name", type=Checked("name", _name), default="raftka", metavar="NAME", help="Name of the objects.")
@click.option(
    "--namespace", type=Checked("name", checked.checked_label), default="raftka", metavar="NAME", help="Namespace."
)
@click.option(
    "--cluster-domain",
    type=Checked("domain", checked.checked_domain),
    default="cluster.local",
    metavar="NAME",
    help="DNS domain of the Kubernetes cluster.",
)
@click.option("--storage", type=_SIZE, default="100Gi", metavar="SIZE", help="Size of each broker's volume.")
@click.option(
    "--storage-class",
    type=Checked("name", checked.checked_domain),
    metavar="NAME",
    help="Storage class of the volumes. [default: that of Kubernetes]",
)
@click.option(
    "--memory", type=_SIZE, default="1Gi", metavar="SIZE", help="Memory of each broker, requested and at most."
)
@click.option("--cpu", type=Checked("cpu", checked.checked_cpu), default="1", metavar="N", help="CPUs of each broker.")
@click.option(
    "--anti-affinity",
    type=EnumChoice(Affinity),
    default=Affinity.REQUIRED.value,
    help="Whether two brokers may share a machine if there are too few.",
)
@click.option(
    "--metrics-namespace",
    type=Checked("name", checked.checked_label),
    metavar="NAME",
    help="Namespace of a Prometheus, whose pods may reach the admin port. [default: that of the brokers]",
)
@click.option(
    *("-c", "--config", "pairs"), multiple=True, metavar="K=V", help="Option for every broker; repeat for more."
)
@out_options
def kubernetes(pairs: tuple[str, ...], out: Path | None, force: bool, **values: Any) -> None:
    """Print Kubernetes manifests."""
    # Imported here, for the sake of `--help`.
    from raftka.config import ConfigError

    try:
        text = render_cluster(
            ClusterRequest(**values, options=parse_pairs(pairs, "-c")),
            installed_version(),
        )
    except ConfigError as error:
        raise UsageError(str(error)) from None
    write_generated(text, out, force)
