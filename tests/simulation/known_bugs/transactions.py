"""Bugs in transactions (RFC 0021), hunted in runs that have them."""

import asyncio

import pytest

from cluster.partition_reader import PartitionReader
from cluster.producer_state import ProducerState
from cluster.transactions.marker_writer import MarkerWriter
from cluster.transactions.open_transactions import OpenTransactions
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions import kept_transactions
from kafka_api.transactions.transaction import Transaction
from model.control_batch import decode_marker
from model.ids import ConsistencyLevel, Offset
from storage import segment
from storage.aborted_rows import AbortedRow
from storage.entry import Entry


def stable_offset_passes_what_has_a_marker(patch: pytest.MonkeyPatch) -> None:
    """A transaction is over for readers once its marker is written, whether they see the marker or not."""

    def first_without_marker(transactions: OpenTransactions, visible):
        for each in transactions._transactions.values():
            if each.first_index > visible:
                break
            if each.marker_index is None:
                return each
        return None

    patch.setattr(OpenTransactions, "first_open_at", first_without_marker)


def markers_are_not_judged_at_their_place(patch: pytest.MonkeyPatch) -> None:
    """Of two equal markers that come at once, both are written."""
    write_one = MarkerWriter._write_one

    async def write_twice(writer: MarkerWriter, *arguments):
        first, _ = await asyncio.gather(write_one(writer, *arguments), write_one(writer, *arguments))
        return first

    patch.setattr(MarkerWriter, "_write_one", write_twice)
    patch.setattr(ProducerState, "_judge_marker", lambda state, marker: None)


def aborted_records_are_shown(patch: pytest.MonkeyPatch) -> None:
    """Readers are not told which transactions were aborted."""
    fetch_committed = PartitionReader.fetch_committed

    async def fetch_without_rows(reader: PartitionReader, *arguments, **options):
        return (await fetch_committed(reader, *arguments, **options))._replace(aborted=[])

    patch.setattr(PartitionReader, "fetch_committed", fetch_without_rows)


def decisions_are_acted_on_before_they_are_committed(patch: pytest.MonkeyPatch) -> None:
    """A coordinator takes a record for committed as soon as its own log has it, and sends the markers."""
    patch.setattr(kept_transactions, "TRANSACTIONS_LEVEL", ConsistencyLevel.LEADER_ACK)


def transactions_are_complete_before_all_markers(patch: pytest.MonkeyPatch) -> None:
    """Complete is written once the first partition was asked for its marker, whatever its leader has answered."""
    markers, complete = Transaction.markers, Transaction.complete

    def marker_of_the_first(machine: Transaction):
        due = markers(machine)
        return due and due._replace(partitions=due.partitions[:1])

    def complete_at_once(machine: Transaction, now_ms: int):
        machine._unmarked.clear()
        return complete(machine, now_ms)

    patch.setattr(Transaction, "markers", marker_of_the_first)
    patch.setattr(Transaction, "complete", complete_at_once)


def committed_transactions_have_rows(patch: pytest.MonkeyPatch) -> None:
    """A segment has a row for each marker, of whatever type."""

    def row_of_any_marker(entry: Entry) -> AbortedRow:
        marker = decode_marker(entry.payload)
        return AbortedRow(marker.producer_id, Offset(marker.first_offset), entry.base_offset)

    patch.setattr(segment, "aborted_row", row_of_any_marker)


def former_members_commit_in_transactions(patch: pytest.MonkeyPatch) -> None:
    """A group's coordinator takes offsets in a transaction from a member whose part another one has by now."""
    check_commit = CoordinatedPartition.check_commit

    def check_plain_ones(kept: CoordinatedPartition, *arguments, is_transactional: bool = False) -> ErrorCode:
        return ErrorCode.NONE if is_transactional else check_commit(kept, *arguments)

    patch.setattr(CoordinatedPartition, "check_commit", check_plain_ones)
