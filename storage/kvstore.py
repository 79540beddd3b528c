"""The small synced facts of a node: term, vote, cluster, directory id. One store per node (RFC 0002).

`RocksKvStore` keeps them in RocksDB, `MemoryKvStore` in a dict; both pass tests/contract/test_kvstore.py.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from model.error_text import reason_of
from model.fixed_histogram import FixedHistogram
from runtime.environment import Environment
from runtime.gate import Gate
from runtime.open_files import NO_DESCRIPTORS
from runtime.workers import Pool
from storage.errors import KvStoreError

_logger = logging.getLogger("storage")
_DESCRIPTOR_PAUSE = 0.1


class KvStore(Protocol):
    """Keys are strings, values small byte strings (at most VALUE_BYTES_MAX: a write holds the GIL)."""

    def get(self, key: str) -> bytes | None:
        """Return the newest value, synced or not; None if there is none.

        Raises:
            KvStoreError: The value is damaged.
        """
        ...

    def put(self, key: str, value: bytes) -> None:
        """Set a value; durable after a `sync` that was called later.

        Raises:
            KvStoreError: The store has failed.
        """
        ...

    def delete(self, key: str) -> None:
        """Remove a key if it is there; durable like `put`."""
        ...

    def items(self, prefix: str) -> list[tuple[str, bytes]]:
        """Return the pairs whose key begins with `prefix`, in the order of the keys."""
        ...

    async def sync(self) -> None:
        """Make durable what was written before the call. Callers at the same time share one sync.

        Raises:
            KvStoreError: It failed, now or before: what is durable is unknown, and the node must stop.
        """
        ...

    @property
    def syncing_since(self) -> float | None:
        """Loop time at which the oldest sync that has not ended began; None: none is under way."""
        ...

    @property
    def sync_durations(self) -> FixedHistogram:
        """How long the syncs took that have passed, the wait for a thread included."""
        ...

    def call_on_failure(self, listener: Callable[[KvStoreError], None]) -> None:
        """Call `listener` once, in the step in which the store fails: it must not block, and the node must end."""
        ...

    async def close(self) -> None:
        """Sync if possible and release the store. Idempotent."""
        ...


VALUE_BYTES_MAX = 64 * 1024


class SharedSync:
    """One sync job at a time; a caller waits for the first one that begins after its call (group commit).

    Attributes:
        syncing_since: Loop time at which the one under way began, its wait for a thread included; None: none is.
        on_failed: Called once, with the first failure.
        durations: How long those took that have passed.
    """

    def __init__(self, env: Environment, job: Callable[[], None]) -> None:
        self._env = env
        self._job = job
        self._gate = Gate("kvstore")
        self._current: asyncio.Future[None] | None = None
        self._next: asyncio.Future[None] | None = None
        self._error: KvStoreError | None = None
        self._is_closing = False
        self.on_failed: Callable[[KvStoreError], None] = lambda error: None
        self.syncing_since: float | None = None
        self.durations = FixedHistogram()

    async def sync(self) -> None:
        """Run the job, or share the next one.

        Raises:
            KvStoreError: It failed once: no later success can be believed.
        """
        self.check()
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._current is None:
                self._current = self._next
                self._gate.spawn(self._run(), name="sync")
        await asyncio.shield(self._next)
        self.check()

    def check(self) -> None:
        """Raise KvStoreError if a write or a sync has failed."""
        if self._error is not None:
            raise self._error

    def fail(self, error: Exception) -> KvStoreError:
        """Note that a write failed: the store is of no use any more. Returns the error to raise."""
        if self._error is None:
            self._error = KvStoreError(f"the kvstore failed: {reason_of(error)}")
            self.on_failed(self._error)
        return self._error

    async def _insist(self) -> None:
        """Run the job; where the process has no descriptor for it, nothing has been begun, and it is repeated.

        Meanwhile `syncing_since` says how long whoever waits has waited: a leader hands over before it hangs.
        """
        is_said = False
        while True:
            try:
                return await self._env.workers.run(Pool.KVSTORE, self._job)
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS or self._is_closing:
                    raise
                if not is_said:
                    _logger.error("the kvstore waits for a descriptor, raise `ulimit -n`: %s", reason_of(error))
                is_said = True
            await asyncio.sleep(_DESCRIPTOR_PAUSE)

    async def close(self) -> None:
        """Wait for what is under way."""
        self._is_closing = True
        while self._current is not None:
            await asyncio.shield(self._current)
        await self._gate.close()

    async def _run(self) -> None:
        while self._next is not None:
            done, self._next = self._next, None
            self._current = done
            # After a failure nothing is tried again: whoever waits is told so.
            clock = asyncio.get_running_loop().time
            began = self.syncing_since = clock()
            try:
                if self._error is None:
                    await self._insist()
                    self.durations.observe(clock() - began, clock())
            except (OSError, KvStoreError) as error:
                self.fail(error)
            except BaseException as error:
                # This task ends, and nobody may wait for it.
                self.fail(RuntimeError(f"the sync ended: {error!r}"))
                self._current = None
                for waiting in (done, self._next):
                    if waiting is not None:
                        waiting.set_result(None)
                self._next = None
                raise
            finally:
                self.syncing_since = None
            if self._next is None:
                self._current = None
            done.set_result(None)
