"""`raftka partition`: what is done to one partition."""

from typing import Annotated

import typer

from raftka.admin_client import request_json
from raftka.cli.completion import complete_partitions, complete_topics
from raftka.cli.exit_codes import CommandError
from raftka.cli.options import DEFAULT_BROKERS, BrokersOption, Format, FormatOption
from raftka.cli.output import print_json
from raftka.kafka import client as kafka_client

app = typer.Typer(help="Act on one partition.")

# A transfer takes an election timeout at most.
_TRANSFER_SECONDS = 15.0


@app.command("transfer-leadership")
def transfer_leadership(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", autocompletion=complete_topics)],
    partition: Annotated[
        int,
        typer.Argument(metavar="PARTITION", min=0, help="Number of the partition.", autocompletion=complete_partitions),
    ],
    target: Annotated[
        int | None, typer.Option("--target", metavar="N", min=0, help="Node that shall lead; default: the best one.")
    ] = None,
    brokers: BrokersOption = DEFAULT_BROKERS,
    output: FormatOption = Format.TEXT,
) -> None:
    """Let another replica lead a partition; nothing is lost, and clients follow by themselves."""
    found = kafka_client.read_cluster(brokers).topic(topic)
    if partition >= len(found):
        raise CommandError(f"topic {topic} has partitions 0 to {len(found) - 1}")
    leader = found[partition].leader
    if leader < 0:
        raise CommandError(f"{topic}-{partition} has no leader now")
    admin = kafka_client.read_broker_config(brokers, leader).get("admin.advertised.listener", "")
    admin = admin.removeprefix("http://")
    if not admin:
        raise CommandError(f"node {leader}, which leads {topic}-{partition}, does not say where its admin port is")
    query = "" if target is None else f"?target={target}"
    path = f"/v1/partitions/{topic}/{partition}/transfer_leadership{query}"
    status, body = request_json(admin, path, timeout=_TRANSFER_SECONDS, method="POST")
    if status != 200 or not isinstance(body, dict) or "leader" not in body:
        why = body.get("error") if isinstance(body, dict) else None
        raise CommandError(f"{topic}-{partition} stays with node {leader}: {why or f'HTTP status {status}'}")
    if output is Format.JSON:
        print_json(body)
    else:
        print(f"{topic}-{partition}: node {body['leader']} leads, before it was node {leader}")
