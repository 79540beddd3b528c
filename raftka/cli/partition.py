"""`raftka partition`: what is done to one partition."""

import click

from raftka.admin_client import request_json
from raftka.cli.completion import complete_partitions, complete_topics
from raftka.cli.exit_codes import CommandError
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import Format, brokers_option, format_option
from raftka.cli.output import print_json
from raftka.cli.param_types import BoundedInt
from raftka.kafka import client as kafka_client

# A transfer takes an election timeout at most.
_TRANSFER_SECONDS = 15.0


@click.group("partition", cls=CommandGroup)
def app() -> None:
    """Act on one partition."""


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
    if partition >= len(found):
        raise CommandError(f"topic {topic} has partitions 0 to {len(found) - 1}")
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
