"""RFC 0022, C2 and C3: what a pass of log compaction leaves."""

from collections.abc import Sequence

import crc32c

from model.record_batch import CRC_START, read_header
from model.record_codec import CorruptRecordsError, unpack_records
from model.record_filter import keyed_records
from storage.entry import Entry, EntryKind
from storage.segment import Segment
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, chain_of


class KeptRecordsAreOriginal(Invariant):
    """A record that is kept has its bytes and its offset; entries and placeholders cover all indexes and all offsets."""

    def on_swapped(self, view: ReplicaView, segment: Segment, entries: Sequence[Entry]) -> None:
        self.history.counts["segments put in place by passes"] += 1
        due = segment.base_index
        for entry in entries:
            if entry.index != due:
                self.violated(view, f"{segment.name}: entry {entry.index} is where {due} should be")
            due = entry.last_index + 1
        if due != segment.last_index + 1:
            self.violated(view, f"{segment.name} ends with entry {due - 1}, not with {segment.last_index}")

    def on_compacted(self, view: ReplicaView, entries: Sequence[Entry]) -> None:
        originals = self.history.original_log(view.group)
        for entry in entries:
            first, last = originals.at(entry.index), originals.at(entry.last_index)
            if first is None or last is None:
                self.violated(view, f"entry {entry.last_index} was compacted, and is not committed")
            # A log may start inside a batch, and a placeholder with it (RFC 0022, section 7).
            begins = first.base_offset <= entry.base_offset <= first.base_offset + first.record_count
            starts_here = entry.kind is EntryKind.PLACEHOLDER and entry.index <= view.consensus.log.start_index
            if entry.base_offset != first.base_offset and not (starts_here and begins):
                self.violated(view, f"entry {entry.index} begins at {entry.base_offset}, not at {first.base_offset}")
            if entry.end_offset != last.base_offset + last.record_count:
                self.violated(view, f"entry {entry.index} ends at {entry.end_offset}, not where {last.index} has ended")
            if not first.term == last.term == entry.term:
                self.violated(view, f"entry {entry.index} of term {entry.term} stands for one of term {last.term}")
            if entry.kind is EntryKind.PLACEHOLDER:
                continue
            if entry.kind is not first.kind:
                self.violated(view, f"entry {entry.index} is of kind {entry.kind.name}, not {first.kind.name}")
            payload = originals.payload(entry.index)
            if payload is None:
                before = b"" if entry.index == 1 else originals.committed[entry.index - 2].chain
                flaw = None if chain_of(entry, before) == first.chain else "its bytes are others"
            else:
                flaw = None if bytes(entry.payload) == payload else _flaw_of(entry, payload)
            if flaw is not None:
                self.violated(view, f"entry {entry.index} is not what a pass may leave of it: {flaw}")


def _flaw_of(entry: Entry, original: bytes) -> str | None:
    """Return what is wrong with a batch as that with some records of the original one."""
    header, before = read_header(entry.payload), read_header(original)
    if before.is_control:
        return "a marker has other bytes"
    data, data_before = unpack_records(entry.payload), unpack_records(original)
    try:
        kept = keyed_records(header, data)
    except CorruptRecordsError as error:
        return str(error)
    if crc32c.crc32c(memoryview(entry.payload)[CRC_START:]) != header.crc:
        return "a wrong checksum"
    if not 0 < len(kept) < before.record_count:
        return f"{len(kept)} of {before.record_count} records, and other bytes"
    times = [before.base_timestamp + each.timestamp_delta for each in kept]
    is_set = before.uses_log_append_time or before.max_timestamp < 0
    wanted = before._replace(
        batch_length=len(entry.payload) - 12,
        crc=header.crc,
        max_timestamp=before.max_timestamp if is_set else max(times),
        record_count=len(kept),
    )
    if header != wanted:
        return f"{header}, not {wanted}"
    deltas = {each.offset_delta for each in kept}
    found = [data[each.begin : each.end] for each in kept]
    originals = [each for each in keyed_records(before, data_before) if each.offset_delta in deltas]
    return None if found == [data_before[each.begin : each.end] for each in originals] else "its records are others"
