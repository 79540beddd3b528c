"""Whether a log may still write, and where it says so. Once poisoned it stays poisoned: only reads go on."""

import logging

from model.ids import GroupId
from storage.errors import LogPoisonedError
from storage.group_logger import GroupLogger


class LogHealth:
    """Shared by the parts of one log.

    Attributes:
        logger: The owner may put one here that says more of the replica than its group.
    """

    def __init__(self, group: GroupId) -> None:
        self._group = group
        self._poison: LogPoisonedError | None = None
        self.logger: logging.LoggerAdapter[logging.Logger] = GroupLogger(group)

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
        error = LogPoisonedError(f"{self._group}: {why}; this replica stops")
        if self._poison is None:
            self._poison = error
            self.logger.error("%s", error)
        return error
