"""`raftka partition elect-preferred|transfer-leadership`: who leads partitions."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.exceptions import Exit

from raftka.admin_client import request_json
from raftka.cli.admin_verbs import VerbRefusedError, tell_what_it_waits_for, try_change
from raftka.cli.completion import complete_partitions, complete_topics
from raftka.cli.exit_codes import FAILED, CommandError
from raftka.cli.lazy_group import Command
from raftka.cli.options import Format, brokers_option, chosen_partitions, dry_run_option, format_option
from raftka.cli.output import print_json
from raftka.cli.param_types import BoundedInt
from raftka.kafka import client as kafka_client
from raftka.kafka.client import ClusterInfo

# A transfer takes an election timeout at most.
_TRANSFER_SECONDS = 15.0
# Thousands of partitions may need one; some are elected at a time.
_ELECTION_SECONDS = 40.0
_GRACE_SECONDS = 10.0
_UNCHANGED = "nothing is changed (--dry-run)"


@click.command("elect-preferred", cls=Command)
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
@dry_run_option
@brokers_option
@format_option
def elect_preferred(
    topic: str | None, partitions: tuple[int, ...], is_all: bool, dry_run: bool, brokers: str, output: Format
) -> None:
    """Let preferred replicas lead.

    The preferred replica of a partition is the first of REPLICAS, as `raftka partition list` shows them. Exit with 1 if
    one of them cannot lead now; the others do.
    """
    if is_all == (topic is not None):
        raise click.BadParameter("use either TOPIC [PARTITION]... or --all")
    cluster = kafka_client.read_cluster(brokers)
    if topic is None:
        wanted = None
    else:
        wanted = [(topic, number) for number in chosen_partitions(topic, cluster.topic(topic), partitions)]
    rows = _elect(brokers, cluster, wanted, dry_run=dry_run)
    if output is Format.JSON:
        print_json(rows)
    else:
        _print_elections(rows, sum(map(len, cluster.topics.values())) if is_all else len(rows), dry_run=dry_run)
    if any(row["error"] for row in rows):
        raise Exit(FAILED)


def _elect(
    brokers: str, cluster: ClusterInfo, wanted: Sequence[tuple[str, int]] | None, *, dry_run: bool
) -> list[dict[str, Any]]:
    """Return a row for each partition that was asked for; None: for each that needs an election."""
    named = [{"topic": name, "partition": number} for name, number in wanted or ()]
    try:
        document = {"partitions": named, "all": wanted is None, "dry_run": dry_run, "timeout": _ELECTION_SECONDS}
        answer = try_change(brokers, "/v1/partitions/elect-preferred", document, _ELECTION_SECONDS + _GRACE_SECONDS)
    except VerbRefusedError as error:
        if "partitions" not in error.body:
            raise
        answer = error.body
    if answer is None:
        return _elect_by_kafka(brokers, cluster, wanted, dry_run=dry_run)
    tell_what_it_waits_for(answer)
    # What a script is told; `elected`: the preferred replica did not lead, and does now, or would.
    return [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "preferred": row["preferred"],
            "leader_before": row["leader_before"],
            "elected": not row["error"] and row["leader_before"] != row["preferred"],
            "error": row["message"],
            "dry_run": dry_run,
        }
        for row in answer["partitions"]
    ]


def _elect_by_kafka(
    brokers: str, cluster: ClusterInfo, wanted: Sequence[tuple[str, int]] | None, *, dry_run: bool
) -> list[dict[str, Any]]:
    # Imported here, for the sake of `--help`.
    from raftka.kafka import elections

    if dry_run:
        found = elections.check_preferred(cluster, wanted)
    else:
        found = elections.elect_preferred(brokers, cluster, wanted)
    before = {(name, each.partition): each for name, known in cluster.topics.items() for each in known}
    return [
        {
            "topic": where[0],
            "partition": where[1],
            "preferred": before[where].replicas[0] if where in before else None,
            "leader_before": before[where].leader if where in before and before[where].leader >= 0 else None,
            "elected": election.was_needed and not election.refusal,
            "error": election.refusal or None,
            "dry_run": dry_run,
        }
        for where, election in found.items()
    ]


def _print_elections(rows: Sequence[Mapping[str, Any]], total: int, *, dry_run: bool) -> None:
    for row in rows:
        name, preferred, leader = f"{row['topic']}-{row['partition']}", row["preferred"], row["leader_before"]
        if row["error"]:
            lacks = "would not lead" if dry_run else "does not lead"
            print(f"raftka: {name}: node {preferred} {lacks}: {row['error']}", file=sys.stderr)
        elif row["elected"]:
            _print_change(name, leader, preferred, dry_run=dry_run)
        else:
            print(f"{name}: node {preferred}, the preferred replica, leads already")
    if total > len(rows):
        left = total - len(rows)
        if rows and left == 1:
            print("the other partition is led by its preferred replica already")
        else:
            others = f"the other {left}" if rows else "all"
            print(f"{others} partitions are led by their preferred replicas already")
    if dry_run:
        print(_UNCHANGED)


def _print_change(name: str, before: int | None, after: int, *, dry_run: bool) -> None:
    if dry_run:
        print(f"{name}: leader would be node {after}, is {'nobody' if before is None else f'node {before}'}")
    else:
        print(f"{name}: leader is node {after}, {'had none' if before is None else f'was node {before}'}")


@click.command("transfer-leadership", cls=Command)
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
@dry_run_option
@brokers_option
@format_option
def transfer_leadership(
    topic: str, partition: int, target: int | None, dry_run: bool, brokers: str, output: Format
) -> None:
    """Transfer the leadership of a partition to another replica.

    No record is lost; clients find the new leader. A replica that lacks much, or is away, is refused.
    """
    found = kafka_client.read_cluster(brokers).topic(topic)
    chosen_partitions(topic, found, [partition])
    leader = found[partition].leader
    if leader < 0:
        raise CommandError(f"{topic}-{partition} has no leader that could hand over: `raftka doctor` says why")
    admin = kafka_client.read_broker_config(brokers, leader).get("admin.advertised.listener", "")
    admin = admin.removeprefix("http://")
    if not admin:
        raise CommandError(
            f"node {leader}, the leader of {topic}-{partition}, does not publish an admin port; is it Raftka's?"
        )
    asked = ([] if target is None else [f"target={target}"]) + ["dry_run=true"] * dry_run
    query = f"?{'&'.join(asked)}" if asked else ""
    path = f"/v1/partitions/{topic}/{partition}/transfer_leadership{query}"
    status, body = request_json(admin, path, timeout=_TRANSFER_SECONDS, method="POST")
    if status != 200 or not isinstance(body, dict) or "leader" not in body:
        why = body.get("error") if isinstance(body, dict) else None
        stays = f"node {leader} {'would stay' if dry_run else 'is still'} the leader"
        raise CommandError(f"{topic}-{partition}: {stays}: {why or f'HTTP status {status}'}")
    if output is Format.JSON:
        print_json(body)
        return
    # An earlier version does not tell it, and refuses a target that leads.
    before = body.get("leader_before", leader)
    if before == body["leader"]:
        print(f"{topic}-{partition}: node {before} leads already")
    else:
        _print_change(f"{topic}-{partition}", before, body["leader"], dry_run=dry_run)
    if dry_run:
        print(_UNCHANGED)
