"""`raftka topic alter-replication`: more or fewer replicas for each partition of a topic."""

import click
from click.exceptions import Exit

from raftka.cli.completion import complete_topics
from raftka.cli.exit_codes import FAILED
from raftka.cli.lazy_group import Command
from raftka.cli.move_wait import ask_and_report, wait_until_moved
from raftka.cli.options import Format, brokers_option, dry_run_option, format_option, timeout_option
from raftka.cli.param_types import BoundedInt
from raftka.cli.partition_moves import wait_option
from raftka.counted import counted
from raftka.kafka import client as kafka_client


@click.command("alter-replication", cls=Command)
@click.argument("name", metavar="NAME", shell_complete=complete_topics, help="Name of the topic.")
@click.option(
    *("--replicas", "-r", "count"),
    type=BoundedInt(1, 31),
    required=True,
    metavar="N",
    help="Replicas that each partition shall have.",
)
@wait_option
@timeout_option(3600.0)
@dry_run_option
@brokers_option
@format_option
def alter_replication(
    name: str, count: int, wait: bool, timeout: float, dry_run: bool, brokers: str, output: Format
) -> None:
    """Give each partition of a topic N replicas, while clients read and write.

    New replicas go to the brokers that hold the fewest. If there are too many, those go that are on the brokers that
    hold the most, but never a leader. Without --wait the command ends once the moves have begun: `raftka partition
    moves` shows them.
    """
    # Asked first for the sake of a better word than the verb has.
    kafka_client.read_cluster(brokers).topic(name)
    document = {"replication_factor": count, "dry_run": dry_run}
    answer, begun = ask_and_report(brokers, f"/v1/topics/{name}/replication", document, output, is_waited_for=wait)
    if not answer["partitions"] and output is Format.TEXT:
        print(f"{name}: each partition has {counted(count, 'replica')}, or is on its way there")
    if wait and not dry_run:
        targets = {(row["topic"], row["partition"]): row["replicas"] for row in answer["partitions"]}
        wait_until_moved(brokers, {each: targets[each] for each in begun}, timeout)
    if any(row["error"] for row in answer["partitions"]):
        raise Exit(FAILED)
