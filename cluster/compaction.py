"""Passes of log compaction on this node: one at a time, over the dirtiest partition that is due (RFC 0022, section 5).

    look    which partitions are due
    pass    over the first of them; its outputs take the places of their sources in the log

Every replica cleans its own log. A pass that fails comes again after a pause; after three failures in a row the
partition waits until the broker starts again, and its readers and producers notice nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from cluster.compaction_rule import CompactionPolicy, dirty_ratio, is_due
from cluster.partition import Partition
from model.error_text import reason_of
from model.ids import GroupId, NodeId
from runtime.child import ChildError
from runtime.clock import WallClock
from runtime.files import FileSystem
from runtime.gate import Gate
from storage.cleaning_process import clean_in_child
from storage.errors import CorruptLogError, StorageError
from storage.log_compaction import CleaningFacts, CleaningLimits
from storage.segment_cleaning import CleaningRequest, CleaningResult

_logger = logging.getLogger("cluster")
_PAUSE_SECONDS = 60.0
_FAILURES_MAX = 3
# A child has so long, and twice what its bytes take at its rate; then it counts as hung.
_CHILD_SECONDS_MIN = 120.0
_SLOWEST_BYTES_PER_SECOND = 1024 * 1024


class Cleaner(Protocol):
    """Makes a pass: a child process, or in the simulation a job."""

    async def clean(self, request: CleaningRequest) -> CleaningResult:
        """Make it.

        Raises:
            ChildError, CorruptLogError, OSError: As `storage.cleaning_process.clean_in_child`.
        """
        ...


class CompactionOptions(NamedTuple):
    """Of the node, with Kafka's keys.

    Attributes:
        backoff_seconds: `log.cleaner.backoff.ms`: between two looks that find nothing to do.
        map_bytes: `log.cleaner.dedupe.buffer.size`.
        io_bytes_per_second: `log.cleaner.io.max.bytes.per.second`; 0: nothing bounds it.
    """

    backoff_seconds: float = 15.0
    map_bytes: int = 64 * 1024 * 1024
    io_bytes_per_second: int = 32 * 1024 * 1024


class ChildCleaner:
    """Makes passes in child processes."""

    def __init__(self, files: FileSystem, io_bytes_per_second: int) -> None:
        self._files = files
        self._rate = io_bytes_per_second

    async def clean(self, request: CleaningRequest) -> CleaningResult:
        """See `Cleaner`."""
        # Each byte is read twice, and written once at most.
        size = 3 * sum(source.size for source in request.sources)
        seconds = _CHILD_SECONDS_MIN + 2 * size / (self._rate or _SLOWEST_BYTES_PER_SECOND)
        return await clean_in_child(self._files, request, self._rate, seconds)


class SeenPartition(NamedTuple):
    """A compacted partition as of the last look.

    Attributes:
        partition: The replica.
        facts: What a pass would find.
        is_due: Whether it waits for a pass.
        held_since: The loop's time since which deletes stay because of other members; None: none do.
        holders: The leader: for whom they stay.
    """

    partition: Partition
    facts: CleaningFacts
    is_due: bool
    held_since: float | None
    holders: tuple[NodeId, ...]


@dataclass(slots=True)
class CompactionCounts:
    """What passes have done since the start.

    Attributes:
        passes: That have ended well.
        failures: That have not.
        removed_records: Of all kinds.
        cleaned_bytes: Of the segments that passes have replaced.
    """

    passes: int = 0
    failures: int = 0
    removed_records: int = 0
    cleaned_bytes: int = 0


class _Candidate(NamedTuple):
    partition: Partition
    limits: CleaningLimits
    facts: CleaningFacts


class Compactor:
    """One per node.

    Args:
        partitions: Those with a replica here.
        policy_of: Returns what a partition's topic asks for; None: it is not compacted.
        cleaner: Makes the passes.
        wall_clock: Timestamps are compared with it.
        spare_bytes: Returns the free bytes of the disk above its reserve.
        options: Of the node.
    """

    def __init__(
        self,
        partitions: Iterable[Partition],
        policy_of: Callable[[Partition], CompactionPolicy | None],
        cleaner: Cleaner,
        wall_clock: WallClock,
        spare_bytes: Callable[[], int],
        options: CompactionOptions,
    ) -> None:
        self._partitions = partitions
        self._policy_of = policy_of
        self._cleaner = cleaner
        self._wall_clock = wall_clock
        self._spare_bytes = spare_bytes
        self._options = options
        self._gate = Gate("compaction")
        # Failures in a row, and the loop time of the next try.
        self._failures: dict[GroupId, tuple[int, float]] = {}
        self._seen: dict[GroupId, SeenPartition] = {}
        self.counts = CompactionCounts()

    def start(self) -> None:
        """Look again and again."""
        self._gate.spawn(self._run(), name="compaction")

    async def stop(self) -> None:
        """End the pass that is under way; what it has written is removed by the next start."""
        await self._gate.close()

    def is_suspended(self, group: GroupId) -> bool:
        """Whether no pass is made over a partition any more before the broker starts again."""
        return self._failures.get(group, (0, 0.0))[0] >= _FAILURES_MAX

    def suspended(self) -> list[Partition]:
        """Return the partitions here over which no pass is made any more."""
        return [partition for partition in self._partitions if self.is_suspended(partition.group)]

    def held_bytes(self, group: GroupId) -> int:
        """Return the bytes of deletes that stay because of another member, as of the last look; 0: not known."""
        seen = self._seen.get(group)
        return 0 if seen is None else seen.facts.held_bytes

    def seen(self) -> list[SeenPartition]:
        """Return the compacted partitions here, as of the last look."""
        return [*self._seen.values()]

    async def _run(self) -> None:
        while True:
            if not await self.look():
                await asyncio.sleep(self._options.backoff_seconds)

    async def look(self) -> bool:
        """Make one pass, over the dirtiest partition that is due; return whether that has changed a log."""
        partitions = [*self._partitions]
        present = {partition.group for partition in partitions}
        self._failures = {group: failed for group, failed in self._failures.items() if group in present}
        self._seen = {group: seen for group, seen in self._seen.items() if group in present}
        candidates = [each for partition in partitions if (each := await self._candidate(partition)) is not None]
        if not candidates:
            return False
        chosen = max(candidates, key=lambda each: dirty_ratio(each.facts))
        return await self._pass(chosen)

    async def _candidate(self, partition: Partition) -> _Candidate | None:
        policy = self._policy_of(partition)
        if policy is None:
            self._seen.pop(partition.group, None)
            return None
        failures, again_at = self._failures.get(partition.group, (0, 0.0))
        if failures >= _FAILURES_MAX or asyncio.get_running_loop().time() < again_at:
            return None
        now_ms = self._wall_clock.now_ms()
        try:
            limits = await partition.cleaning_limits(policy, now_ms, self._options.map_bytes)
        except StorageError as error:
            # Otherwise its replica has left this node since the look has begun.
            if partition in [*self._partitions]:
                self._failed(partition, reason_of(error))
            return None
        if limits is None:
            return None
        facts = partition.compaction.facts(limits)
        wanted = is_due(facts, policy, now_ms)
        self._see(partition, facts, is_due=wanted)
        if not wanted:
            return None
        if facts.cleanable_bytes > self._spare_bytes():
            # Not a failure of the pass: it waits for room, as producers do.
            return None
        return _Candidate(partition, limits, facts)

    def _see(self, partition: Partition, facts: CleaningFacts, *, is_due: bool) -> None:
        before, since = self._seen.get(partition.group), None
        holders = partition.holders_of_deletes if facts.held_bytes else ()
        if holders:
            since = before.held_since if before is not None else None
            since = asyncio.get_running_loop().time() if since is None else since
        self._seen[partition.group] = SeenPartition(partition, facts, is_due, since, holders)

    async def _pass(self, chosen: _Candidate) -> bool:
        partition = chosen.partition
        try:
            request = await partition.compaction.request(chosen.limits)
            if request is None:
                return False
            result = await partition.compaction.make(partial(self._cleaner.clean, request))
            if self._policy_of(partition) is None:
                # It has changed meanwhile: from then on nothing goes.
                await partition.compaction.remove_outputs()
                return False
            swapped = await partition.compaction.swap(result)
        except (ChildError, StorageError, OSError) as error:
            if partition not in [*self._partitions]:
                # Its replica has left this node meanwhile, with its files.
                return False
            if isinstance(error, CorruptLogError):
                # As a read that finds damage: the replica's owner decides.
                partition.report_damage(error)
            self._failed(partition, reason_of(error))
            # A full disk needs the room now, not at the next start.
            with suppress(StorageError, OSError):
                await partition.compaction.remove_outputs()
            return False
        self._failures.pop(partition.group, None)
        counts = result.counts
        removed = counts.superseded + counts.aborted + counts.keyless + counts.deletes
        self.counts.passes += 1
        self.counts.removed_records += removed
        self.counts.cleaned_bytes += sum(source.size for source in request.sources)
        partition.logger_of(_logger.name).info(
            "compacted up to entry %d: %d of %d records are gone", result.cleaned_to, removed, counts.read
        )
        return swapped > 0

    def _failed(self, partition: Partition, why: str) -> None:
        self.counts.failures += 1
        failures = self._failures.get(partition.group, (0, 0.0))[0] + 1
        self._failures[partition.group] = (failures, asyncio.get_running_loop().time() + _PAUSE_SECONDS)
        logger = partition.logger_of(_logger.name)
        if failures >= _FAILURES_MAX:
            logger.error("compaction has failed %d times, and rests until the broker starts again: %s", failures, why)
        else:
            logger.warning("compaction has failed, and tries again in %g s: %s", _PAUSE_SECONDS, why)
