"""A log history as numpy columns: what the checks compute with; `builder` makes it of lines.

Times are nanoseconds, an open end is NEVER; offsets and epochs are -1 where the history does not say. Partitions and
values are numbered in the order in which they first appear. A record that was polled is one row of `Records`, which
knows its poll.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from raftka.check.errors import HistoryError
from raftka.check.operations import Assign, Seek, Subscribe, Trim, Txn
from raftka.check.places import Places

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
UNKNOWN = -1
# Of a poll's epoch: it was not written down. UNKNOWN says that the fetch named none.
UNRECORDED = -2
# UNSETTLED is no line's word: an acknowledged send of a transaction that is not known to be committed.
OK, FAIL, INFO, UNSETTLED = 0, 1, 2, 3
# In the order of their promises.
NO_ACK, LEADER_ACK, QUORUM_ACK = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Sends:
    """One row per record that was sent; keys are numbered among the values, and UNKNOWN where there is none."""

    line: Numbers
    type: Numbers
    proc: Numbers
    inv: Numbers
    ret: Numbers
    tp: Numbers
    val: Numbers
    acks: Numbers
    off: Numbers
    epoch: Numbers
    idem: Numbers
    key: Numbers
    tombstone: Numbers

    def __len__(self) -> int:
        return len(self.line)


@dataclass(frozen=True, slots=True)
class Polls:
    """One row per poll; its records are rows `first` to `first + size` of `Records`.

    A piece of a history has of a poll the records from `begin` on, which is 0 where the poll is whole.
    """

    line: Numbers
    type: Numbers
    proc: Numbers
    inv: Numbers
    ret: Numbers
    tp: Numbers
    hw: Numbers
    final: Numbers
    epoch: Numbers
    size: Numbers
    begin: Numbers

    @property
    def first(self) -> Numbers:
        """Where each poll's records begin."""
        return np.concatenate([[0], np.cumsum(self.size)[:-1]]).astype(np.int64) if len(self.size) else self.size

    def __len__(self) -> int:
        return len(self.line)


@dataclass(frozen=True, slots=True)
class Records:
    """One row per polled record, in the order of the polls."""

    poll: Numbers
    tp: Numbers
    off: Numbers
    val: Numbers

    def __len__(self) -> int:
        return len(self.poll)


@dataclass(frozen=True, slots=True)
class Latests:
    """One row per ListOffsets latest that was answered."""

    line: Numbers
    proc: Numbers
    inv: Numbers
    ret: Numbers
    tp: Numbers
    off: Numbers

    def __len__(self) -> int:
        return len(self.line)


class Input(NamedTuple):
    """The input that a send was made of, by a consumer group; `line` is that of the send."""

    line: int
    tp: str
    off: int
    group: str


def _none() -> Numbers:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Transactions:
    """What a history says of transactions, by line. Sends and polls that say nothing of them have no row here.

    Attributes:
        names: The transactions, in the order in which they first appear.
        ends: The `txn` lines, with their numbers.
        inputs: The sends that carry the position of their input.
        send_line: The lines of sends in a transaction, ascending.
        send_txn: For each of them the number of the transaction.
        poll_line: The lines of polls that have an isolation level, a last stable offset or a transaction, ascending.
        poll_iso: For each of them 1 if it was at read_committed, else 0.
        poll_lso: For each of them the last stable offset, or UNKNOWN.
        poll_txn: For each of them the number of the transaction that it was made for, or UNKNOWN.
    """

    names: list[str] = field(default_factory=list)
    ends: list[tuple[int, Txn]] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    send_line: Numbers = field(default_factory=_none)
    send_txn: Numbers = field(default_factory=_none)
    poll_line: Numbers = field(default_factory=_none)
    poll_iso: Numbers = field(default_factory=_none)
    poll_lso: Numbers = field(default_factory=_none)
    poll_txn: Numbers = field(default_factory=_none)

    @property
    def is_empty(self) -> bool:
        """Whether the history says nothing of transactions."""
        return not (self.names or self.inputs or len(self.poll_line))


@dataclass(frozen=True, slots=True)
class LogHistory:
    """A whole history.

    Attributes:
        moves: What changes where a process reads, with its line: few, and so as they are.
        trims: By partition, the offset below which nothing is missed.
        deletions: The trims that were answered, with their lines.
        power_losses: Times at which a fault took what was not fsynced.
        places: Which line of which file a line is.
        transactions: What it says of them.
        compacted: By partition that may be compacted, for how many nanoseconds a tombstone stays at least.
    """

    sends: Sends
    polls: Polls
    records: Records
    latests: Latests
    partitions: list[str]
    values: Sequence[str]
    moves: list[tuple[int, Assign | Subscribe | Seek]]
    trims: dict[int, int]
    deletions: list[tuple[int, Trim]]
    power_losses: list[int]
    places: Places
    transactions: Transactions = field(default_factory=Transactions)
    compacted: dict[int, int] = field(default_factory=dict)

    @property
    def operations(self) -> int:
        """How many records were sent or polled, and how often latest was asked."""
        return len(self.sends) + len(self.records) + len(self.latests)

    def key(self, tp: Numbers, number: Numbers) -> Numbers:
        """Return one number for each (partition, value or offset), ascending in that order.

        Raises:
            HistoryError: They do not fit: an offset is too large.
        """
        step = max(len(self.values), self.largest_offset) + 2
        check_offsets(step, len(self.partitions))
        return tp * step + number

    @property
    def largest_offset(self) -> int:
        """The largest offset of a record or an answer; 0: there is none."""
        return max(int(each.max(initial=0)) for each in (self.sends.off, self.records.off, self.latests.off))


def check_offsets(step: int, partitions: int) -> None:
    """Refuse offsets that, together with the number of a partition, are no number of 64 bits.

    Args:
        step: More than each of them.
        partitions: How many there are.

    Raises:
        HistoryError: They are too large.
    """
    if step * (partitions + 1) >= NEVER:
        raise HistoryError(f"offsets above {NEVER // (partitions + 1)} cannot be judged")
