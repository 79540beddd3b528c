"""A partition that is too large for one task: judged in blocks of offsets, which are held together by its spine.

Rounds of tasks: the values get numbers; every part of the history is cut into blocks; the sends are put together; each
block says what its records say of them; that decides which of them are gone and which are promises; each block is
judged; the spine is judged.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from raftka.check.levels import Level
from raftka.check.log.blocks import (
    CHECKS_OF_POLLS,
    BlockFound,
    BlockIndex,
    check_block,
    cut_blocks,
    cut_ends,
    cut_pairs,
    facts_of,
    stacked,
)
from raftka.check.log.builder import renumbered
from raftka.check.log.columns import UNKNOWN, Latests, LogHistory, Numbers, Polls, Records, Sends
from raftka.check.log.contradictions import SentAgain, sent_again
from raftka.check.log.index import LogIndex
from raftka.check.log.model import judged
from raftka.check.log.pieces import Shared, chosen, united
from raftka.check.log.spine import Facts, SpineIndex, check_spine, with_records
from raftka.check.log.wholeness import Wholeness
from raftka.check.verdict import Report, merged
from raftka.pipeline.audit.cluster import Cluster
from raftka.pipeline.audit.numbering import Names, PieceNumbers, number_values
from raftka.pipeline.audit.scratch import Kept, keep

_SHARD_VALUES = 1_000_000
_NOTHING = Latests(*(np.zeros(0, np.int64) for _ in Latests.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class Giant:
    """One partition.

    Attributes:
        shared: What it has in common with others.
        level: What acks=all has.
        tp: Its number.
        offsets: Of a block.
        scratch: Where tasks leave things.
    """

    shared: Shared
    level: Level
    tp: int
    offsets: int
    scratch: Path


@dataclass(frozen=True, slots=True)
class _Piece:
    """What a part of the history was cut into: by block, and what goes to the spine; and what is seen in polls."""

    blocks: dict[int, Kept]
    spine: Kept
    records: int
    report: Report


@dataclass(frozen=True, slots=True)
class _Spine:
    """The sends of the partition as columns in files; of each value the row of its send; and the rest of the spine."""

    folder: Path
    rest: Kept
    blocks: list[int]


def judge_giant(
    giant: Giant, pieces: Sequence[Kept], operations: int, cluster: Cluster
) -> tuple[SentAgain | None, Wholeness, Report | None]:
    """Return what comes of a partition, of what each part of the history has of it, in order.

    No report comes of one that contradicts itself.
    """
    numbered = number_values(pieces, max(1, operations // _SHARD_VALUES), cluster, giant.scratch)
    names = numbered.names
    cuts = cluster.map(
        partial(_cut, giant, names), [(piece, numbered.of(number)) for number, piece in enumerate(pieces)]
    )
    [spine] = cluster.map(partial(_gather, giant, len(names)), [[each.spine for each in cuts]])
    blocks: dict[int, list[Kept]] = defaultdict(list)
    for block in spine.blocks:
        blocks[block] = []
    for each in cuts:
        for block, kept in each.blocks.items():
            blocks[block].append(kept)
    tasks = sorted(blocks.items())
    facts = cluster.map(partial(_facts, giant, spine, names), tasks)
    [(again, wholeness)] = cluster.map(partial(_weigh, giant, spine, names), [facts])
    if again is not None:
        return again, wholeness, None
    found = cluster.map(partial(_check, giant, spine, names), tasks)
    [report] = cluster.map(partial(_judge, giant, spine, names), [found])
    report = merged_with(report, [each.report for each in cuts])
    report.measures["polled"] = sum(each.records for each in cuts)
    return None, wholeness, report


def merged_with(report: Report, others: Sequence[Report]) -> Report:
    """Return one report of several, with the figures of the first."""
    whole = merged([report, *others])
    whole.measures = report.measures
    return whole


def _cut(giant: Giant, names: Names, piece: tuple[Kept, PieceNumbers]) -> _Piece:
    kept, numbers = piece
    its: LogHistory = kept.load()
    numbers_of = numbers.load(len(its.values))
    history = giant.shared.history(
        replace(
            its.sends,
            tp=its.sends.tp + giant.tp,
            val=numbers_of[its.sends.val],
            key=renumbered(numbers_of, its.sends.key),
        ),
        replace(its.polls, tp=its.polls.tp + giant.tp),
        replace(its.records, tp=its.records.tp + giant.tp, val=numbers_of[its.records.val]),
        replace(its.latests, tp=its.latests.tp + giant.tp),
        names,
    )
    blocks = cut_blocks(history, giant.offsets)
    rest = (history.sends, history.polls, history.latests, cut_ends(history), cut_pairs(history, giant.offsets))
    report = judged(LogIndex(history, giant.level), CHECKS_OF_POLLS)
    return _Piece(keep(giant.scratch, blocks), keep(giant.scratch, {"": rest})[""], len(history.records), report)


def _gather(giant: Giant, values: int, pieces: list[Kept]) -> _Spine:
    loaded = [each.load() for each in pieces]
    sends = united([each[0] for each in loaded], Sends)
    polls = united([each[1] for each in loaded], Polls)
    latests = united([each[2] for each in loaded], Latests)
    ends, pairs = stacked([each[3] for each in loaded]), stacked([each[4] for each in loaded])
    folder = giant.scratch / f"spine-{giant.tp}"
    folder.mkdir(exist_ok=True)
    for name in Sends.__dataclass_fields__:
        np.save(folder / f"{name}.npy", getattr(sends, name))
    row_of = np.full(values, UNKNOWN)
    row_of[sends.val] = np.arange(len(sends))
    np.save(folder / "row_of.npy", row_of)
    blocks = np.unique(sends.off[sends.off != UNKNOWN] // giant.offsets).tolist()
    return _Spine(folder, keep(giant.scratch, {"": (polls, latests, ends, pairs)})[""], blocks)


def _column(spine: _Spine, name: str) -> Any:
    """Return a column, of which only what is looked at is read."""
    return np.load(spine.folder / f"{name}.npy", mmap_mode="r")


def _sends(spine: _Spine) -> Sends:
    return Sends(**{name: _column(spine, name) for name in Sends.__dataclass_fields__})


def _block(giant: Giant, spine: _Spine, names: Names, task: tuple[int, list[Kept]]) -> tuple[LogHistory, Numbers]:
    """Return the history of a block, and which sends it has to do with; values are numbered anew."""
    number, pieces = task
    cut = stacked([each.load() for each in pieces])
    sends = _sends(spine)
    polled = _column(spine, "row_of")[cut.records.val]
    offsets = np.asarray(sends.off)
    inside = np.flatnonzero((offsets >= number * giant.offsets) & (offsets < (number + 1) * giant.offsets))
    rows = np.unique(np.concatenate([polled[polled != UNKNOWN], inside]))
    its = chosen(sends, rows)
    keys = its.key[its.key != UNKNOWN]
    values, numbers = np.unique(np.concatenate([its.val, cut.records.val, keys]), return_inverse=True)
    records: Records = replace(cut.records, val=numbers[len(its) :][: len(cut.records)])
    key = np.where(its.key == UNKNOWN, UNKNOWN, np.searchsorted(values, its.key))
    history = giant.shared.history(
        replace(its, val=numbers[: len(its)], key=key),
        cut.polls,
        records,
        _NOTHING,
        Names(names.shards, names.largest, values),
    )
    return history, rows


def _facts(giant: Giant, spine: _Spine, names: Names, task: tuple[int, list[Kept]]) -> Kept:
    history, rows = _block(giant, spine, names, task)
    return keep(giant.scratch, {"": facts_of(history, rows, giant.level)})[""]


def _whole(giant: Giant, spine: _Spine, names: Names) -> tuple[LogHistory, Any, Any]:
    """Return the history of the spine, without records, and its records."""
    polls, latests, ends, pairs = spine.rest.load()
    sends = Sends(**{name: np.array(_column(spine, name)) for name in Sends.__dataclass_fields__})
    none = Records(*(np.zeros(0, np.int64) for _ in Records.__dataclass_fields__))
    return giant.shared.history(sends, polls, none, latests, names), ends, pairs


def _weigh(giant: Giant, spine: _Spine, names: Names, blocks: list[Kept]) -> tuple[SentAgain | None, Wholeness]:
    """Decide which sends are gone, which are promises, and which are judged with all of their records at hand."""
    bare, ends, _ = _whole(giant, spine, names)
    history = with_records(bare, ends)
    facts = Facts.of(len(history.sends), (each.load() for each in blocks))
    index = SpineIndex(history, giant.level, facts)
    is_claim = np.zeros(len(history.sends), np.bool_)
    is_claim[index.claims] = True
    np.save(spine.folder / "gone.npy", index.gone)
    np.save(spine.folder / "is_claim.npy", is_claim)
    np.save(spine.folder / "is_irregular.npy", facts.is_irregular(history.sends))
    (spine.folder / "facts").mkdir(exist_ok=True)
    for name in Facts.__dataclass_fields__:
        np.save(spine.folder / "facts" / f"{name}.npy", getattr(facts, name))
    return sent_again(history), Wholeness.of(history, index.ends)


def _check(giant: Giant, spine: _Spine, names: Names, task: tuple[int, list[Kept]]) -> Kept:
    history, rows = _block(giant, spine, names, task)
    begin, end = task[0] * giant.offsets, (task[0] + 1) * giant.offsets
    is_inside = (history.sends.off >= begin) & (history.sends.off < end)
    claims = np.flatnonzero(_column(spine, "is_claim")[rows] & is_inside)
    index = BlockIndex(history, giant.level, np.array(_column(spine, "gone")[rows]), claims)
    assert isinstance(history.values, Names)
    names_of = history.values.chosen
    assert names_of is not None
    found = check_block(index, giant.tp, np.array(_column(spine, "is_irregular")[rows]), names_of)
    return keep(giant.scratch, {"": found})[""]


def _judge(giant: Giant, spine: _Spine, names: Names, blocks: list[Kept]) -> Report:
    history, ends, pairs = _whole(giant, spine, names)
    facts = Facts(**{name: np.load(spine.folder / "facts" / f"{name}.npy") for name in Facts.__dataclass_fields__})
    found: list[BlockFound] = [each.load() for each in blocks]
    return check_spine(history, giant.level, facts, ends, pairs, found)
