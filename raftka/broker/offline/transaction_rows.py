"""What rows say of transactions: the ends of transactions, and the offsets that wait for them (RFC 0021)."""

from collections import Counter
from typing import Any

from cluster.groups.group_table import GroupTable
from cluster.groups.offsets_topic import OFFSETS_TOPIC
from model.control_batch import NO_PREPARE, decode_marker
from storage.entry import Buffer

Row = dict[str, Any]


def marker_row(payload: Buffer) -> Row:
    """Return what a control batch says.

    Raises:
        CorruptRecordsError: It cannot be read as a marker.
    """
    marker = decode_marker(payload)
    return {
        "type": marker.type.name.lower(),
        "coordinator_epoch": marker.coordinator_epoch,
        "first_offset": marker.first_offset,
        # Term and index of the decision; None: an administrator has asked for the marker.
        "decision": None if marker.prepare == NO_PREPARE else list(marker.prepare),
    }


def marker_text(marker: Row) -> str:
    """Return a marker's row as text."""
    decision = marker["decision"]
    why = "asked for by an administrator" if decision is None else f"decision {decision[0]}.{decision[1]}"
    return f"{marker['type'].upper()} of what begins at offset {marker['first_offset']}, {why}"


def pending_rows(name: str | None, state: bytes) -> list[Row] | None:
    """Return how many offsets are pending, by producer, in the state of a snapshot; None: the log is of another topic.

    Raises:
        CorruptLogError: The state cannot be read.
    """
    if name is None or not name.startswith(f"{OFFSETS_TOPIC}-"):
        return None
    table = GroupTable()
    for _ in table.decode(state):
        pass
    counts = Counter(key.producer_id for key, _ in table.pending)
    return [{"producer_id": producer_id, "offsets": counts[producer_id]} for producer_id in counts]
