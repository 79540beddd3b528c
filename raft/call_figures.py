"""What all groups of a node have done, by kind of entry: replicate calls, applies, and entries appended. Always kept.

    replicate   from the call to the answer at its level: waiting for memory, disk and followers is in it
    apply       one step that applies committed entries of one kind to the replica's state
    appended    entries written to the logs here, by leaders and by followers

A call is counted before it is admitted, so one that is refused at once is a failure. A call whose caller has gone
before the answer is in neither. Nobody waits for a call at no_ack: it is not counted. The same figures of one replica,
for telemetry, are in `interval_figures`; `replica_counts` fills both (RFC 0011).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from model.fixed_histogram import FixedHistogram
from model.ids import ConsistencyLevel
from storage.entry import Entry, EntryKind

# The levels at which somebody waits for a call.
COUNTED_LEVELS = (ConsistencyLevel.QUORUM_ACK, ConsistencyLevel.LEADER_ACK)


@dataclass(slots=True)
class AppendedEntries:
    """Entries of one kind that were written; `bytes` and `bytes_max` (the largest entry) include their headers."""

    entries: int = 0
    bytes: int = 0
    bytes_max: int = 0

    def add(self, more: "AppendedEntries") -> None:
        """Count what was counted elsewhere, too."""
        self.entries += more.entries
        self.bytes += more.bytes
        self.bytes_max = max(self.bytes_max, more.bytes_max)


class CallFigures:
    """One node's; counts only upwards.

    Attributes:
        replicate: Calls that ended well, by level and kind.
        replicate_failures: Calls that ended with an error, by level and kind.
        apply: Applies that ended well, by kind.
        apply_failures: Applies that the log or the state has refused, by kind: the replica stops.
        appended_as_leader: Entries that leaders here have written, by kind.
        appended_as_follower: Entries that followers here have written, by kind.
    """

    __slots__ = (
        "appended_as_follower",
        "appended_as_leader",
        "apply",
        "apply_failures",
        "replicate",
        "replicate_failures",
    )

    def __init__(self) -> None:
        # Every place is made here, so that nothing is allocated where calls are counted.
        self.replicate: Mapping[ConsistencyLevel, Mapping[EntryKind, FixedHistogram]] = {
            level: {kind: FixedHistogram() for kind in EntryKind} for level in COUNTED_LEVELS
        }
        self.replicate_failures = {level: dict.fromkeys(EntryKind, 0) for level in COUNTED_LEVELS}
        self.apply: Mapping[EntryKind, FixedHistogram] = {kind: FixedHistogram() for kind in EntryKind}
        self.apply_failures = dict.fromkeys(EntryKind, 0)
        self.appended_as_leader: Mapping[EntryKind, AppendedEntries] = {kind: AppendedEntries() for kind in EntryKind}
        self.appended_as_follower: Mapping[EntryKind, AppendedEntries] = {kind: AppendedEntries() for kind in EntryKind}


def appended_by_kind(entries: Sequence[Entry]) -> dict[EntryKind, AppendedEntries]:
    """Return what the entries of one round come to."""
    found: dict[EntryKind, AppendedEntries] = {}
    for entry in entries:
        place = found.get(entry.kind)
        if place is None:
            place = found[entry.kind] = AppendedEntries()
        size = entry.size
        place.entries += 1
        place.bytes += size
        if size > place.bytes_max:
            place.bytes_max = size
    return found


def count_appended(into: Mapping[EntryKind, AppendedEntries], appended: Mapping[EntryKind, AppendedEntries]) -> None:
    """Count a round that is in the log now."""
    for kind, each in appended.items():
        into[kind].add(each)
