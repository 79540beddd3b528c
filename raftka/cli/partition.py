"""`raftka partition`: partitions, and where they are; `partition_leaders` who leads them."""

import click

from raftka.cli import partition_leaders, partition_moves
from raftka.cli.completion import complete_topics
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import Format, brokers_option, format_option
from raftka.cli.output import node_list, print_json, print_table


@click.group("partition", cls=CommandGroup)
def app() -> None:
    """List partitions, choose who leads them, and move them between brokers."""


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


app.add_command(partition_leaders.elect_preferred)
app.add_command(partition_leaders.transfer_leadership)
app.add_command(partition_moves.move)
app.add_command(partition_moves.moves)
app.add_command(partition_moves.cancel)
