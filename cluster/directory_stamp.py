"""Marks a data directory as one that an older version must not open: `directory.id` (RFC 0018 section 5).

The mark, or *stamp*, is the levels of features that a version must have to open the directory. Versions of before a
feature read only the formats of `directory.id` that cannot say its level.

Without `raftka.membership` a version skips entries of kind 2 (configuration) and so takes a replica's former voters for
its voters. So a broker makes level 1 of it durable (format 2) before the first of

    it appends an entry of kind 2, or installs a snapshot that has a configuration     `open_soon`, `is_open`
    it applies level 1 of `raftka.membership`, from raft0's log or from a snapshot     `ensure`
    it is bound to found a cluster at level 1, or writes down that it is in one        `bind`, `ensure`

The last two hold for the levels of all features. Nothing of this happens while the disk refuses or hangs: the stamp is
tried again until it succeeds.

The file is replaced first, because that is what a full disk refuses. Nothing has changed then, and the older version
may come back. The record in the kvstore follows. A start after a crash between the two writes the second one. The older
version refuses that state, too, because the two records differ.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from cluster.data_directory import (
    MEMBERSHIP_LEVELS,
    DirectoryRecord,
    levels_of,
    put_record,
    stored_record,
    with_levels,
    write_record,
)
from cluster.errors import PermanentStartupError
from model.error_text import reason_of
from model.features import MEMBERSHIP, highest_of, lacking
from runtime.environment import Environment
from runtime.gate import Gate
from runtime.workers import Pool
from storage.errors import KvStoreError
from storage.kvstore import KvStore

_logger = logging.getLogger("cluster")

_RETRY_PAUSE = 1.0
# After so long an operator is told what waits for the disk.
_REMIND_INTERVAL = 5.0


class DirectoryStamp:
    """The stamp of one data directory, which this process has claimed and holds. A `raft.ConfigurationGuard`.

    Attributes:
        levels: By feature, above 0, what is durable in both places. Once a cluster is founded no level goes back.
    """

    def __init__(self, env: Environment, path: str, kvstore: KvStore) -> None:
        """Read what the claimed directory `path` says of itself; what is written goes to that directory alone."""
        self._env = env
        self._path = path
        self._kvstore = kvstore
        self._record = stored_record(kvstore, path)
        self._written = asyncio.Event()
        self._gate = Gate("directory stamp")
        self._is_running = False
        self._listeners: list[Callable[[], object]] = []
        self.levels: Mapping[str, int] = levels_of(self._record)
        self._wanted = dict(self.levels)

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Call `listener` once when the stamp of membership has become durable; never if it is already."""
        self._listeners.append(listener)

    @property
    def is_stamped(self) -> bool:
        """Whether versions without membership refuse the directory. It never goes back."""
        return self.covers(MEMBERSHIP_LEVELS)

    def covers(self, levels: Mapping[str, int]) -> bool:
        """Whether versions that lack one of these levels refuse the directory."""
        return not lacking(levels, self.levels)

    def check_version(self, highest: Mapping[str, int]) -> None:
        """Raise PermanentStartupError unless this version, which has `highest`, may open the directory."""
        if missing := lacking(self.levels, highest):
            raise PermanentStartupError(
                f"{self._path} holds what only versions with {', '.join(missing)} can read: start such a version"
            )

    @property
    def is_open(self) -> bool:
        """Whether this node may hold configurations."""
        return self.is_stamped

    def open_soon(self) -> None:
        """Begin to stamp, unless it is done or has begun; never waits."""
        if not self.is_stamped:
            self._begin(highest_of(self._wanted, MEMBERSHIP_LEVELS))

    async def ensure(self, levels: Mapping[str, int] = MEMBERSHIP_LEVELS) -> None:
        """Return once the stamp covers these levels durably.

        It waits as long as the disk refuses or hangs: whoever waits must not go on without it. Cancellation ends the
        wait, not the stamp.
        """
        while not self.covers(levels):
            self._begin(highest_of(self._wanted, levels))
            await self._written.wait()

    async def bind(self, levels: Mapping[str, int]) -> None:
        """As `ensure`, of exactly these levels: for a founder that has not founded a cluster. Membership stays."""
        # F5 of RFC 0018: a seed that goes back below what it was bound to may meet a cluster that was founded at it.
        assert not lacking(MEMBERSHIP_LEVELS, levels) or not self.is_stamped
        while self.levels != levels:
            self._begin(dict(levels))
            await self._written.wait()

    def _begin(self, wanted: dict[str, int]) -> None:
        self._wanted = wanted
        if not self._is_running:
            self._is_running = True
            self._gate.spawn(self._run(), name="stamp")

    async def stop(self) -> None:
        """Begin nothing more. What a thread does already goes to its end."""
        await self._gate.close()

    async def _run(self) -> None:
        reminder = asyncio.get_running_loop().call_later(_REMIND_INTERVAL, self._remind)
        try:
            while self.levels != self._wanted:
                record = with_levels(self._record, self._wanted)
                try:
                    await self._stamp(record)
                    self._note(record)
                    continue
                except OSError as error:
                    _logger.warning(
                        "%s cannot be marked as format %d, again in %g s; no level is raised until then: %s",
                        *(self._path, record.format_version, _RETRY_PAUSE, reason_of(error)),
                    )
                except KvStoreError as error:
                    # No later sync of it can be believed, and the broker ends because of it. Whoever waits goes on
                    # waiting: without the stamp an older version would open what follows.
                    _logger.error("%s cannot be marked as format %d: %s", self._path, record.format_version, error)
                    return
                await asyncio.sleep(_RETRY_PAUSE)
        finally:
            reminder.cancel()
            self._is_running = False

    def _note(self, record: DirectoryRecord) -> None:
        """The stamp is durable."""
        was_stamped = self.is_stamped
        self.levels = levels_of(record)
        written, self._written = self._written, asyncio.Event()
        written.set()
        names = MEMBERSHIP if self.levels == MEMBERSHIP_LEVELS else ", ".join(lacking(self.levels, {}))
        _logger.info(
            "%s is marked as format %d: versions without %s refuse it from now on",
            *(self._path, record.format_version, names),
        )
        for listener in self._listeners if self.is_stamped and not was_stamped else ():
            listener()

    def _remind(self) -> None:
        _logger.warning(
            "the disk has not marked %s as format %d for %g s; no level is raised until then",
            *(self._path, with_levels(self._record, self._wanted).format_version, _REMIND_INTERVAL),
        )

    async def _stamp(self, record: DirectoryRecord) -> None:
        """Make the record durable in both places, the file first (see the module)."""
        await self._env.workers.run(Pool.APPEND, lambda: write_record(self._env, self._path, record))
        await put_record(self._kvstore, record)
