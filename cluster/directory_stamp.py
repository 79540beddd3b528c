"""Marks a data directory as one that an older version must not open: format 2 of `directory.id` (RFC 0018 section 5).

A version without membership skips entries of kind 2 (configuration) and so takes a replica's former voters for its
voters. It reads format 1 of `directory.id` only. So a broker makes format 2 durable before the first of

    it appends an entry of kind 2, or installs a snapshot that has a configuration     `open_soon`, `is_open`
    it applies level 1 of `raftka.membership`, from raft0's log or from a snapshot     `ensure`
    it is bound to found a cluster at level 1, or writes down that it is in one        `ensure`

Nothing of this happens while the disk refuses or hangs: the stamp is tried again until it succeeds.

The file is replaced first, because that is what a full disk refuses. Nothing has changed then, and the older version
may come back. The record in the kvstore follows. A start after a crash between the two writes the second one. The older
version refuses that state, too, because the two records differ.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from cluster.data_directory import FORMAT_VERSION, STAMPED_FROM, put_record, stored_record, write_record
from model.error_text import reason_of
from model.features import MEMBERSHIP
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
        is_stamped: Whether the stamp is durable in both places. It never goes back.
    """

    def __init__(self, env: Environment, path: str, kvstore: KvStore) -> None:
        """Read what the claimed directory `path` says of itself; what is written goes to that directory alone."""
        self._env = env
        self._path = path
        self._kvstore = kvstore
        self._record = stored_record(kvstore, path)
        self._done = asyncio.Event()
        self._gate = Gate("directory stamp")
        self._is_running = False
        self._listeners: list[Callable[[], object]] = []
        self.is_stamped = self._record.format_version >= STAMPED_FROM
        if self.is_stamped:
            self._done.set()

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Call `listener` once when the stamp has become durable; never if it is already."""
        self._listeners.append(listener)

    @property
    def is_open(self) -> bool:
        """Whether this node may hold configurations."""
        return self.is_stamped

    def open_soon(self) -> None:
        """Begin to stamp, unless it is done or has begun; never waits."""
        if not self.is_stamped and not self._is_running:
            self._is_running = True
            self._gate.spawn(self._run(), name="stamp")

    async def ensure(self) -> None:
        """Return once the stamp is durable.

        It waits as long as the disk refuses or hangs: whoever waits must not go on without it. Cancellation ends the
        wait, not the stamp.
        """
        self.open_soon()
        await self._done.wait()

    async def stop(self) -> None:
        """Begin nothing more. What a thread does already goes to its end."""
        await self._gate.close()

    async def _run(self) -> None:
        reminder = asyncio.get_running_loop().call_later(_REMIND_INTERVAL, self._remind)
        try:
            while True:
                try:
                    await self._stamp()
                    break
                except OSError as error:
                    _logger.warning(
                        "%s cannot be marked as format %d, again in %g s; membership stays as it is until then: %s",
                        *(self._path, FORMAT_VERSION, _RETRY_PAUSE, reason_of(error)),
                    )
                except KvStoreError as error:
                    # No later sync of it can be believed, and the broker ends because of it. Whoever waits goes on
                    # waiting: without the stamp an older version would open what follows.
                    _logger.error("%s cannot be marked as format %d: %s", self._path, FORMAT_VERSION, error)
                    return
                await asyncio.sleep(_RETRY_PAUSE)
        finally:
            reminder.cancel()
            self._is_running = False
        self.is_stamped = True
        self._done.set()
        _logger.info(
            "%s is marked as format %d: versions without %s refuse it from now on",
            *(self._path, FORMAT_VERSION, MEMBERSHIP),
        )
        for listener in self._listeners:
            listener()

    def _remind(self) -> None:
        _logger.warning(
            "the disk has not marked %s as format %d for %g s; membership stays as it is until then",
            *(self._path, FORMAT_VERSION, _REMIND_INTERVAL),
        )

    async def _stamp(self) -> None:
        """Make format 2 durable in both places, the file first (see the module)."""
        record = msgspec.structs.replace(self._record, format_version=FORMAT_VERSION)
        await self._env.workers.run(Pool.APPEND, lambda: write_record(self._env, self._path, record))
        await put_record(self._kvstore, record)
