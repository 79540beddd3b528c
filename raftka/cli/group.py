"""`raftka group`: consumer groups: who is in them, how far behind they are, where they go on."""

import sys
import time
from typing import Any

import click
from click.exceptions import Exit

from raftka.cli.completion import complete_groups
from raftka.cli.exit_codes import FAILED, CommandError
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import (
    Format,
    brokers_option,
    chosen_partitions,
    dry_run_option,
    format_option,
    given_group,
    given_groups,
)
from raftka.cli.output import print_json, print_table, printable
from raftka.cli.positions import POSITION_HELP, POSITION_METAVAR, parse_position, resolve
from raftka.kafka import client as kafka_client
from raftka.kafka import groups as kafka_groups
from raftka.kafka import offsets as kafka_offsets
from raftka.kafka.groups import GroupInfo, GroupMember, Partition

group_argument = click.argument(
    "group", metavar="GROUP", shell_complete=complete_groups, callback=given_group, help="Name of the group."
)
_NOWHERE = "-"


@click.group("group", cls=CommandGroup)
def app() -> None:
    """List, describe, seek and delete consumer groups."""


@app.command("list")
@brokers_option
@format_option
def list_groups(brokers: str, output: Format) -> None:
    """List the consumer groups and their states. Other groups, such as those of Kafka Connect, are left out."""
    found = kafka_groups.list_groups(brokers)
    if output is Format.JSON:
        print_json([{"group": each.name, "state": each.state, "simple": each.is_simple} for each in found])
    else:
        print_table(["GROUP", "STATE"], [(each.name, each.state) for each in found])


@app.command()
@group_argument
@brokers_option
@format_option
def describe(group: str, brokers: str, output: Format) -> None:
    """Show the members of a group and its lag in each partition.

    If a partition has records and the group has committed no offset, the consumers decide where they start. Then the
    lag of the partition and the sum are unknown (-, null).
    """
    found = kafka_groups.read_group(brokers, group)
    commits = kafka_groups.read_commits(brokers, group)
    if not found.exists and not commits:
        raise _unknown(brokers, group)
    report = _report(found, commits, *_ends(brokers, found, commits))
    if output is Format.JSON:
        print_json(report)
        return
    for title in ("group", "state", "coordinator", "assignor"):
        print(f"{title + ':':<13}{printable(str(report[title])) if report[title] not in ('', -1) else _NOWHERE}")
    print(f"{'members:':<13}{len(found.members)}")
    print(f"{'lag:':<13}{_NOWHERE if report['lag'] is None else report['lag']}\n")
    print_table(
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "CLIENT", "HOST"],
        [[_NOWHERE if cell is None else cell for cell in row.values()] for row in report["partitions"]],
    )
    for title, members in (
        ("without a partition", [each for each in found.members if each.partitions == []]),
        ("with an assignment that cannot be read", [each for each in found.members if each.partitions is None]),
    ):
        if members:
            print(f"\n{title}:")
            print_table(["MEMBER", "CLIENT", "HOST"], [(each.member_id, each.client_id, each.host) for each in members])


@app.command()
@group_argument
@click.option("--to", metavar=POSITION_METAVAR, help=f"New position. {POSITION_HELP}.")
@click.option(
    "--to-group",
    metavar="GROUP",
    shell_complete=complete_groups,
    callback=given_group,
    help="Use the committed offsets of another group.",
)
@click.option(
    *("--topic", "-t", "topics"),
    multiple=True,
    metavar="TOPIC[:0,1,...]",
    help="Only these topics or partitions. [default: all with committed offsets]",
)
@dry_run_option
@brokers_option
@format_option
def seek(
    group: str,
    to: str | None,
    to_group: str | None,
    topics: tuple[str, ...],
    dry_run: bool,
    brokers: str,
    output: Format,
) -> None:
    """Set the committed offsets of a group. The group must have no members: they would overwrite these offsets.

    If a partition does not have the offset N, it gets the nearest one, with a note on stderr.
    """
    if (to is None) == (to_group is None):
        raise click.BadParameter("use either --to or --to-group")
    position = None if to is None else parse_position(to, "--to", time.time_ns() // 1_000_000)
    chosen = [_parse_topic(text) for text in topics]
    found = kafka_groups.read_group(brokers, group)
    found.check_empty()
    before = kafka_groups.read_commits(brokers, group)
    if not chosen and not before and to_group is None:
        raise CommandError(f"group {group} has no committed offsets; name the topics with --topic TOPIC")
    if position is None:
        assert to_group is not None
        after = _chosen_commits(brokers, to_group, chosen)
    else:
        after = resolve(brokers, position, _partitions(brokers, chosen, before), note=_note)
    if not dry_run:
        kafka_groups.write_commits(brokers, group, after)
    rows: list[dict[str, Any]] = [
        {"topic": topic, "partition": number, "before": before.get((topic, number)), "after": offset}
        for (topic, number), offset in after.items()
    ]
    if output is Format.JSON:
        print_json({"group": group, "changed": not dry_run, "partitions": rows})
        return
    print_table(
        ["TOPIC", "PARTITION", "BEFORE", "AFTER"],
        [[_NOWHERE if cell is None else cell for cell in row.values()] for row in rows],
    )
    if dry_run:
        print("nothing is changed (--dry-run)")


@app.command()
@click.argument(
    "groups",
    nargs=-1,
    required=True,
    metavar="GROUP...",
    shell_complete=complete_groups,
    callback=given_groups,
    help="Names of groups.",
)
@brokers_option
def delete(groups: tuple[str, ...], brokers: str) -> None:
    """Delete groups and their committed offsets. The groups must have no members."""
    names = list(dict.fromkeys(groups))
    refused = kafka_groups.delete_groups(brokers, names)
    for name in names:
        if name in refused:
            _note(f"group {printable(name)} is not deleted: {refused[name]}")
        else:
            print(f"deleted {printable(name)}")
    if refused:
        raise Exit(FAILED)


def _note(words: str) -> None:
    print(f"raftka: {words}", file=sys.stderr)


def _unknown(brokers: str, group: str) -> CommandError:
    # Imported here: only whoever has mistyped needs it.
    from raftka.suggestions import did_you_mean

    question = did_you_mean(group, (each.name for each in kafka_groups.list_groups(brokers)))
    name = printable(group)
    return CommandError(
        f"no group '{name}': {printable(question)}"
        if question
        else f"no group '{name}' (`raftka group list` lists all)"
    )


def _ends(brokers: str, group: GroupInfo, commits: dict[Partition, int]) -> tuple[dict[Partition, int], set[Partition]]:
    """Return the ends of all partitions that matter to a group and still exist, and those with an unknown lag.

    A partition without a leader does not tell its end. One that has records, of which the group has committed nothing,
    is read from where its consumers want to begin.
    """
    topics = kafka_client.read_cluster(brokers).topics
    is_led = {(topic, each.partition): each.leader >= 0 for topic, found in topics.items() for each in found}
    wanted = sorted((set(_owners(group)) | set(commits)) & set(is_led))
    led = [partition for partition in wanted if is_led[partition]]
    ends = kafka_offsets.end_offsets(brokers, led)
    firsts = kafka_offsets.first_offsets(brokers, [each for each in led if commits.get(each, -1) < 0])
    unread = {partition for partition, first in firsts.items() if first < ends[partition]}
    return ends, unread | (set(wanted) - set(led))


def _owners(group: GroupInfo) -> dict[Partition, GroupMember]:
    return {partition: member for member in group.members for partition in member.partitions or []}


def _report(
    group: GroupInfo, commits: dict[Partition, int], ends: dict[Partition, int], unknown: set[Partition]
) -> dict[str, Any]:
    owners = _owners(group)
    is_partial = any(each.partitions is None for each in group.members)
    rows = []
    for partition in sorted(set(commits) | set(owners)):
        committed, end, owner = commits.get(partition), ends.get(partition), owners.get(partition)
        rows.append(
            {
                "topic": partition[0],
                "partition": partition[1],
                "committed": committed,
                "end": end,
                "lag": None if committed is None or committed < 0 or end is None else max(0, end - committed),
                "member": owner and owner.member_id,
                "client": owner and owner.client_id,
                "host": owner and owner.host,
            }
        )
    return {
        "group": group.name,
        "state": group.state,
        "coordinator": group.coordinator,
        "assignor": group.assignor,
        # A group that is behind must not look like one that is not.
        "lag": None if unknown or is_partial else sum(row["lag"] or 0 for row in rows),
        "members": [
            {
                "member": each.member_id,
                "instance": each.instance_id or None,
                "client": each.client_id,
                "host": each.host,
                "partitions": None
                if each.partitions is None
                else [{"topic": topic, "partition": number} for topic, number in each.partitions],
            }
            for each in group.members
        ],
        "partitions": rows,
    }


def _parse_topic(text: str) -> tuple[str, list[int]]:
    """Return topic and partitions of TOPIC[:0,1,...]; no partitions stand for all."""
    topic, colon, numbers = text.partition(":")
    words = numbers.split(",") if colon else []
    if not topic or not all(word.isascii() and word.isdigit() for word in words):
        raise click.BadParameter(f"--topic {text}: must be TOPIC or TOPIC:0,1,...")
    return topic, [int(word) for word in words]


def _partitions(
    brokers: str, chosen: list[tuple[str, list[int]]], commits: dict[Partition, int]
) -> dict[str, list[int]]:
    """Return the numbers of the partitions that are to be sought, by topic.

    Raises:
        CommandError: A partition that was asked for does not exist.
        KafkaClientError: A topic does not exist.
    """
    cluster = kafka_client.read_cluster(brokers)
    found: dict[str, set[int]] = {}
    for topic, numbers in chosen or [(topic, [number]) for topic, number in commits]:
        found.setdefault(topic, set()).update(chosen_partitions(topic, cluster.topic(topic), numbers))
    return {topic: sorted(numbers) for topic, numbers in found.items()}


def _chosen_commits(brokers: str, group: str, chosen: list[tuple[str, list[int]]]) -> dict[Partition, int]:
    commits = kafka_groups.read_commits(brokers, group)
    kept = {
        partition: offset
        for partition, offset in commits.items()
        if offset >= 0 and (not chosen or any(_is_chosen(partition, *each) for each in chosen))
    }
    if not kept:
        raise CommandError(f"group {group} has no committed offsets{' in these topics' if chosen else ''}")
    return kept


def _is_chosen(partition: Partition, topic: str, numbers: list[int]) -> bool:
    return partition[0] == topic and (not numbers or partition[1] in numbers)
