"""Bugs in transactions (RFC 0021), hunted in runs that have them."""

import asyncio

import pytest

from cluster.partition_reader import PartitionReader
from cluster.producer_state import ProducerState
from cluster.transactions.marker_writer import MarkerWriter
from cluster.transactions.open_transactions import OpenTransactions


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
