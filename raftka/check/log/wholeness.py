"""Whether a log history says enough to be judged: something was sent, something answered, everything read at last."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from raftka.check.errors import HistoryError
from raftka.check.log.columns import FAIL, NEVER, NO_ACK, OK, UNKNOWN, LogHistory
from raftka.check.log.compaction import is_compacted
from raftka.check.log.ends import LogEnds

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Wholeness:
    """What a history, or a piece of it that has all of some partitions, says.

    Attributes:
        sends: How many records were sent.
        is_answered: Whether anything was acknowledged, polled or answered.
        unread: Partitions, by number, that something was sent to and that no final read is of.
        late: The first line whose send had not ended when the final read began, with what is wrong about it.
        short: The first partition whose final reads do not come to its end, with what is wrong about it.
        keyless: The first line that sends a record without a key to a compacted partition, with what is wrong about it.
    """

    sends: int
    is_answered: bool
    unread: list[int]
    late: tuple[int, str] | None
    short: tuple[int, str] | None
    keyless: tuple[int, str] | None = None

    @classmethod
    def of(cls, history: LogHistory, ends: LogEnds) -> Self:
        """Return what a history says."""
        sends, polls = history.sends, history.polls
        is_acked = (sends.type == OK) & (sends.acks != NO_ACK)
        # What nobody acknowledged may be missing, and so a log of which nothing was seen contradicts nothing.
        is_answered = is_acked.any() or len(history.records) or len(history.latests) or (polls.hw > 0).any()
        # When the last final poll of each partition began.
        latest = np.full(len(history.partitions), NEVER)
        finals = np.flatnonzero((polls.final == 1) & (polls.type == OK))
        latest[polls.tp[finals]] = -NEVER
        np.maximum.at(latest, polls.tp[finals], polls.inv[finals])
        unread = np.setdiff1d(sends.tp, polls.tp[finals]).tolist()
        late = np.flatnonzero(is_acked & (sends.ret > latest[sends.tp]))
        is_keyless = (sends.key == UNKNOWN) & (sends.type != FAIL) & is_compacted(history)[sends.tp]
        keyless = np.flatnonzero(is_keyless)
        return cls(
            len(sends),
            bool(is_answered),
            unread,
            _late(history, int(late[0])) if len(late) else None,
            ends.short,
            _keyless(history, int(keyless[0])) if len(keyless) else None,
        )

    def and_of(self, other: "Wholeness") -> "Wholeness":
        """Return what two pieces say together that have no partition in common."""
        return Wholeness(
            self.sends + other.sends,
            self.is_answered or other.is_answered,
            sorted([*self.unread, *other.unread]),
            min((each.late for each in (self, other) if each.late), default=None),
            min((each.short for each in (self, other) if each.short), default=None),
            min((each.keyless for each in (self, other) if each.keyless), default=None),
        )

    def check(self, partitions: list[str]) -> None:
        """Refuse what proves nothing.

        Raises:
            HistoryError: Nothing was sent, or no answer says anything, or a partition has no final read, or one that
                says itself that it is not whole, or a record of a compacted partition has no key.
        """
        if not self.sends:
            raise HistoryError("nothing was sent: there is nothing to judge")
        if not self.is_answered:
            raise HistoryError(
                "no answer says anything: no record was acknowledged or polled, and latest was not answered"
            )
        if self.unread:
            shown = ", ".join(partitions[tp] for tp in self.unread[:_SHOWN])
            shown += " and more" if len(self.unread) > _SHOWN else ""
            raise HistoryError(
                f"no final read of {shown}: what is missing from polls may have come later; read everything once more"
                ' after the faults, as polls with "final": true'
            )
        for fault in (self.late, self.short, self.keyless):
            if fault is not None:
                raise HistoryError(fault[1])


def _late(history: LogHistory, row: int) -> tuple[int, str]:
    sends = history.sends
    return int(sends.line[row]), (
        f"{history.places.name(sends.line[row])}: the final read of {history.partitions[sends.tp[row]]} began"
        " before this send had ended; read everything once more at the very end"
    )


def _keyless(history: LogHistory, row: int) -> tuple[int, str]:
    sends = history.sends
    return int(sends.line[row]), (
        f"{history.places.name(sends.line[row])}: this send to {history.partitions[sends.tp[row]]}, which is compacted,"
        " has no `key`; without it nobody can tell which records may be missing"
    )
