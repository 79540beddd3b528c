"""`raftka cluster config`: the configuration of the brokers that run."""

from typing import Annotated, Any

import typer

from raftka.cli.completion import complete_broker_keys, complete_broker_pairs
from raftka.cli.exit_codes import CommandError
from raftka.cli.options import DEFAULT_BROKERS, BrokersOption, DryRunOption, Format, FormatOption, parse_pairs
from raftka.cli.output import print_json, print_table
from raftka.kafka import client as kafka_client
from raftka.kafka import configs as kafka_configs
from raftka.kafka.client import KafkaClientError
from raftka.kafka.configs import ConfigValue, Owner

app = typer.Typer(help="Show and change the configuration of the brokers that run.")

NodeOption = Annotated[
    int | None, typer.Option("--node", "-n", metavar="N", min=0, help="Only this broker. [default: every one]")
]


@app.command("list")
def list_configs(
    node: NodeOption = None,
    changed: Annotated[bool, typer.Option("--changed", help="Leave out what nobody has set.")] = False,
    brokers: BrokersOption = DEFAULT_BROKERS,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show the configuration; where brokers differ, each value has a row."""
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
def get(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY", help="As `raftka cluster config list` has it.", autocompletion=complete_broker_keys
        ),
    ],
    node: NodeOption = None,
    brokers: BrokersOption = DEFAULT_BROKERS,
    output: FormatOption = Format.TEXT,
) -> None:
    """Print one value; where brokers differ, the value of each."""
    rows = [row for row in merged(_read(brokers, node)) if row["key"] == key]
    if not rows:
        raise CommandError(f"no broker has a {key} (`raftka cluster config list` shows what there is)")
    if output is Format.JSON:
        print_json(rows)
    elif len(rows) == 1:
        print("" if rows[0]["value"] is None else rows[0]["value"])
    else:
        by_node = sorted((node, row["value"] or "") for row in rows for node in row["nodes"])
        print_table(["NODE", "VALUE"], by_node)


@app.command("set")
def set_values(
    pairs: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE...", help="What to set.", autocompletion=complete_broker_pairs),
    ],
    node: NodeOption = None,
    dry_run: DryRunOption = False,
    brokers: BrokersOption = DEFAULT_BROKERS,
) -> None:
    """Set keys at run time, where brokers allow it. Raftka's are read at the start of a broker."""
    _alter(brokers, node, parse_pairs(pairs, "set"), [], dry_run=dry_run)


@app.command()
def unset(
    keys: Annotated[
        list[str],
        typer.Argument(metavar="KEY...", help="What to give back to the default.", autocompletion=complete_broker_keys),
    ],
    node: NodeOption = None,
    dry_run: DryRunOption = False,
    brokers: BrokersOption = DEFAULT_BROKERS,
) -> None:
    """Give keys back to what they are without `set`."""
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


def _nodes(brokers: str, node: int | None) -> list[int]:
    known = sorted(kafka_client.read_cluster(brokers).brokers)
    if node is not None and node not in known:
        raise CommandError(f"there is no broker {node} now, only {', '.join(map(str, known))}")
    return known if node is None else [node]


def _read(brokers: str, node: int | None) -> dict[int, list[ConfigValue]]:
    return {each: kafka_configs.read_configs(brokers, Owner.BROKER, str(each)) for each in _nodes(brokers, node)}


def _alter(brokers: str, node: int | None, changed: dict[str, str], deleted: list[str], *, dry_run: bool) -> None:
    done: list[int] = []
    for each in _nodes(brokers, node):
        try:
            kafka_configs.alter_configs(brokers, Owner.BROKER, str(each), changed, deleted, is_dry_run=dry_run)
        except KafkaClientError as error:
            before = f"; changed on {', '.join(map(str, done))}" if done and not dry_run else ""
            raise CommandError(f"broker {each}: {error}{before}") from None
        done.append(each)
    nodes = ", ".join(map(str, done))
    print(f"brokers {nodes} would accept it; nothing is changed (--dry-run)" if dry_run else f"changed on {nodes}")
