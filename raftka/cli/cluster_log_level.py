"""`raftka cluster log-level`: what brokers write into their logs, changed while they run."""

from typing import Any

import click

from raftka.cli.cluster_config import node_option
from raftka.cli.completion import complete_loggers
from raftka.cli.exit_codes import CommandError
from raftka.cli.lazy_group import Command
from raftka.cli.options import Format, brokers_option, format_option
from raftka.cli.output import print_json, print_table
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError

# A level that is none: that of the logger above it.
_INHERIT = "inherit"


@click.command("log-level", cls=Command)
@click.argument(
    "logger", required=False, metavar="[LOGGER]", shell_complete=complete_loggers, help="Name of the logger."
)
@click.argument(
    "level",
    required=False,
    metavar="[LEVEL]",
    help="Its new level: DEBUG, INFO, WARNING (WARN), ERROR or CRITICAL (FATAL), or `inherit` for that of the logger"
    " above it.",
)
@node_option
@brokers_option
@format_option
def log_level(logger: str | None, level: str | None, node: int | None, brokers: str, output: Format) -> None:
    """Show the levels of the brokers' loggers, or set one until the broker ends. `root` is above all loggers."""
    nodes = _nodes(brokers, node)
    if logger is not None and level is not None:
        words = _set(nodes, logger, None if level.lower() == _INHERIT else level)
        if output is Format.JSON:
            # What is in force now, as without LEVEL.
            print_json(_merged(nodes, logger))
        else:
            print(words)
        return
    rows = _merged(nodes, logger)
    if output is Format.JSON:
        print_json(rows)
    else:
        cells = [(row["logger"], row["level"], row["from"], ",".join(map(str, row["nodes"]))) for row in rows]
        print_table(["LOGGER", "LEVEL", "FROM", "NODES"], cells)


def _nodes(brokers: str, node: int | None) -> dict[int, str]:
    known = kafka_client.read_cluster(brokers).brokers
    if node is not None and node not in known:
        raise CommandError(f"broker {node} is not in the cluster; brokers: {', '.join(map(str, known))}")
    return known if node is None else {node: known[node]}


def _merged(nodes: dict[int, str], logger: str | None) -> list[dict[str, Any]]:
    """Return a row for each logger, level and source, the root first, with the nodes that have it."""
    # Imported here, for the sake of `--help`.
    from raftka.kafka import loggers

    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for node, address in nodes.items():
        for each in loggers.read_levels(node, address):
            row = {"logger": each.name, "level": each.level, "from": each.source, "nodes": []}
            rows.setdefault((each.name, each.level, each.source), row)["nodes"].append(node)
    # The root is above all others.
    names = sorted({row["logger"] for row in rows.values()}, key=lambda name: (name != "root", name))
    if logger is not None and logger not in names:
        raise CommandError(f"unknown logger {logger!r}: the loggers are {', '.join(names)}")
    chosen = [row for row in rows.values() if logger is None or row["logger"] == logger]
    return sorted(chosen, key=lambda row: (names.index(row["logger"]), row["nodes"]))


def _set(nodes: dict[int, str], logger: str, level: str | None) -> str:
    """Set a level, None: that of the logger above it; return what was done, in words."""
    from raftka.kafka import loggers

    for node, address in nodes.items():
        # All are asked before one is changed: a wrong name changes nothing.
        loggers.set_level(node, address, logger, level, validate_only=True)
    done: list[int] = []
    for node, address in nodes.items():
        try:
            loggers.set_level(node, address, logger, level)
        except KafkaClientError as error:
            before = f"; changed on {', '.join(map(str, done))}" if done else ""
            raise CommandError(f"{error}{before}") from None
        done.append(node)
    what = f"{logger}: the level of the logger above it" if level is None else f"{logger}: {level.upper()}"
    return f"{what}, on {', '.join(map(str, done))}, until a broker ends"
