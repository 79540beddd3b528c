"""What the parts of one log share, as `raft.replica_context` is for the parts of a replica."""

from dataclasses import dataclass

from model.ids import GroupId
from runtime.environment import Environment
from runtime.open_files import OpenFiles
from storage.log_health import LogHealth
from storage.log_jobs import LogJobs
from storage.log_positions import LogPositions
from storage.log_segments import LogSegments
from storage.read_cache import ReadCache
from storage.tail_cache import TailCache


@dataclass(frozen=True, slots=True)
class LogContext:
    """Made by the log, which is the `positions` in it.

    Attributes:
        directory: The log's own.
        positions, segments, tail, read_cache: Its state; they move together, in one step.
        jobs: What runs on workers for it.
        health: Whether it may still write.
    """

    env: Environment
    files: OpenFiles
    directory: str
    group: GroupId
    positions: LogPositions
    segments: LogSegments
    tail: TailCache
    read_cache: ReadCache
    jobs: LogJobs
    health: LogHealth

    def check_usable(self) -> None:
        """Raise what a closed or a poisoned log answers.

        Raises:
            StorageError: `Log.close` has begun.
            LogPoisonedError: The disk failed before.
        """
        self.jobs.check_open()
        self.health.check()
