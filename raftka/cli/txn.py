"""`raftka txn`: transactional ids, and transactions that hang; `txn_hanging` finds and ends the latter."""

import time
from enum import StrEnum

import click

from raftka.cli import txn_hanging
from raftka.cli.exit_codes import CommandError
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import Format, brokers_option, format_option, given_transactional_id
from raftka.cli.output import print_json, print_table, printable
from raftka.cli.param_types import BoundedInt, EnumChoice
from raftka.counted import counted
from raftka.kafka import client as kafka_client

_NOTHING = "-"
# Brokers tell the start of the last transaction also after it has ended.
_IS_OPEN = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


class State(StrEnum):
    """What becomes of the transaction of an id."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"


@click.group("txn", cls=CommandGroup)
def app() -> None:
    """List and describe transactional ids; find and abort transactions that hang."""


@app.command("list")
@click.option(
    *("--state", "states"),
    type=EnumChoice(State),
    multiple=True,
    help="Only ids in this state; repeat for more. [default: all]",
)
@click.option(
    *("--producer-id", "producer_ids"),
    type=BoundedInt(0, 2**63 - 1),
    multiple=True,
    metavar="P",
    help="Only the id of this producer; repeat for more. [default: all]",
)
@brokers_option
@format_option
def list_transactions(states: tuple[State, ...], producer_ids: tuple[int, ...], brokers: str, output: Format) -> None:
    """List transactional ids: the broker that coordinates each one, its producer, and its state.

    State: Empty (no transaction yet), Ongoing, PrepareCommit and PrepareAbort (decided; the partitions are being told),
    CompleteCommit and CompleteAbort (the last transaction has ended everywhere).
    """
    # Imported here, for the sake of `--help`.
    from raftka.kafka import transactions

    cluster = kafka_client.read_cluster(brokers)
    found = transactions.list_all(cluster, [each.value for each in states], producer_ids)
    if output is Format.JSON:
        keys = ("transactional_id", "coordinator", "producer_id", "state")
        rows = [(each.transactional_id, node, each.producer_id, each.state) for node, each in found]
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    print_table(
        ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"],
        [(each.transactional_id, node, each.producer_id, each.state) for node, each in found],
    )


@app.command()
@click.argument("transactional_id", metavar="ID", callback=given_transactional_id, help="The transactional id.")
@brokers_option
@format_option
def describe(transactional_id: str, brokers: str, output: Format) -> None:
    """Show a transactional id: its producer, its state, and what its open transaction has written to."""
    # Imported here, for the sake of `--help`.
    from raftka.kafka import transactions

    node, found = transactions.describe(kafka_client.read_cluster(brokers), transactional_id)
    if found.error:
        raise CommandError(f"no transactional id {transactional_id!r} (`raftka txn list` shows which there are)")
    is_open = found.state in _IS_OPEN and found.started_ms >= 0
    report = {
        "transactional_id": transactional_id,
        "coordinator": node,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.epoch,
        "timeout_ms": found.timeout_ms,
        "started_ms": found.started_ms if is_open else None,
        "partitions": [{"topic": topic, "partition": number} for topic, number in sorted(found.partitions)],
    }
    if output is Format.JSON:
        print_json(report)
        return
    age = f"{max(0.0, time.time() - found.started_ms / 1000):.1f} s ago" if is_open else _NOTHING
    for title, text in (
        ("transactional id", printable(transactional_id)),
        ("coordinator", node),
        ("state", found.state),
        ("producer", f"{found.producer_id}, epoch {found.epoch}"),
        ("timeout", f"{found.timeout_ms / 1000:g} s"),
        ("begun", age),
        ("partitions", counted(len(found.partitions), "partition") if found.partitions else _NOTHING),
    ):
        print(f"{title + ':':<18}{text}")
    if found.partitions:
        print()
        print_table(["TOPIC", "PARTITION"], sorted(found.partitions))


app.add_command(txn_hanging.find_hanging)
app.add_command(txn_hanging.abort)
