"""The audit of partitions as logs: read in parts, judged partition by partition, and said as one verdict."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path

from raftka.check.errors import HistoryError
from raftka.check.levels import Level
from raftka.check.log.columns import NEVER, check_offsets
from raftka.check.log.contradictions import ProcessEnds, SentAgain, ended_twice, sent_again
from raftka.check.log.index import LogIndex
from raftka.check.log.measures import measure, together
from raftka.check.log.model import judged
from raftka.check.log.pieces import LogPart, Shared, joined, read_part
from raftka.check.log.wholeness import Wholeness
from raftka.check.places import Places
from raftka.check.verdict import Report, Verdict, merged
from raftka.pipeline.audit.cluster import Cluster
from raftka.pipeline.audit.giants import Giant, judge_giant
from raftka.pipeline.audit.parts import CHUNKS_PER_PART, FilePart, HistoryFile, divide
from raftka.pipeline.audit.scratch import Kept, keep

# Operations that one task judges: some hundred megabytes of columns, and the values.
TASK_OPERATIONS = 2_000_000
# A partition with more is judged in blocks of so many offsets, if it has so many operations for each send. The spine
# takes as much memory for each send as one process takes for a send and two reads of it. So blocks save memory only if
# records are read several times: at 3 operations for each send an eighth, at 11 two thirds. They took twice the time
# (RFC 0014, "Why blocks, and when").
GIANT_OPERATIONS = 5_000_000
GIANT_OPERATIONS_PER_SEND = 4
BLOCK_OFFSETS = 500_000
# Offsets may have holes of any size: then blocks are larger.
BLOCKS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How an audit is cut; the verdict does not depend on it.

    Attributes:
        chunks: Of a part of a file.
        operations: Of partitions that one task judges together.
        giant: A partition with more is judged in blocks, if it also has `per_send` operations for each send.
        per_send: Operations for each send, from which on blocks save memory.
        offsets: Of a block.
    """

    chunks: int = CHUNKS_PER_PART
    operations: int = TASK_OPERATIONS
    giant: int = GIANT_OPERATIONS
    per_send: int = GIANT_OPERATIONS_PER_SEND
    offsets: int = BLOCK_OFFSETS


@dataclass(frozen=True, slots=True)
class _Read:
    """What came of a part: what it says, and where its pieces lie by partition; or what is wrong with it."""

    summary: LogPart | None
    pieces: dict[str, Kept]
    error: str | None


@dataclass(frozen=True, slots=True)
class _Judged:
    """What came of some partitions; no report where there is nothing to judge."""

    again: SentAgain | None
    wholeness: Wholeness
    report: Report | None


def audit_log(
    files: Sequence[HistoryFile], level: Level, cluster: Cluster, scratch: Path, sizes: Sizes = Sizes()
) -> Verdict:
    """Return the verdict of `check_log` on the history of these files.

    Args:
        files: One history; all workers see them.
        level: What acks=all has on the topics that it was made on.
        cluster: What does the work.
        scratch: An empty folder, that all workers see, too.
        sizes: How it is cut.

    Raises:
        HistoryError: It cannot be judged.
        OSError: A file cannot be read.
    """
    parts = divide(files, cluster, sizes.chunks)
    read = cluster.map(partial(_read, parts.places, scratch), parts.parts)
    for each in read:
        if each.error is not None:
            raise HistoryError(each.error)
    if parts.error is not None:
        raise parts.error
    summaries = [each.summary for each in read if each.summary is not None]
    shared = Shared.of(summaries, parts.places)
    pieces = _by_partition(read, shared)
    largest = max((each.offset for each in summaries), default=0)
    too_large = _too_large(largest, shared)
    # Where it is clear that no verdict follows, only the reason that comes first is wanted: no blocks.
    if too_large is not None:
        sizes = replace(sizes, giant=NEVER)
    if not shared.transactions.is_empty:
        # Transactions reach over partitions: one task judges all of them.
        sizes = replace(sizes, giant=NEVER, operations=NEVER)
    # The records of a key reach over blocks.
    whole_names = {shared.partitions[tp] for tp in shared.compacted}
    giants, bundles = _bundles(summaries, pieces, sizes, whole_names)
    tasks = [[kept for name in bundle for kept in pieces[name]] for bundle in bundles]
    found = cluster.map(partial(_judge, shared, level, too_large is None), tasks)
    for name, operations in giants.items():
        offsets = max(sizes.offsets, largest // BLOCKS_MAX + 1)
        giant = Giant(shared, level, shared.partitions.index(name), offsets, scratch)
        found.append(_Judged(*judge_giant(giant, pieces[name], operations, cluster)))
    _check(found, summaries, shared)
    if too_large is not None:
        raise too_large
    reports = [each.report for each in found if each.report is not None]
    whole = merged(reports)
    whole.measures = together([each.measures for each in reports])
    return whole.verdict("log", sum(size for each in summaries for _, size in each.sizes.values()))


def _read(places: Places, scratch: Path, part: FilePart) -> _Read:
    try:
        summary, pieces = read_part(part.path, part.part, part.before, places)
    except HistoryError as error:
        return _Read(None, {}, str(error))
    return _Read(summary, keep(scratch, pieces), None)


def _judge(shared: Shared, level: Level, is_judged: bool, pieces: list[Kept]) -> _Judged:
    history = joined((each.load() for each in pieces), shared)
    again = sent_again(history)
    index = LogIndex(history, level)
    wholeness = Wholeness.of(history, index.ends)
    report = None
    if is_judged and again is None:
        report = judged(index)
        measure(index, report)
    return _Judged(again, wholeness, report)


def _by_partition(read: Sequence[_Read], shared: Shared) -> dict[str, list[Kept]]:
    """Return the pieces of each partition, in the order of the parts."""
    pieces = defaultdict(list)
    for each in read:
        for name, kept in each.pieces.items():
            pieces[name].append(kept)
    return {name: pieces[name] for name in shared.partitions if name in pieces}


def _bundles(
    summaries: Sequence[LogPart], pieces: dict[str, list[Kept]], cut: Sizes, whole_names: Collection[str]
) -> tuple[dict[str, int], list[list[str]]]:
    """Return (partitions that are judged in blocks, with their operations, the others in bundles).

    One to which nothing was sent has no sends to be put together, and is never judged in blocks; nor is one of
    `whole_names`.
    """
    sends: dict[str, int] = defaultdict(int)
    sizes: dict[str, int] = defaultdict(int)
    for summary in summaries:
        for name, (sent, size) in summary.sizes.items():
            sends[name] += sent
            sizes[name] += size
    giants = {
        name: sizes[name]
        for name in pieces
        if sends[name]
        and name not in whole_names
        and sizes[name] > cut.giant
        and sizes[name] >= cut.per_send * sends[name]
    }
    bundles: list[list[str]] = []
    filled = 0
    for name in pieces:
        if name in giants:
            continue
        if not bundles or filled + sizes[name] > cut.operations:
            bundles.append([])
            filled = 0
        bundles[-1].append(name)
        filled += sizes[name]
    return giants, bundles


def _too_large(largest: int, shared: Shared) -> HistoryError | None:
    """Return why offsets cannot be judged; that comes last of all reasons."""
    try:
        # The number of values counts as well, but so many nobody has.
        check_offsets(largest + 2, len(shared.partitions))
    except HistoryError as error:
        return error
    return None


def _check(found: Sequence[_Judged], summaries: Sequence[LogPart], shared: Shared) -> None:
    """Refuse what contradicts itself, or proves nothing: in the order of the checker's reasons."""
    repeated = [each.again for each in found if each.again is not None]
    if repeated:
        raise HistoryError(min(repeated, key=lambda each: each.line).text)
    processes = reduce(ProcessEnds.followed_by, (each.processes for each in summaries))
    if processes.overlap is not None:
        raise HistoryError(processes.overlap.text(shared.places))
    if conflict := ended_twice(shared.transactions.ends, shared.places):
        raise HistoryError(conflict)
    nothing = Wholeness(0, is_answered=False, unread=[], late=None, short=None)
    reduce(Wholeness.and_of, (each.wholeness for each in found), nothing).check(shared.partitions)
