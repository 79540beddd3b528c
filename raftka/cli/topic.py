"""`raftka topic`: create, list, describe and delete topics."""

from typing import Annotated, Any

import typer

from raftka import kafka_client
from raftka.admin_client import get_json
from raftka.cli.exit_codes import CommandError
from raftka.cli.options import DEFAULT_BROKERS, BrokersOption, Format, FormatOption
from raftka.cli.output import print_json, print_table
from raftka.config import parse_address
from raftka.kafka_client import PartitionInfo

app = typer.Typer(help="Create, list, describe and delete topics.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the topic.")]


@app.command()
def create(
    name: NameArgument,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, max=10_000, help="How many; default: the brokers' own.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", "-r", min=1, max=31, help="Of each; default: the brokers' own.")
    ] = None,
    config: Annotated[list[str] | None, typer.Option("-c", "--config", metavar="K=V", help="A topic config.")] = None,
    brokers: BrokersOption = DEFAULT_BROKERS,
) -> None:
    """Create a topic."""
    pairs = {}
    for text in config or []:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"-c {text}: must be KEY=VALUE")
        if key in pairs:
            raise typer.BadParameter(f"-c {text}: {key} is given twice")
        pairs[key] = value
    kafka_client.create_topic(brokers, name, partitions, replicas, pairs)
    print(f"created {name}")


@app.command("list")
def list_topics(brokers: BrokersOption = DEFAULT_BROKERS, output: FormatOption = Format.TEXT) -> None:
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
def describe(
    name: NameArgument,
    brokers: BrokersOption = DEFAULT_BROKERS,
    admin: Annotated[
        str | None,
        typer.Option(
            "--admin", metavar="HOST:PORT", help="Admin port of any Raftka broker: shows terms and positions."
        ),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show the partitions of a topic: who leads, who has a replica, how far each one is."""
    if admin is not None:
        try:
            parse_address(admin)
        except ValueError as error:
            raise typer.BadParameter(f"--admin {error}") from None
    found = kafka_client.read_cluster(brokers).topic(name)
    if admin is None:
        partitions = [_as_json(each) for each in found]
    else:
        partitions = [_read_partition(admin, name, each.partition) for each in found]
    if output is Format.JSON:
        print_json({"name": name, "partitions": partitions})
        return
    print_table(
        ["PARTITION", "LEADER", "TERM", "REPLICAS", "IN-SYNC"],
        [
            [each["partition"], each["leader"], each.get("term", "-"), _ids(each["replicas"]), _ids(each["in_sync"])]
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


_MARKS = ("dirty", "flushed", "commit", "visible")


@app.command()
def delete(name: NameArgument, brokers: BrokersOption = DEFAULT_BROKERS) -> None:
    """Delete a topic and its records."""
    # Asked first for the sake of a better word than the protocol has.
    kafka_client.read_cluster(brokers).topic(name)
    kafka_client.delete_topic(brokers, name)
    print(f"deleted {name}")


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


def _ids(nodes: list[int]) -> str:
    return ",".join(map(str, nodes)) or "-"
