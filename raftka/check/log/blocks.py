"""The records of one partition in blocks of offsets: what each block judges alone, and what it tells of itself.

Offsets tell where a polled record belongs, whoever polled it. Who sent it, what became of that, and whether it is a
promise is looked up in the sends of the whole partition (`spine`). RFC 0014 says why the rest is local.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from raftka.check.levels import Level
from raftka.check.log.columns import OK, UNKNOWN, Flags, LogHistory, Numbers, Polls, Records
from raftka.check.log.deletions import check_deletions
from raftka.check.log.index import LogIndex
from raftka.check.log.measures import polled_twice
from raftka.check.log.model import judged
from raftka.check.log.pieces import chosen, united
from raftka.check.log.sessions import check_beyond, check_within
from raftka.check.log.values import check_offsets, check_sources
from raftka.check.verdict import Report

# What is seen in a poll alone, and so in any part of the history that has the whole poll.
CHECKS_OF_POLLS = (check_deletions, check_beyond)
# What is seen at an offset, or between two that one block has.
CHECKS_OF_BLOCKS = (check_sources, check_offsets, check_within)


@dataclass(frozen=True, slots=True)
class Cut:
    """Some records, in runs: each run is a row of `polls`, with `begin` and `size` of the records that it has."""

    polls: Polls
    records: Records


def cut_runs(history: LogHistory, starts: Numbers, sizes: Numbers) -> Cut:
    """Return runs of the records of a history, given by their first rows and how many they are."""
    polls, records = history.polls, history.records
    of = records.poll[starts]
    begin = polls.begin[of] + starts - polls.first[of]
    before = np.cumsum(sizes) - sizes
    rows = np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))
    runs = np.repeat(np.arange(len(starts)), sizes)
    return Cut(replace(chosen(polls, of), begin=begin, size=sizes), replace(chosen(records, rows), poll=runs))


def cut_rows(history: LogHistory, rows: Numbers) -> Cut:
    """Return some records of a history, each a run of its own."""
    return cut_runs(history, rows, np.ones(len(rows), np.int64))


def stacked(cuts: Sequence[Cut]) -> Cut:
    """Return several cuts as one."""
    records, before = [], 0
    for each in cuts:
        records.append(replace(each.records, poll=each.records.poll + before))
        before += len(each.polls)
    return Cut(united([each.polls for each in cuts], Polls), united(records, Records))


def cut_blocks(history: LogHistory, offsets: int) -> dict[int, Cut]:
    """Return the records of a history by block of so many offsets."""
    block = history.records.off // offsets
    is_start = (np.diff(history.records.poll, prepend=UNKNOWN) != 0) | (np.diff(block, prepend=UNKNOWN) != 0)
    starts = np.flatnonzero(is_start)
    sizes = np.diff(np.append(starts, len(block)))
    order = np.argsort(block[starts], kind="stable")
    numbers, bounds = np.unique(block[starts][order], return_index=True)
    runs = np.split(order, bounds[1:])
    return {int(number): cut_runs(history, starts[its], sizes[its]) for number, its in zip(numbers, runs, strict=False)}


def cut_pairs(history: LogHistory, offsets: int) -> Cut:
    """Return the pairs of records that follow each other in a poll and lie in different blocks."""
    block = history.records.off // offsets
    rows = np.flatnonzero((np.diff(history.records.poll) == 0) & (np.diff(block) != 0))
    return cut_runs(history, rows, np.full(len(rows), 2))


def cut_ends(history: LogHistory) -> Cut:
    """Return what tells where polls and logs end.

    That is of each poll the first and the last record; and the largest offset of all, of those that were certainly
    polled, and of those that were read at last.
    """
    polls, records = history.polls, history.records
    has = polls.size > 0
    rows = [polls.first[has], (polls.first + polls.size - 1)[has]]
    is_ok = polls.type[records.poll] == OK
    for flags in (np.ones(len(records), np.bool_), is_ok, is_ok & (polls.final[records.poll] == 1)):
        its = np.flatnonzero(flags)
        rows.append(its[np.argmax(records.off[its])][None] if len(its) else its)
    return cut_rows(history, np.unique(np.concatenate(rows)))


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """What the records of a block say of the sends that it has to do with, which are given by row."""

    rows: Numbers
    seen: Flags
    polled: Flags
    read_at_last: Flags
    is_at_place: Flags
    is_finally_at_place: Flags
    lowest: Numbers
    highest: Numbers


def facts_of(history: LogHistory, rows: Numbers, level: Level) -> BlockFacts:
    """Return what the records of a block say.

    Args:
        history: The block's records, and the sends that it has to do with.
        rows: Which sends of the partition these are.
        level: What acks=all has.
    """
    index = LogIndex(history, level)
    highest = np.full(len(rows), UNKNOWN)
    known = np.flatnonzero(index.send_of != UNKNOWN)
    np.maximum.at(highest, index.send_of[known], history.records.off[known])
    return BlockFacts(
        rows,
        index.seen,
        index.polled,
        index.read_at_last,
        index.is_at_place,
        index.is_finally_at_place,
        index.lowest,
        highest,
    )


class BlockIndex(LogIndex):
    """The index of a block: what is gone, and what is a promise, is known of the whole partition."""

    def __init__(self, history: LogHistory, acks_all: Level, gone: Flags, claims: Numbers) -> None:
        super().__init__(history, acks_all)
        self.gone = gone
        self.claims = claims


@dataclass(frozen=True, slots=True)
class BlockFound:
    """What came of a block.

    Attributes:
        report: On what it judges alone.
        offsets: Those that hold a value, ascending.
        known_since: For each of them, since when that is known.
        reads: Of each offset the record whose poll ended first, if that poll is known to have happened.
        irregular: All records of sends that are judged with all of their records at hand.
        polled_twice: Of the other records, how many a process had polled before.
        polled_twice_subscribed: ... in a group.
    """

    report: Report
    offsets: Numbers
    known_since: Numbers
    reads: Cut
    irregular: Cut
    polled_twice: int
    polled_twice_subscribed: int


def check_block(index: BlockIndex, tp: int, is_irregular: Flags, names: Numbers) -> BlockFound:
    """Return what comes of a block.

    Args:
        index: Its index.
        tp: The partition.
        is_irregular: For each send of the block whether it is judged elsewhere.
        names: What each value of the block is called in the partition.
    """
    history = index.history
    records = replace(history.records, val=names[history.records.val])
    renamed = replace(history, records=records)
    its = index.send_of
    known = its != UNKNOWN
    other = known.copy()
    other[known] = is_irregular[its[known]]
    is_regular = known & ~other
    first = history.key(np.array([tp]), np.zeros(1, np.int64))
    return BlockFound(
        judged(index, CHECKS_OF_BLOCKS),
        index.offsets - first,
        index.known_since,
        cut_rows(renamed, np.sort(index.first_ended[index.first_ended != UNKNOWN])),
        cut_rows(renamed, np.flatnonzero(other)),
        polled_twice(index, is_regular),
        polled_twice(index, is_regular & index.sessions.is_subscribed[history.records.poll]),
    )
