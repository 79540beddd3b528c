"""`raftka topic`: create, list, describe, configure, grow, trim and delete topics."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from raftka.admin_client import get_json
from raftka.cli import topic_replication
from raftka.cli.completion import complete_topic_keys, complete_topic_pairs, complete_topics
from raftka.cli.exit_codes import CommandError
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import (
    Format,
    brokers_option,
    dry_run_option,
    existing_partitions,
    format_option,
    parse_pairs,
    partitions_option,
)
from raftka.cli.output import node_list, print_json, print_table
from raftka.cli.param_types import BoundedInt
from raftka.cli.positions import POSITION_HELP, POSITION_METAVAR, Anchor, Position, parse_position, resolve
from raftka.counted import counted
from raftka.kafka import client as kafka_client
from raftka.kafka import configs as kafka_configs
from raftka.kafka import offsets as kafka_offsets
from raftka.kafka.client import PartitionInfo
from raftka.kafka.configs import Owner
from raftka.kafka.errors import UnansweredError

name_argument = click.argument("name", metavar="NAME", shell_complete=complete_topics, help="Name of the topic.")
_MARKS = ("dirty", "flushed", "commit", "visible")


@click.group("topic", cls=CommandGroup)
def app() -> None:
    """Create, describe, configure, replicate, trim and delete topics."""


app.add_command(topic_replication.alter_replication)


@app.command()
@name_argument
@click.option(
    "--partitions",
    "-p",
    type=BoundedInt(1, 10_000),
    metavar="N",
    help="Number of partitions. [default: the brokers' default]",
)
@click.option(
    "--replicas",
    "-r",
    type=BoundedInt(1, 31),
    metavar="N",
    help="Replicas of each partition. [default: the brokers' default]",
)
@click.option(
    "-c",
    "--config",
    multiple=True,
    metavar="K=V",
    shell_complete=complete_topic_pairs,
    help="Topic configuration; repeat for more.",
)
@brokers_option
def create(name: str, partitions: int | None, replicas: int | None, config: tuple[str, ...], brokers: str) -> None:
    """Create a topic."""
    pairs = parse_pairs(config, "-c")
    with _told_to_look(name):
        kafka_client.create_topic(brokers, name, partitions, replicas, pairs, seconds=kafka_client.CREATE_SECONDS)
    print(f"created {name}")


@app.command("list")
@brokers_option
@format_option
def list_topics(brokers: str, output: Format) -> None:
    """List the topics."""
    topics = kafka_client.read_cluster(brokers).topics
    rows = [
        (name, len(partitions), max((len(each.replicas) for each in partitions), default=0))
        for name, partitions in topics.items()
    ]
    if output is Format.JSON:
        print_json([{"name": name, "partitions": count, "replicas": replicas} for name, count, replicas in rows])
    else:
        print_table(["NAME", "PARTITIONS", "REPLICAS"], rows)


@app.command()
@name_argument
@brokers_option
@click.option("--admin", metavar="HOST:PORT", help="Admin port of any Raftka broker; adds terms and positions.")
@click.option("--configs", "-c", is_flag=True, help="Also show the configuration.")
@format_option
def describe(name: str, brokers: str, admin: str | None, configs: bool, output: Format) -> None:
    """Show the leader, the replicas and the positions of each partition."""
    if admin is not None:
        from raftka.config import parse_address

        admin = admin.removeprefix("http://").removesuffix("/")
        try:
            parse_address(admin)
        except ValueError as error:
            raise click.BadParameter(f"--admin {error}") from None
    found = kafka_client.read_cluster(brokers).topic(name)
    if admin is None:
        partitions = [_as_json(each) for each in found]
    else:
        partitions = [_read_partition(admin, name, each.partition) for each in found]
    values = kafka_configs.read_configs(brokers, Owner.TOPIC, name) if configs else []
    if output is Format.JSON:
        report: dict[str, Any] = {"name": name, "partitions": partitions}
        if configs:
            report["configs"] = [{"key": each.key, "value": each.value, "source": each.source} for each in values]
        print_json(report)
        return
    print_table(
        ["PARTITION", "LEADER", "TERM", "REPLICAS", "IN-SYNC"],
        [
            [
                each["partition"],
                "-" if each["leader"] is None or each["leader"] < 0 else each["leader"],
                each.get("term", "-"),
                node_list(each["replicas"]),
                node_list(each["in_sync"]),
            ]
            for each in partitions
        ],
    )
    if admin is not None:
        print("\nlast offset that is ...")
        print_table(
            ["PARTITION", "NODE", "DIRTY", "FLUSHED", "COMMITTED", "VISIBLE"],
            [
                [each["partition"], row["node_id"], *(row[mark]["offset"] for mark in _MARKS)]
                for each in partitions
                for row in each["positions"]
            ],
        )
    compacted = [
        [each["partition"], row["node_id"], *_compaction_cells(row["compaction"])]
        for each in partitions
        for row in each.get("positions", ())
        if row.get("compaction")
    ]
    if compacted:
        print("\nlog compaction: last offset that is cleaned, bytes behind it, and bytes of tombstones held by others")
        print_table(["PARTITION", "NODE", "CLEANED", "DIRTY-BYTES", "HELD-BYTES"], compacted)
    if configs:
        print()
        print_table(["KEY", "VALUE", "SOURCE"], [(each.key, each.value or "", each.source) for each in values])


@app.command()
@name_argument
@click.option(
    "--internal", is_flag=True, help="Allow the deletion of an internal topic, such as the one of committed offsets."
)
@brokers_option
def delete(name: str, internal: bool, brokers: str) -> None:
    """Delete a topic and its records."""
    if name in kafka_client.INTERNAL_TOPICS and not internal:
        raise click.BadParameter(
            f"{name} is an internal topic: its deletion loses state of the cluster, such as committed offsets, or the"
            " decisions on transactions, whose partitions then stay open; --internal deletes it all the same"
        )
    # Asked first for the sake of a better word than the protocol has.
    kafka_client.read_cluster(brokers).topic(name)
    kafka_client.delete_topic(brokers, name)
    print(f"deleted {name}")


@app.command("alter-config")
@name_argument
@click.option(
    *("--set", "-s", "changed"),
    multiple=True,
    metavar="K=V",
    shell_complete=complete_topic_pairs,
    help="Set a key; repeat for more.",
)
@click.option(
    *("--delete", "-d", "deleted"),
    multiple=True,
    metavar="K",
    shell_complete=complete_topic_keys,
    help="Reset a key to its default; repeat for more.",
)
@dry_run_option
@brokers_option
def alter_config(name: str, changed: tuple[str, ...], deleted: tuple[str, ...], dry_run: bool, brokers: str) -> None:
    """Change the configuration of a topic. All changes are applied, or none; other keys keep their values."""
    pairs = parse_pairs(changed, "--set")
    if not pairs and not deleted:
        raise click.BadParameter("nothing to change: use --set K=V or --delete K")
    if twice := sorted(set(pairs) & set(deleted)):
        raise click.BadParameter(f"--delete {twice[0]}: --set names it too")
    kafka_client.read_cluster(brokers).topic(name)
    kafka_configs.alter_configs(brokers, Owner.TOPIC, name, pairs, deleted, is_dry_run=dry_run)
    print(f"{name}: the change is valid; nothing is changed (--dry-run)" if dry_run else f"changed {name}")


@app.command("add-partitions")
@name_argument
@click.option(
    *("--num", "-n", "more"),
    type=BoundedInt(1, 10_000),
    required=True,
    metavar="N",
    help="Number of partitions to add.",
)
@dry_run_option
@brokers_option
def add_partitions(name: str, more: int, dry_run: bool, brokers: str) -> None:
    """Add partitions to a topic. Keys move to other partitions: a record's partition depends on their number."""
    before = len(kafka_client.read_cluster(brokers).topic(name))
    with _told_to_look(name):
        kafka_configs.add_partitions(brokers, name, before + more, is_dry_run=dry_run)
    ending = "; nothing is changed (--dry-run)" if dry_run else ""
    print(f"{name}: {counted(before + more, 'partition')}, before it {'has' if dry_run else 'had'} {before}{ending}")


@app.command("trim-prefix")
@name_argument
@click.option(
    *("--offset", "-o"),
    required=True,
    metavar=POSITION_METAVAR,
    help=f"First record to keep. {POSITION_HELP}.",
)
@partitions_option
@dry_run_option
@brokers_option
@format_option
def trim_prefix(
    name: str, offset: str, partitions: tuple[int, ...], dry_run: bool, brokers: str, output: Format
) -> None:
    """Delete the oldest records of a topic permanently.

    A partition that ends before the offset loses all its records, with a note on stderr. If every partition does,
    nothing is deleted.
    """
    position = parse_position(offset, "--offset", time.time_ns() // 1_000_000)
    if name in kafka_client.INTERNAL_TOPICS:
        raise click.BadParameter(f"{name} is an internal topic: brokers refuse to delete its records")
    wanted = existing_partitions(brokers, name, partitions)
    first = kafka_offsets.first_offsets(brokers, [(name, number) for number in wanted])
    after = _trimmed(brokers, name, position, first)
    if not dry_run:
        after = kafka_offsets.delete_records(brokers, after)
    rows = [(number, first[name, number], begin, begin - first[name, number]) for (_, number), begin in after.items()]
    if output is Format.JSON:
        keys = ("partition", "before", "after", "deleted")
        found = [dict(zip(keys, row, strict=True)) for row in rows]
        print_json({"topic": name, "changed": not dry_run, "partitions": found})
        return
    print_table(["PARTITION", "BEFORE", "AFTER", "DELETED"], rows)
    if dry_run:
        print("nothing is changed (--dry-run)")


@contextmanager
def _told_to_look(name: str) -> Iterator[None]:
    """Say of a change without an answer that it may nevertheless be made."""
    try:
        yield
    except UnansweredError as error:
        raise CommandError(f"{error}; the change may still happen: check with `raftka topic describe {name}`") from None


def _trimmed(
    brokers: str, name: str, position: Position, first: dict[tuple[str, int], int]
) -> dict[tuple[str, int], int]:
    """Return where partitions are to begin: an offset that lies outside of one is its begin or its end.

    Raises:
        CommandError: None of them reaches as far.
    """
    if position.anchor is not Anchor.OFFSET:
        return resolve(brokers, position, {name: [number for _, number in first]})
    end = kafka_offsets.end_offsets(brokers, first)
    short = [partition for partition in first if end[partition] < position.value]
    if len(short) == len(first):
        # Most likely mistyped, and all records would be gone.
        position.within(first[short[0]], end[short[0]], short[0])
    for partition in short:
        words = f"partition {partition[1]} of {name} ends at {end[partition]}"
        print(f"raftka: note: {words}; {end[partition]} is used instead of {position.value}", file=sys.stderr)
    return {partition: max(begin, min(position.value, end[partition])) for partition, begin in first.items()}


def _compaction_cells(row: dict[str, Any]) -> list[int]:
    return [row["cleaned"]["offset"], row["dirty_bytes"], row["held_bytes"]]


def _as_json(partition: PartitionInfo) -> dict[str, Any]:
    return {
        "partition": partition.partition,
        "leader": partition.leader,
        "replicas": partition.replicas,
        "in_sync": partition.in_sync,
    }


def _read_partition(admin: str, topic: str, partition: int) -> dict[str, Any]:
    # Long enough for a broker that itself waits a second for replicas which do not answer.
    status, body = get_json(admin, f"/v1/partitions/{topic}/{partition}", timeout=5.0)
    if status != 200 or not isinstance(body, dict) or "positions" not in body:
        why = body.get("error") if isinstance(body, dict) else None
        raise CommandError(f"admin port {admin}: {why or f'HTTP status {status}'}")
    return body
