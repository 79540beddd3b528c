"""`raftka cluster features`: what all brokers must have before one of them uses it."""

from typing import TYPE_CHECKING, Any

import click

from raftka.cli.admin_verbs import tell_what_it_waits_for, try_change
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import Format, brokers_option, dry_run_option, format_option
from raftka.cli.output import print_json, print_table
from raftka.kafka import client as kafka_client

if TYPE_CHECKING:
    from raftka.kafka.wire.feature_requests import Features


@click.group("features", cls=CommandGroup)
def app() -> None:
    """Show and change the levels of features, after an upgrade of all brokers."""


@app.command("list")
@brokers_option
@format_option
def list_features(brokers: str, output: Format) -> None:
    """Show the level of each feature, and the highest level that each broker has.

    HIGHEST is the highest level that all brokers have: `raftka cluster features upgrade` raises the feature to it.
    """
    rows = _rows(_read(kafka_client.read_cluster(brokers).brokers))
    if output is Format.JSON:
        print_json(rows)
        return
    if not rows:
        print("no broker offers a feature above level 0")
        return
    cells = [
        (
            row["feature"],
            row["level"],
            row["highest"],
            ", ".join(f"{node}: {high}" for node, high in row["brokers"].items()),
        )
        for row in rows
    ]
    print_table(["FEATURE", "LEVEL", "HIGHEST", "BROKERS"], cells)


@app.command()
@click.argument(
    "pairs",
    nargs=-1,
    metavar="[FEATURE=LEVEL...]",
    help="Features and their new levels. [default: each feature as high as all brokers allow]",
)
@dry_run_option
@brokers_option
def upgrade(pairs: tuple[str, ...], dry_run: bool, brokers: str) -> None:
    """Raise the levels of features.

    Start the newer version on all brokers first. Brokers of an older version cannot come back.
    `raftka cluster features list` shows which levels there are.
    """
    wanted = _levels(pairs)
    answer = try_change(brokers, "/v1/features/upgrade", {"levels": wanted, "dry_run": dry_run})
    wanted = _upgrade_by_kafka(brokers, wanted, dry_run=dry_run) if answer is None else answer["levels"]
    if not wanted:
        print("every feature is as high as all brokers allow")
        return
    _tell(wanted, answer, dry_run=dry_run)


@app.command()
@click.argument("pairs", nargs=-1, required=True, metavar="FEATURE=LEVEL...", help="Features and their lower levels.")
@dry_run_option
@brokers_option
def downgrade(pairs: tuple[str, ...], dry_run: bool, brokers: str) -> None:
    """Lower the levels of features.

    Only transaction.version is lowered, from 2 to 1. Clients then use the older protocol of transactions. Brokers of an
    older version cannot come back.
    """
    wanted = _levels(pairs)
    answer = try_change(brokers, "/v1/features/downgrade", {"levels": wanted, "dry_run": dry_run})
    if answer is None:
        _change_by_kafka(brokers, wanted, dry_run=dry_run, is_lowering=True)
    _tell(wanted, answer, dry_run=dry_run)


def _tell(wanted: dict[str, int], answer: dict[str, Any] | None, *, dry_run: bool) -> None:
    told = ", ".join(f"{name} at level {level}" for name, level in wanted.items())
    print(f"{told}: accepted; nothing is changed (--dry-run)" if dry_run else told)
    if answer is not None:
        tell_what_it_waits_for(answer)


def _upgrade_by_kafka(brokers: str, wanted: dict[str, int], *, dry_run: bool) -> dict[str, int]:
    """Raise features by Kafka's request; return their levels. No levels: each as high as all brokers allow."""
    if not wanted:
        rows = _rows(_read(kafka_client.read_cluster(brokers).brokers))
        wanted = {row["feature"]: row["highest"] for row in rows if row["highest"] > row["level"]}
    if wanted:
        _change_by_kafka(brokers, wanted, dry_run=dry_run, is_lowering=False)
    return wanted


def _change_by_kafka(brokers: str, wanted: dict[str, int], *, dry_run: bool, is_lowering: bool) -> None:
    # Imported here, for the sake of `--help`.
    from raftka.kafka.features import raise_features

    node, address = next(iter(kafka_client.read_cluster(brokers).brokers.items()))
    raise_features(node, address, wanted, is_dry_run=dry_run, is_lowering=is_lowering)


def _levels(pairs: tuple[str, ...]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for pair in pairs:
        name, _, level = pair.partition("=")
        if not name or not level.isdecimal() or not 1 <= int(level) < 2**15:
            raise click.BadParameter(f"{pair!r} is not FEATURE=LEVEL with a level of 1 or more")
        if name in levels:
            raise click.BadParameter(f"{name} is named twice")
        levels[name] = int(level)
    return levels


def _read(nodes: dict[int, str]) -> "dict[int, Features]":
    from raftka.kafka.features import read_features

    return {node: read_features(node, address) for node, address in sorted(nodes.items())}


def _rows(found: "dict[int, Features]") -> list[dict[str, Any]]:
    """Return a row for each feature; `highest` is what all brokers have."""
    names = sorted({name for each in found.values() for name in (*each.offered, *each.levels)})
    return [
        {
            "feature": name,
            # A broker that lags behind raft0 tells a lower one.
            "level": max(each.levels.get(name, 0) for each in found.values()),
            "highest": min(each.offered.get(name, (0, 0))[1] for each in found.values()),
            "brokers": {node: each.offered.get(name, (0, 0))[1] for node, each in found.items()},
        }
        for name in names
    ]
