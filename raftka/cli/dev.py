"""`raftka dev`: a cluster of brokers on this machine."""

import secrets
import signal
import sys
import threading
from pathlib import Path

import click

from raftka.cli.exit_codes import CommandError
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import DEFAULT_BROKERS, Format, data_dir_option, format_option, parse_pairs
from raftka.cli.output import print_json, print_table
from raftka.cli.param_types import BoundedInt
from raftka.dev import membership, operations
from raftka.dev.errors import InterruptedStartError
from raftka.dev.supervisor import (
    DAMAGED_READY_SECONDS,
    NODES_MAX,
    READY_SECONDS,
    DevCluster,
    StartRequest,
    start_cluster,
)
from raftka.kafka.client import check_writable
from raftka.kafka.errors import KafkaClientError

node_argument = click.argument("node", type=BoundedInt(), metavar="NODE", help="Number of the broker, from 1.")
_PORT = BoundedInt(0, 65_535)


@click.group("dev", cls=CommandGroup, invoke_without_command=True)
@click.option("--nodes", "-n", type=BoundedInt(1, NODES_MAX), metavar="N", help="Number of brokers. [default: 3]")
@click.option("--port", type=_PORT, metavar="N", help="First Kafka port; 0 picks free ports. [default: 9092]")
@click.option("--admin-port", type=_PORT, metavar="N", help="First admin port; 0 picks free ports. [default: 9644]")
@click.option(
    "--rpc-port", type=_PORT, metavar="N", help="Port for links between brokers; 0 picks a free port. [default: 33145]"
)
@data_dir_option
@click.option("--ephemeral", is_flag=True, help="Use a temporary directory and remove it when the cluster stops.")
@click.option("--detach", is_flag=True, help="Return once the cluster is ready, and leave it running.")
@click.option(
    "-c",
    "--config",
    multiple=True,
    metavar="K=V",
    help="Option for every broker, kept for later starts; repeat for more.",
)
@click.pass_context
def app(
    context: click.Context,
    nodes: int | None,
    port: int | None,
    admin_port: int | None,
    rpc_port: int | None,
    data_dir: Path | None,
    ephemeral: bool,
    detach: bool,
    config: tuple[str, ...],
) -> None:
    """Run a cluster of brokers on this machine until Ctrl-C. A later run resumes the cluster of the same directory."""
    options = parse_pairs(config, "-c")
    request = StartRequest(nodes, port, admin_port, rpc_port, data_dir, ephemeral, detach, options)
    if context.invoked_subcommand is not None:
        if request != StartRequest():
            raise click.BadParameter(f"put options after the command: raftka dev {context.invoked_subcommand} ...")
        return
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    cluster = start_cluster(request)
    has_started = False
    try:
        try:
            _wait_until_writable(cluster, stop)
        except InterruptedStartError:
            return
        has_started = True
        _greet(cluster, request)
        if not detach:
            cluster.watch(stop, lambda line: print(line, flush=True))
    finally:
        if not (detach and has_started):
            print("stopping", flush=True)
            killed = cluster.stop()
            print(f"stopped (killed, because they did not end in time: {killed})" if killed else "stopped", flush=True)


def _wait_until_writable(cluster: DevCluster, stop: threading.Event) -> None:
    """Wait until a record is acknowledged; brokers that are not well are warned of.

    Raises:
        CommandError: Brokers are not well, and the others cannot serve without them.
    """
    warnings = cluster.wait_ready(stop)
    for line in warnings:
        print(f"raftka: warning: {line}", file=sys.stderr)
    probe = f"raftka-dev-probe-{secrets.token_hex(4)}"
    try:
        check_writable(
            cluster.state.bootstrap, probe, DAMAGED_READY_SECONDS if warnings else READY_SECONDS, stop.is_set
        )
    except KafkaClientError as error:
        raise CommandError("; ".join([str(error), *warnings])) from None
    if stop.is_set():
        raise InterruptedStartError("stopped before the cluster was ready")


def _greet(cluster: DevCluster, request: StartRequest) -> None:
    state, folder = cluster.state, cluster.folder.path
    data_dir = "" if request.data_dir is None and not state.ephemeral else f" --data-dir {folder}"
    print(f"bootstrap: {state.bootstrap}")
    print(f"admin:     {','.join(broker.addresses.admin for broker in state.brokers)}")
    print(f"data:      {folder}")
    if state.ephemeral:
        print("ephemeral: the stop of the cluster removes the folder")
    print("try, in another terminal:" if not request.detach else "try:")
    if state.bootstrap != DEFAULT_BROKERS:
        # All of them, for one is to be killed below.
        print(f"  export RAFTKA_BROKERS={state.bootstrap}")
    print("  raftka topic create orders")
    print("  echo hello | raftka produce orders")
    print("  raftka consume orders -n 1")
    print(f"  raftka dev kill {state.brokers[0].node_id}{data_dir}")
    print("  raftka cluster health")
    print(f"  raftka dev stop{data_dir}" if request.detach else "Ctrl-C stops the cluster", flush=True)


@app.command()
@data_dir_option
@format_option
def status(data_dir: Path | None, output: Format) -> None:
    """Show the brokers: addresses, process ids, and whether they run."""
    brokers = operations.describe(operations.open_folder(data_dir))
    if output is Format.JSON:
        print_json(brokers)
        return
    rows = [
        [each["node_id"], "alive" if each["alive"] else "dead", each["pid"] or "-", each["kafka"], each["admin"]]
        for each in brokers
    ]
    print_table(["NODE", "STATE", "PID", "KAFKA", "ADMIN"], rows)


@app.command()
@data_dir_option
def stop(data_dir: Path | None) -> None:
    """Stop every broker. The data stays, unless the cluster is ephemeral."""
    folder = operations.open_folder(data_dir)
    print("stopped" if operations.stop_cluster(folder) else f"nothing runs in {folder.path}")


@app.command()
@click.argument("nodes", nargs=-1, type=BoundedInt(), metavar="[NODE]...", help="Numbers of brokers. [default: all]")
@data_dir_option
@click.option("--follow", "-f", is_flag=True, help="Print new lines until Ctrl-C.")
@click.option("--lines", "-n", type=BoundedInt(0), default=50, metavar="N", help="Number of lines from each log.")
def logs(nodes: tuple[int, ...], data_dir: Path | None, follow: bool, lines: int) -> None:
    """Print the last lines of the brokers' logs, each with the broker's number."""
    folder = operations.open_folder(data_dir)
    try:
        for node_id, line in operations.log_lines(folder, list(nodes), lines, follow):
            print(f"{node_id} | {line}", flush=follow)
    except KeyboardInterrupt:
        return


@app.command()
@node_argument
@data_dir_option
def kill(node: int, data_dir: Path | None) -> None:
    """Kill one broker with SIGKILL."""
    operations.kill_broker(operations.open_folder(data_dir), node)
    print(f"broker {node} is killed; start it again: raftka dev restart {node}{_shown(data_dir)}")


@app.command()
@node_argument
@data_dir_option
def restart(node: int, data_dir: Path | None) -> None:
    """Stop one broker if it runs, start it, and wait until it is ready."""
    pid, reasons = operations.restart_broker(operations.open_folder(data_dir), node)
    for reason in reasons:
        print(f"raftka: warning: {reason}", file=sys.stderr)
    print(f"broker {node} runs (pid {pid})")


@app.command()
@data_dir_option
def add(data_dir: Path | None) -> None:
    """Add one broker to the running cluster, and wait until it serves.

    It gets the next number and the next ports that are free. Partitions stay where they are: `raftka partition move`
    moves some to it.
    """
    try:
        broker, state, reasons = membership.add_broker(operations.open_folder(data_dir))
    except KeyboardInterrupt:
        print("raftka: interrupted; a broker that has begun to join goes on: raftka dev status", file=sys.stderr)
        raise
    for reason in reasons:
        print(f"raftka: warning: {reason}", file=sys.stderr)
    assert broker.process is not None
    print(f"broker {broker.node_id} runs (pid {broker.process.pid}), Kafka at {broker.addresses.kafka}")
    print(f"bootstrap: {state.bootstrap}")


@app.command()
@node_argument
@data_dir_option
def remove(node: int, data_dir: Path | None) -> None:
    """Take an empty broker out of the cluster, and stop it.

    Empty it first: `raftka broker decommission NODE`. Its folder stays on the disk; you may delete it.
    """
    folder = operations.open_folder(data_dir)
    broker, state = membership.remove_broker(folder, node)
    print(f"broker {node} is removed; nothing needs its folder any more: {folder.node_path(node)}")
    print(f"bootstrap: {state.bootstrap}")
    kafka = broker.addresses.kafka
    print(f"nobody listens at {kafka} any more: a client that knows no other address finds no broker")
    if kafka == DEFAULT_BROKERS:
        print(f"raftka commands ask there if they are not told where: export RAFTKA_BROKERS={state.bootstrap}")


def _shown(data_dir: Path | None) -> str:
    return "" if data_dir is None else f" --data-dir {data_dir}"
