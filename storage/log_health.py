"""Whether a log may still write, and what it reports to its owner; once poisoned it stays poisoned, and reads go on."""

import logging
from collections.abc import Callable

from model.duration_histogram import DurationHistogram
from model.fixed_histogram import FixedHistogram
from storage.errors import CorruptLogError, LogPoisonedError
from storage.group_logger import GroupLogger


class LogHealth:
    """Shared by the parts of the log of that name. The owner may put its own into the attributes.

    Attributes:
        damage_reports: How often damage was reported, of whatever segment.
        logger: One that says more of the replica than its group.
        on_damage: It is told once for each segment that a read finds damaged.
        fsync_durations: Where the time of each fsync is counted; None: nowhere.
        node_fsyncs: The same, for all logs of the node together.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._poison: LogPoisonedError | None = None
        self._damaged: set[str | None] = set()
        self.damage_reports = 0
        self.logger: logging.LoggerAdapter[logging.Logger] = GroupLogger(name)
        self.on_damage: Callable[[CorruptLogError], None] = lambda _: None
        self.fsync_durations: DurationHistogram | None = None
        self.node_fsyncs = FixedHistogram()

    @property
    def is_poisoned(self) -> bool:
        """A write or an fsync failed."""
        return self._poison is not None

    def check(self) -> None:
        """Raise the LogPoisonedError of the first failure, if there was one."""
        if self._poison is not None:
            raise self._poison

    def poisoned(self, why: str) -> LogPoisonedError:
        """Note a failure; return the error to raise."""
        error = LogPoisonedError(f"{self._name}: {why}; this replica stops")
        if self._poison is None:
            self._poison = error
            self.logger.error("%s", error)
        return error

    def report_damage(self, error: CorruptLogError) -> None:
        """A read has found damage that no truncation explains: durable bytes have changed."""
        self.damage_reports += 1
        if error.path not in self._damaged:
            self._damaged.add(error.path)
            self.logger.error("a read found damage: %s", error)
            self.on_damage(error)
