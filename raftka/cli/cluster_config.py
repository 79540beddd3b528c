"""`raftka cluster config`: the configuration of the brokers that run."""

from collections.abc import Sequence
from typing import Any

import click

from raftka.cli.admin_verbs import tell_what_it_waits_for, try_change
from raftka.cli.completion import complete_broker_keys, complete_broker_pairs
from raftka.cli.exit_codes import CommandError
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import Format, brokers_option, dry_run_option, format_option, parse_pairs
from raftka.cli.output import print_json, print_table
from raftka.cli.param_types import BoundedInt
from raftka.kafka import client as kafka_client
from raftka.kafka import configs as kafka_configs
from raftka.kafka.configs import ConfigValue, Owner

node_option = click.option("--node", "-n", type=BoundedInt(0), metavar="N", help="Only this broker. [default: all]")


own_option = click.option(
    *("--node", "--broker", "-n", "node"),
    type=BoundedInt(0),
    metavar="N",
    help="Only this broker; its own value wins over that of all. [default: all brokers, also those that join later]",
)


@click.group("config", cls=CommandGroup)
def app() -> None:
    """Show and change the configuration of running brokers."""


@app.command("list")
@node_option
@click.option("--changed", is_flag=True, help="Leave out keys with their default values.")
@brokers_option
@format_option
def list_configs(node: int | None, changed: bool, brokers: str, output: Format) -> None:
    """Show the configuration. If brokers differ, each value has a row."""
    rows = [row for row in merged(_read(brokers, node)) if not changed or not row["default"]]
    if output is Format.JSON:
        print_json(rows)
        return
    cells = [
        (row["key"], "" if row["value"] is None else row["value"], row["source"], ",".join(map(str, row["nodes"])))
        for row in rows
    ]
    print_table(["KEY", "VALUE", "SOURCE", "NODES"], cells)


@app.command()
@click.argument(
    "key", metavar="KEY", shell_complete=complete_broker_keys, help="Key, as `raftka cluster config list` shows it."
)
@node_option
@brokers_option
@format_option
def get(key: str, node: int | None, brokers: str, output: Format) -> None:
    """Print one value. If brokers differ, print the value of each."""
    rows = [row for row in merged(_read(brokers, node)) if row["key"] == key]
    if not rows:
        raise CommandError(f"no broker has a key {key} (`raftka cluster config list` shows all keys)")
    if output is Format.JSON:
        print_json(rows)
    elif len(rows) == 1:
        print("" if rows[0]["value"] is None else rows[0]["value"])
    else:
        by_node = sorted((node, row["value"] or "") for row in rows for node in row["nodes"])
        print_table(["NODE", "VALUE"], by_node)


@app.command("set")
@click.argument(
    "pairs",
    nargs=-1,
    required=True,
    metavar="KEY=VALUE...",
    shell_complete=complete_broker_pairs,
    help="Keys and their new values.",
)
@own_option
@dry_run_option
@brokers_option
def set_values(pairs: tuple[str, ...], node: int | None, dry_run: bool, brokers: str) -> None:
    """Set keys of brokers while they run.

    The cluster keeps the values, also when brokers restart. `raftka cluster config unset` removes them.
    docs/configuration.md says which keys of Raftka can be set so; the others stand in the brokers' files.
    """
    _alter(brokers, node, parse_pairs(pairs, "set"), [], dry_run=dry_run)


@app.command()
@click.argument(
    "keys",
    nargs=-1,
    required=True,
    metavar="KEY...",
    shell_complete=complete_broker_keys,
    help="Keys that `set` has set.",
)
@own_option
@dry_run_option
@brokers_option
def unset(keys: tuple[str, ...], node: int | None, dry_run: bool, brokers: str) -> None:
    """Remove what `set` has set: for all brokers, or on one.

    Then the next value is in force: that of all brokers, that of the broker's file, or the default.
    """
    _alter(brokers, node, {}, keys, dry_run=dry_run)


def merged(by_node: dict[int, list[ConfigValue]]) -> list[dict[str, Any]]:
    """Return a row for each key, value and source, in the order of keys, with the nodes that have it."""
    rows: dict[tuple[str, str | None, str], dict[str, Any]] = {}
    for node, values in sorted(by_node.items()):
        for each in values:
            row = rows.setdefault(
                (each.key, each.value, each.source),
                {
                    "key": each.key,
                    "value": each.value,
                    "source": each.source,
                    "default": each.is_default,
                    "read_only": each.is_read_only,
                    "nodes": [],
                },
            )
            row["nodes"].append(node)
    return sorted(rows.values(), key=lambda row: (row["key"], row["nodes"]))


def _nodes(brokers: str, node: int | None) -> dict[int, str]:
    """Return the addresses of the brokers that are meant."""
    known = kafka_client.read_cluster(brokers).brokers
    if node is not None and node not in known:
        raise CommandError(f"broker {node} is not in the cluster; brokers: {', '.join(map(str, sorted(known)))}")
    return {each: known[each] for each in sorted(known) if node in (None, each)}


def _read(brokers: str, node: int | None) -> dict[int, list[ConfigValue]]:
    return {each: kafka_configs.read_configs(brokers, Owner.BROKER, str(each)) for each in _nodes(brokers, node)}


def _alter(brokers: str, node: int | None, changed: dict[str, str], deleted: Sequence[str], *, dry_run: bool) -> None:
    # Any broker takes it for all of them; for one of them only that one does, in some Kafkas.
    asked, address = next(iter(_nodes(brokers, node).items()))
    is_for_all = node is None
    document = {"node_id": node, "set": changed, "unset": list(deleted), "dry_run": dry_run}
    answer = try_change(brokers, "/v1/config", document)
    if answer is None:
        kafka_configs.alter_options(address, asked, changed, deleted, is_for_all=is_for_all, is_dry_run=dry_run)
    whose = "all brokers" if is_for_all else f"broker {node}"
    if dry_run:
        print(f"{whose}: accepted; nothing is changed (--dry-run)")
    elif answer is not None and not answer.get("changed", True):
        print(f"nothing to change on {whose}: {'none of these keys was set' if deleted else 'it is set so already'}")
    else:
        print(f"changed on {whose}")
    if answer is not None:
        tell_what_it_waits_for(answer)
