"""What holds the blocks of a partition together: all sends and polls, and of the records those that tell on others.

The checks are those of whole histories. Where they ask what records say of a send, or which offsets hold a value, the
answers are put together of what the blocks say, and no record is needed for them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from raftka.check.levels import Level
from raftka.check.log.blocks import CHECKS_OF_BLOCKS, CHECKS_OF_POLLS, BlockFacts, BlockFound, Cut, stacked
from raftka.check.log.columns import NEVER, UNKNOWN, Flags, LogHistory, Numbers, Sends
from raftka.check.log.index import LogIndex
from raftka.check.log.measures import measure, polled_twice
from raftka.check.log.model import CHECKS, judged
from raftka.check.log.pieces import chosen
from raftka.check.log.realtime import check_polls
from raftka.check.log.sessions import check_within
from raftka.check.verdict import Report, merged

_CHECKS = tuple(each for each in CHECKS if each not in (*CHECKS_OF_BLOCKS, *CHECKS_OF_POLLS, check_polls))


@dataclass(frozen=True, slots=True)
class Facts:
    """What all records say of each send."""

    seen: Flags
    polled: Flags
    read_at_last: Flags
    is_at_place: Flags
    is_finally_at_place: Flags
    lowest: Numbers
    highest: Numbers

    @classmethod
    def of(cls, count: int, blocks: Iterable[BlockFacts]) -> "Facts":
        """Return what blocks say of so many sends: some say it, or none does."""
        seen, polled, last, place, last_place = (np.zeros(count, np.bool_) for _ in range(5))
        whole = cls(seen, polled, last, place, last_place, np.full(count, NEVER), np.full(count, UNKNOWN))
        for block in blocks:
            whole.seen[block.rows] |= block.seen
            whole.polled[block.rows] |= block.polled
            whole.read_at_last[block.rows] |= block.read_at_last
            whole.is_at_place[block.rows] |= block.is_at_place
            whole.is_finally_at_place[block.rows] |= block.is_finally_at_place
            whole.lowest[block.rows] = np.minimum(whole.lowest[block.rows], block.lowest)
            whole.highest[block.rows] = np.maximum(whole.highest[block.rows], block.highest)
        return whole

    def is_irregular(self, sends: Sends) -> Flags:
        """Return which sends are judged with all of their records at hand.

        The value is at several offsets, or not where it was acknowledged, or the final reads miss what was polled.
        """
        is_moved = (sends.off != UNKNOWN) & ((self.lowest != sends.off) | (self.highest != sends.off))
        is_lost = self.polled & ~self.read_at_last
        flags: Flags = self.seen & ((self.lowest != self.highest) | is_moved | is_lost)
        return flags


class SpineIndex(LogIndex):
    """The index of a history that has some of the records; what all of them say is given."""

    def __init__(self, history: LogHistory, acks_all: Level, facts: Facts) -> None:
        super().__init__(history, acks_all)
        self.seen = facts.seen
        self.polled = facts.polled
        self.read_at_last = facts.read_at_last
        self.is_at_place = facts.is_at_place
        self.is_finally_at_place = facts.is_finally_at_place
        self.lowest = facts.lowest

    def take_offsets(self, offsets: Numbers, known_since: Numbers) -> None:
        """Take the offsets that hold a value, ascending, and since when that is known."""
        # All are of one partition, as is all else here.
        self.offsets = self.history.key(np.full(len(offsets), self.history.sends.tp[0]), offsets)
        self.known_since = known_since
        # Its records are some of those that lie there.
        self._slots = None


def with_records(history: LogHistory, cut: Cut) -> LogHistory:
    """Return a history whose polls have these records, each once."""
    polls, records = history.polls, cut.records
    line = cut.polls.line[records.poll]
    number = cut.polls.begin[records.poll] + np.arange(len(records)) - cut.polls.first[records.poll]
    order = np.lexsort((number, line))
    is_new = (np.diff(line[order], prepend=UNKNOWN) != 0) | (np.diff(number[order], prepend=UNKNOWN) != 0)
    order = order[is_new]
    poll = np.searchsorted(polls.line, line[order])
    size = np.bincount(poll, minlength=len(polls)).astype(np.int64)
    return replace(
        history, polls=replace(polls, size=size), records=replace(chosen(records, order), poll=poll.astype(np.int64))
    )


def check_spine(
    history: LogHistory, level: Level, facts: Facts, ends: Cut, pairs: Cut, blocks: list[BlockFound]
) -> Report:
    """Return the report on a partition, but for what is seen in polls alone.

    Args:
        history: All sends, polls and answers of latest; no records.
        level: What acks=all has.
        facts: What the blocks say of the sends.
        ends: The records that tell where polls and logs end.
        pairs: Those that follow each other in a poll and lie in different blocks.
        blocks: What came of the blocks, ascending.
    """
    offsets = np.concatenate([np.zeros(0, np.int64), *(each.offsets for each in blocks)])
    known_since = np.concatenate([np.zeros(0, np.int64), *(each.known_since for each in blocks)])

    def index_of(cut: LogHistory) -> SpineIndex:
        index = SpineIndex(cut, level, facts)
        index.take_offsets(offsets, known_since)
        return index

    whole = index_of(with_records(history, stacked([ends, *(each.irregular for each in blocks)])))
    reads = index_of(with_records(history, stacked([each.reads for each in blocks])))
    between = index_of(replace(history, polls=pairs.polls, records=pairs.records))
    reports = [judged(whole, _CHECKS), judged(reads, (check_polls,)), judged(between, (check_within,))]
    report = merged([*reports, *(each.report for each in blocks)])
    measure(whole, report)
    known = whole.send_of != UNKNOWN
    is_chosen = known.copy()
    is_chosen[known] = facts.is_irregular(history.sends)[whole.send_of[known]]
    subscribed = is_chosen & whole.sessions.is_subscribed[whole.history.records.poll]
    report.measures["polled-twice"] = polled_twice(whole, is_chosen) + sum(each.polled_twice for each in blocks)
    report.measures["polled-twice-subscribed"] = polled_twice(whole, subscribed) + sum(
        each.polled_twice_subscribed for each in blocks
    )
    return report
