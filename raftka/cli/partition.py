"""`raftka partition`: partitions, who leads them, and who shall."""

import sys
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from raftka.admin_client import request_json
from raftka.cli import partition_moves
from raftka.cli.completion import complete_partitions, complete_topics
from raftka.cli.exit_codes import FAILED, CommandError
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import Format, brokers_option, chosen_partitions, format_option
from raftka.cli.output import node_list, print_json, print_table
from raftka.cli.param_types import BoundedInt
from raftka.kafka import client as kafka_client
from raftka.kafka.client import PartitionInfo

if TYPE_CHECKING:
    from raftka.kafka.elections import Election
    from raftka.kafka.groups import Partition

# A transfer takes an election timeout at most.
_TRANSFER_SECONDS = 15.0


@click.group("partition", cls=CommandGroup)
def app() -> None:
    """List partitions, choose who leads them, and move them between brokers."""


app.add_command(partition_moves.move)
app.add_command(partition_moves.moves)
app.add_command(partition_moves.cancel)


@app.command("list")
@click.argument(
    "topic",
    required=False,
    metavar="[TOPIC]",
    shell_complete=complete_topics,
    help="Only the partitions of this topic. [default: all topics]",
)
@brokers_option
@format_option
def list_partitions(topic: str | None, brokers: str, output: Format) -> None:
    """List partitions: leader, replicas, replicas in sync, status, log end offset and high watermark.

    Status: ok, under-replicated, under-min-isr (acks=all is refused) or offline (nobody leads). LEO is the offset of
    the next record at the leader, HW the offset after the last record that consumers see. LEO needs a Raftka broker
    whose admin port answers.
    """
    # Imported here, for the sake of `--help`.
    from raftka.cli.partition_rows import read_rows

    rows = read_rows(brokers, topic)
    if output is Format.JSON:
        keys = ("topic", "partition", "leader", "term", "replicas", "in_sync", "status", "leo", "hw")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    print_table(
        ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "IN-SYNC", "STATUS", "LEO", "HW"],
        [
            (
                *(row.topic, row.partition, row.leader if row.leader >= 0 else "-"),
                *(node_list(row.replicas), node_list(row.in_sync), row.status.value),
                *("-" if offset is None else offset for offset in (row.log_end, row.high_watermark)),
            )
            for row in rows
        ],
    )


@app.command("elect-preferred")
@click.argument("topic", required=False, metavar="[TOPIC]", shell_complete=complete_topics, help="Name of the topic.")
@click.argument(
    "partitions",
    nargs=-1,
    type=BoundedInt(0),
    metavar="[PARTITION]...",
    shell_complete=complete_partitions,
    help="Numbers of partitions. [default: all of the topic]",
)
@click.option("--all", "is_all", is_flag=True, help="All partitions of all topics.")
@brokers_option
@format_option
def elect_preferred(topic: str | None, partitions: tuple[int, ...], is_all: bool, brokers: str, output: Format) -> None:
    """Let the preferred replica lead: the first of REPLICAS. Exit with 1 if one of them cannot lead now."""
    if is_all == (topic is not None):
        raise click.BadParameter("use either TOPIC [PARTITION]... or --all")
    # Imported here, for the sake of `--help`.
    from raftka.kafka import elections

    cluster = kafka_client.read_cluster(brokers)
    if topic is None:
        wanted = None
    else:
        wanted = [(topic, number) for number in chosen_partitions(topic, cluster.topic(topic), partitions)]
    done = elections.elect_preferred(brokers, cluster, wanted)
    before = {(name, each.partition): each for name, found in cluster.topics.items() for each in found}
    rows = [_elected(where, before.get(where), election) for where, election in done.items()]
    if output is Format.JSON:
        print_json(rows)
    else:
        _print_elections(rows, len(before) if is_all else len(rows))
    if any(row["error"] for row in rows):
        raise Exit(FAILED)


def _elected(where: "Partition", before: PartitionInfo | None, election: "Election") -> dict[str, Any]:
    return {
        "topic": where[0],
        "partition": where[1],
        "preferred": before.replicas[0] if before is not None else None,
        "leader_before": before.leader if before is not None else None,
        "elected": election.was_needed and not election.refusal,
        "error": election.refusal or None,
    }


def _print_elections(rows: list[dict[str, Any]], total: int) -> None:
    for row in rows:
        name, preferred, leader = f"{row['topic']}-{row['partition']}", row["preferred"], row["leader_before"]
        if row["error"]:
            print(f"raftka: {name}: node {preferred} does not lead: {row['error']}", file=sys.stderr)
        elif row["elected"]:
            was = f"was node {leader}" if leader is not None and leader >= 0 else "had none"
            print(f"{name}: leader is node {preferred}, {was}")
        else:
            print(f"{name}: node {preferred}, the preferred replica, leads already")
    if total > len(rows):
        others = "all" if not rows else f"the other {total - len(rows)}"
        print(f"{others} partitions are led by their preferred replicas already")


@app.command("transfer-leadership")
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics, help="Name of the topic.")
@click.argument(
    "partition",
    type=BoundedInt(0),
    metavar="PARTITION",
    shell_complete=complete_partitions,
    help="Number of the partition.",
)
@click.option(
    "--target", type=BoundedInt(0), metavar="N", help="Node id of the new leader. [default: the leader chooses]"
)
@brokers_option
@format_option
def transfer_leadership(topic: str, partition: int, target: int | None, brokers: str, output: Format) -> None:
    """Transfer the leadership of a partition to another replica. No record is lost; clients find the new leader."""
    found = kafka_client.read_cluster(brokers).topic(topic)
    chosen_partitions(topic, found, [partition])
    leader = found[partition].leader
    if leader < 0:
        raise CommandError(f"{topic}-{partition} has no leader")
    admin = kafka_client.read_broker_config(brokers, leader).get("admin.advertised.listener", "")
    admin = admin.removeprefix("http://")
    if not admin:
        raise CommandError(f"node {leader}, the leader of {topic}-{partition}, does not publish its admin address")
    query = "" if target is None else f"?target={target}"
    path = f"/v1/partitions/{topic}/{partition}/transfer_leadership{query}"
    status, body = request_json(admin, path, timeout=_TRANSFER_SECONDS, method="POST")
    if status != 200 or not isinstance(body, dict) or "leader" not in body:
        why = body.get("error") if isinstance(body, dict) else None
        raise CommandError(f"{topic}-{partition}: node {leader} is still the leader: {why or f'HTTP status {status}'}")
    if output is Format.JSON:
        print_json(body)
    else:
        print(f"{topic}-{partition}: leader is node {body['leader']}, was node {leader}")
