"""`raftka partition move|moves|cancel`: partitions on their way to other brokers."""

import re
from typing import Any

import click
from click.exceptions import Exit

from raftka.cli.admin_verbs import ask_verb
from raftka.cli.exit_codes import FAILED
from raftka.cli.lazy_group import Command
from raftka.cli.move_wait import Partition, ask_and_report, wait_until_moved
from raftka.cli.options import Format, brokers_option, dry_run_option, format_option, timeout_option
from raftka.cli.output import node_list, print_json, print_table

_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})/(0|[1-9][0-9]{0,8})")
wait_option = click.option(
    "--wait", is_flag=True, help="Wait until the partitions are moved, and say on stderr what that waits for."
)


def _given_partitions(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> list[Partition]:
    found: list[Partition] = []
    for text in texts:
        parts = _PARTITION.fullmatch(text)
        if parts is None:
            raise click.BadParameter(f"{text!r} is not TOPIC/PARTITION, as in orders/0")
        partition = (parts[1], int(parts[2]))
        if partition in found:
            raise click.BadParameter(f"{text} is named twice")
        found.append(partition)
    return found


def _given_nodes(_: click.Context, __: click.Parameter, text: str) -> list[int]:
    pieces = text.split(",")
    if not all(re.fullmatch("[0-9]{1,9}", piece) for piece in pieces):
        raise click.BadParameter(f"{text!r} is no list of node ids, as in 1,2,3")
    return [int(piece) for piece in pieces]


@click.command(cls=Command)
@click.argument(
    "partitions",
    nargs=-1,
    required=True,
    metavar="TOPIC/PARTITION...",
    callback=_given_partitions,
    help="Partitions to move, all to the same brokers.",
)
@click.option(
    *("--to", "target"),
    required=True,
    metavar="N,N,...",
    callback=_given_nodes,
    help="Node ids of all brokers that shall hold the partitions then, the preferred leader first.",
)
@click.option("--change-count", is_flag=True, help="Allow more or fewer replicas than the partitions have.")
@wait_option
@timeout_option(3600.0)
@dry_run_option
@brokers_option
@format_option
def move(
    partitions: list[Partition],
    target: list[int],
    change_count: bool,
    wait: bool,
    timeout: float,
    dry_run: bool,
    brokers: str,
    output: Format,
) -> None:
    """Move partitions to other brokers.

    Clients read and write meanwhile. If a partition is being moved already, it goes to the brokers of --to instead.
    Without --wait the command ends once the moves have begun: `raftka partition moves` shows them, and
    `raftka partition cancel` takes them back. Exit with 1 if one of the partitions is refused; the others are moved.
    """
    wanted = [{"topic": topic, "partition": number, "replicas": target} for topic, number in partitions]
    document = {"moves": wanted, "may_change_count": change_count, "dry_run": dry_run}
    cures = {} if change_count else {"INVALID_REPLICATION_FACTOR": "--change-count allows it"}
    answer, begun = ask_and_report(brokers, "/v1/moves", document, output, is_waited_for=wait, cures=cures)
    if wait and not dry_run:
        wait_until_moved(brokers, dict.fromkeys(begun, target), timeout)
    if any(row["error"] for row in answer["partitions"]):
        raise Exit(FAILED)


@click.command(cls=Command)
@brokers_option
@format_option
def moves(brokers: str, output: Format) -> None:
    """List the partitions that are being moved.

    Each row says from where, to where, how far, and what the move waits for.

    State: preparing (not begun yet, or between two steps), copying (the new replicas get the records), joint (old and
    new replicas decide together), finishing (the new replicas decide alone, and raft0 has yet to note it), or
    leaderless (nobody leads the partition, so nothing goes on). BEHIND is how many entries of the log a replica lacks.
    """
    found = ask_verb(brokers, "/v1/moves")["moves"]
    if output is Format.JSON:
        print_json(found)
        return
    if not found:
        print("no partition is being moved")
        return
    print_table(
        ["PARTITION", "FROM", "TO", "STATE", "BEHIND", "WAITS UNTIL"],
        [
            (
                f"{row['topic']}/{row['partition']}",
                node_list(row["origin"]),
                "cancelled" if row["is_cancelled"] else node_list(row["target"]),
                row["state"],
                _behind(row),
                row["waits_for"] or "-",
            )
            for row in found
        ],
    )


def _behind(row: dict[str, Any]) -> str:
    return ", ".join(f"{each['node']}: {each['entries']}" for each in row["lacks"]) or "-"


@click.command(cls=Command)
@click.argument(
    "partitions",
    nargs=-1,
    metavar="[TOPIC/PARTITION]...",
    callback=_given_partitions,
    help="Partitions that shall go back to where they were.",
)
@click.option("--all", "is_all", is_flag=True, help="All partitions that are being moved.")
@wait_option
@timeout_option(3600.0)
@dry_run_option
@brokers_option
@format_option
def cancel(
    partitions: list[Partition],
    is_all: bool,
    wait: bool,
    timeout: float,
    dry_run: bool,
    brokers: str,
    output: Format,
) -> None:
    """Take moves back.

    Each partition returns to the brokers that it had. Exit with 1 if one of the partitions is refused, for example
    because it is not being moved.
    """
    if is_all == bool(partitions):
        raise click.BadParameter("use either TOPIC/PARTITION... or --all")
    named = [{"topic": topic, "partition": number} for topic, number in partitions]
    document = {"partitions": named, "all": is_all, "dry_run": dry_run}
    answer, begun = ask_and_report(*(brokers, "/v1/moves/cancel", document, output), is_cancel=True, is_waited_for=wait)
    if wait and not dry_run:
        wait_until_moved(brokers, dict.fromkeys(begun), timeout)
    if any(row["error"] for row in answer["partitions"]):
        raise Exit(FAILED)
