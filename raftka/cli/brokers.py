"""`raftka broker`: brokers that join, are drained, emptied, replaced and removed."""

import sys
from collections.abc import Mapping
from typing import Any

import click
from click.exceptions import Exit

from raftka.cli.admin_verbs import VerbRefusedError, ask_verb
from raftka.cli.broker_wait import wait_until
from raftka.cli.exit_codes import FAILED
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import Format, brokers_option, dry_run_option, format_option, timeout_option
from raftka.cli.output import print_json, print_table
from raftka.cli.param_types import BoundedInt
from raftka.counted import counted

_NODE_MAX = 999_999_999
_SHOWN_MAX = 20
_UNCHANGED = "nothing is changed (--dry-run)"
_NO_MAJORITY = "WITHOUT_MAJORITY"

_node_argument = click.argument("node", type=BoundedInt(0, _NODE_MAX), metavar="N", help="Node id of the broker.")
_wait_option = click.option(
    "--wait/--no-wait", default=True, help="Wait until it is done, and say on stderr what that waits for."
)


@click.group("broker", cls=CommandGroup)
def app() -> None:
    """List brokers, and drain, empty, replace and remove them."""


@app.command("list")
@brokers_option
@format_option
def list_brokers(brokers: str, output: Format) -> None:
    """List the brokers: state, link, role in raft0, replicas, data directory, address, features.

    State: active, draining (leads nothing, gets nothing), decommissioning (its replicas move away). "retired" beside
    it: its data directory never counts again, and the broker has not joined with another one. LINK: up, down or
    refused, as the broker sees it that was asked. RAFT0: voter or learner of raft0, the group that keeps topics and
    brokers. LED: how many partitions it leads. EPOCH: higher for a broker that has joined later. KAFKA and RPC: its
    addresses for clients and for other brokers.
    """
    rows = ask_verb(brokers, "/v1/brokers")["rows"]
    if output is Format.JSON:
        print_json(rows)
        return
    print_table(
        ["NODE", "STATE", "LINK", "RAFT0", "REPLICAS", "LED", "EPOCH", "DIRECTORY", "KAFKA", "RPC", "FEATURES"],
        [
            (
                *(row["node_id"], _state(row), _link(row), row["raft0"], row["replicas"], row["led"]),
                *(".".join(map(str, row["epoch"])), row["directory_id"], row["kafka"] or "-", row["rpc"] or "-"),
                ",".join(f"{name}={level}" for name, level in sorted(row["features"].items())) or "-",
            )
            for row in rows
        ],
    )


def _state(row: dict[str, Any]) -> str:
    return f"{row['state']}, retired" if row["directory_retired"] else str(row["state"])


def _link(row: dict[str, Any]) -> str:
    return "up" if row["alive"] else "refused" if row["refused"] else "down"


@app.command()
@_node_argument
@_wait_option
@timeout_option(300.0)
@dry_run_option
@brokers_option
@format_option
def drain(node: int, wait: bool, timeout: float, dry_run: bool, brokers: str, output: Format) -> None:
    """Let a broker lead nothing and get nothing new.

    Its replicas stay. Drain a broker for example before its machine is restarted. It goes on to lead partitions whose
    only replica it holds; they are named. The command waits until other brokers lead the rest, unless --no-wait is
    given. `raftka broker undrain` ends it; until then `raftka doctor` names the broker.
    """
    found = _change(brokers, node, "drain", dry_run=dry_run)
    if wait and not dry_run:
        found = {**found, **wait_until(brokers, node, timeout, _leads_nothing)}
    if dry_run:
        lines = [f"broker {node}: would be drained"]
    elif found["waits_for"]:
        lines = [f"broker {node}: is being drained", f"waits for {found['waits_for']}"]
    else:
        lines = [f"broker {node}: is drained"]
    if found["only_here_count"]:
        more = found["only_here_count"] - _SHOWN_MAX
        names = ", ".join(found["only_here"][:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
        lines.append(f"still led by it, for nobody else holds them: {names}")
    _tell(found, lines, dry_run, output)


def _leads_nothing(found: Mapping[str, Any]) -> bool:
    return found["state"] == "draining" and not found["waits_for"]


@app.command()
@_node_argument
@dry_run_option
@brokers_option
@format_option
def undrain(node: int, dry_run: bool, brokers: str, output: Format) -> None:
    """Let a drained broker lead and get replicas again.

    Leaders do not come back by themselves: `raftka partition elect-preferred --all` brings them back.
    """
    found = _change(brokers, node, "undrain", dry_run=dry_run)
    _tell(found, _active(node, found, dry_run), dry_run, output)


def _active(node: int, found: Mapping[str, Any], dry_run: bool) -> list[str]:
    lines = [f"broker {node}: {'would be' if dry_run else 'is'} active"]
    # For example the directory that is to come in the place of a retired one.
    return lines + ([f"waits for {found['waits_for']}"] if found["waits_for"] else [])


@app.command()
@_node_argument
@_wait_option
@timeout_option(3600.0)
@dry_run_option
@brokers_option
@format_option
def decommission(node: int, wait: bool, timeout: float, dry_run: bool, brokers: str, output: Format) -> None:
    """Empty a broker, so that it can be removed.

    Its replicas and its vote in raft0 go to other brokers, while clients read and write. The command waits until the
    broker is empty, unless --no-wait is given. Ctrl-C ends the wait only; so does --timeout, with exit code 1. The same
    command waits again. Afterwards `raftka broker remove` takes the broker out; `raftka broker recommission` keeps it.
    """
    found = _change(brokers, node, "decommission", dry_run=dry_run)
    lines = []
    if dry_run:
        lines.append(f"broker {node}: {counted(found['replicas'], 'replica')} would move to other brokers")
    elif wait:
        found = {**found, **wait_until(brokers, node, timeout, _is_empty)}
        lines.append(f"broker {node}: is empty; next: raftka broker remove {node}")
    else:
        lines.append(f"broker {node}: is being decommissioned")
        lines += [f"waits for {found['waits_for']}"] if found["waits_for"] else []
        lines += [f"{each['partition']}: waits for {each['why']}" for each in found["waiting"][:_SHOWN_MAX]]
        lines.append(f"next: raftka broker decommission {node} waits until it is empty")
    _tell(found, lines, dry_run, output)


def _is_empty(found: Mapping[str, Any]) -> bool:
    return found["state"] == "decommissioning" and not found["to_move"] and not found["vote_to_move"]


@app.command()
@_node_argument
@dry_run_option
@brokers_option
@format_option
def recommission(node: int, dry_run: bool, brokers: str, output: Format) -> None:
    """Keep a broker that is being decommissioned.

    Replicas that have left it, or are on their way, do not come back.
    """
    found = _change(brokers, node, "recommission", dry_run=dry_run)
    _tell(found, _active(node, found, dry_run), dry_run, output)


@app.command()
@_node_argument
@dry_run_option
@brokers_option
@format_option
def remove(node: int, dry_run: bool, brokers: str, output: Format) -> None:
    """Take an empty broker out of the cluster.

    Empty it first: `raftka broker decommission N`. Its data directory never counts again. Then stop its process, and
    take it out of the bootstrap addresses of clients and of the `seeds` of other brokers.
    """
    found = _change(brokers, node, "remove", dry_run=dry_run)
    words = "would be removed" if dry_run else "is not in the cluster; stop its process"
    _tell(found, [f"broker {node}: {words}"], dry_run, output)


@app.command()
@_node_argument
@click.option(
    "--directory",
    metavar="ID",
    help="Id of the lost directory, as `raftka broker list` shows it. [default: the broker's, if it has replaced none]",
)
@click.option(
    "--accept-waiting",
    is_flag=True,
    help="Go on though some partitions would have no leader for ever without that directory. Without this option the"
    " command is refused then, and lists them.",
)
@click.option(
    "--wait/--no-wait", default=False, help="Wait until the broker has joined again and has its replicas back."
)
@timeout_option(3600.0)
@dry_run_option
@brokers_option
@format_option
def replace(
    *,
    node: int,
    directory: str | None,
    accept_waiting: bool,
    wait: bool,
    timeout: float,
    dry_run: bool,
    brokers: str,
    output: Format,
) -> None:
    """Give up the lost disk of a broker.

    Its data directory never counts again, and the broker may join with an empty one. This cannot be taken back. Stop
    the broker first: the command refuses while other brokers reach it. Afterwards start it with an empty data.dir; its
    replicas and its vote come back by themselves. The command may be typed again: it retires the same directory once.
    If the broker has replaced a directory before, name the lost one by --directory.
    """
    # Imported here, for the sake of `--help`.
    from raftka.health.move_rules import NO_FORCE

    document = {"directory_id": directory or "", "accept_waiting": accept_waiting, "dry_run": dry_run}
    try:
        found = ask_verb(brokers, f"/v1/brokers/{node}/retire-directory", document)
    except VerbRefusedError as error:
        if error.body.get("error") != _NO_MAJORITY:
            raise
        if output is Format.JSON:
            print_json(error.body)
        _warn(error.body["without_majority"])
        print(
            f"raftka: {error}; --accept-waiting goes on all the same: where no broker can be started, {NO_FORCE}",
            file=sys.stderr,
        )
        raise Exit(FAILED) from None
    _warn(found["without_majority"])
    directory = found["directory_id"]
    if wait and not dry_run:
        print(f"raftka: start broker {node} with an empty data.dir", file=sys.stderr)
        joined = wait_until(
            *(brokers, node, timeout), lambda each: each["directory_id"] != directory and not each["waits_for"]
        )
        found = {**found, **joined}
    lines = [f"broker {node}: data directory {directory} {'would be' if dry_run else 'is'} retired"]
    if wait and not dry_run:
        lines.append(
            f"broker {node}: has joined with data directory {found['directory_id']}, and has its replicas back"
        )
    if not dry_run and found["waits_for"]:
        lines += [f"waits for {found['waits_for']}", f"next: start broker {node} with an empty data.dir"]
    _tell(found, lines, dry_run, output)


def _warn(partitions: list[dict[str, str]]) -> None:
    """Name the partitions that would have no leader for ever."""
    for each in partitions[:_SHOWN_MAX]:
        print(f"raftka: {each['partition']} would have no leader: {each['why']}", file=sys.stderr)
    if len(partitions) > _SHOWN_MAX:
        print(f"raftka: and {counted(len(partitions) - _SHOWN_MAX, 'partition')} more", file=sys.stderr)


def _change(brokers: str, node: int, change: str, *, dry_run: bool) -> dict[str, Any]:
    return ask_verb(brokers, f"/v1/brokers/{node}/{change}", {"dry_run": dry_run})


def _tell(found: dict[str, Any], lines: list[str], dry_run: bool, output: Format) -> None:
    if output is Format.JSON:
        print_json(found)
        return
    for line in lines:
        print(line)
    if dry_run:
        print(_UNCHANGED)
