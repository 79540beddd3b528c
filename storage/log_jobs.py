"""The work of one log that goes on when its caller is cancelled, and the descriptors that must outlive it.

Writes (appends, truncations, index files) come one after the other, and so, beside them, do saves (snapshots). Reads
and fsyncs run beside both and use the files of the segments they saw: such a file is not closed before they have
ended, even if it was truncated away.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from runtime.environment import Environment
from runtime.gate import Gate
from runtime.workers import Pool
from storage.errors import StorageError
from storage.segment import Segment

T = TypeVar("T")
_logger = logging.getLogger("storage")


class _Lane:
    """Effects one after the other, each of which goes on when its caller is cancelled."""

    def __init__(self, gate: Gate, name: str) -> None:
        self._gate = gate
        self._name = name
        self._running: asyncio.Future[None] | None = None

    async def idle(self) -> None:
        """Wait until none is under way; the next one may be begun in the same step."""
        while self._running is not None:
            with contextlib.suppress(StorageError, OSError):  # Its own caller is told.
                await asyncio.shield(self._running)

    async def run(self, effect: Callable[[], Awaitable[None]]) -> None:
        """Run one; none may be under way."""
        assert self._running is None
        done = self._running = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda future: future.exception())
        self._gate.spawn(self._complete(effect, done), name=self._name)
        await asyncio.shield(done)

    async def _complete(self, effect: Callable[[], Awaitable[None]], done: asyncio.Future[None]) -> None:
        try:
            await effect()
        except (StorageError, OSError) as error:
            self._running = None
            done.set_exception(error)
        else:
            self._running = None
            done.set_result(None)


class LogJobs:
    """See the module. One per log."""

    def __init__(self, env: Environment, group: str) -> None:
        self._env = env
        self._group = group
        self._gate = Gate(f"log {group}")
        self._is_closing = False
        self._writes = _Lane(self._gate, "write")
        self._saves = _Lane(self._gate, "save")
        self._uses: dict[asyncio.Future[None], None] = {}
        self._retired: list[Segment] = []
        self._closing: asyncio.Future[None] | None = None

    @property
    def is_closing(self) -> bool:
        """No job is taken any more."""
        return self._is_closing

    def check_open(self) -> None:
        """Raise StorageError once `close` has begun."""
        if self._is_closing:
            raise StorageError(f"the log of {self._group} is closed")

    def spawn(self, coroutine: Coroutine[object, object, None], *, name: str) -> None:
        """Run in the background until `close`."""
        self._gate.spawn(coroutine, name=name)

    # -- writes and saves -----------------------------------------------------------------------------------------

    async def written(self) -> None:
        """Wait until no write is under way; the next one may be begun in the same step."""
        await self._writes.idle()

    async def write(self, effect: Callable[[], Awaitable[None]]) -> None:
        """Run `effect` to its end even if the caller is cancelled. No other write may be under way.

        Raises:
            StorageError, OSError: What `effect` raises.
        """
        self.check_open()
        await self._writes.run(effect)

    async def saved(self) -> None:
        """Wait until no save is under way; the next one may be begun in the same step."""
        await self._saves.idle()

    async def save(self, effect: Callable[[], Awaitable[None]]) -> None:
        """Like `write`, in the order of saves; `effect` may itself wait for writes and begin one."""
        self.check_open()
        await self._saves.run(effect)

    # -- reads and fsyncs -----------------------------------------------------------------------------------------

    async def use(self, pool: Pool, job: Callable[[], T]) -> T:
        """Run a blocking job that reads or fsyncs segment files; none of them is closed before it has ended.

        Raises:
            StorageError, OSError: What the job raises.
        """
        self.check_open()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        answer.add_done_callback(lambda future: future.exception())
        use: asyncio.Future[None] = loop.create_future()
        self._uses[use] = None
        self._gate.spawn(self._run(pool, job, answer, use), name=pool.value)
        return await asyncio.shield(answer)

    async def _run(
        self, pool: Pool, job: Callable[[], T], answer: asyncio.Future[T], use: asyncio.Future[None]
    ) -> None:
        try:
            result = await self._env.workers.run(pool, job)
        except (StorageError, OSError) as error:
            answer.set_exception(error)
        else:
            answer.set_result(result)
        del self._uses[use]
        use.set_result(None)
        self._close_retired()

    def retire(self, segment: Segment) -> None:
        """Close the file of a segment that left the log, as soon as nobody uses it."""
        self._retired.append(segment)
        self._close_retired()

    def _close_retired(self) -> None:
        if not self._uses and self._retired and self._closing is None:
            self._closing = asyncio.get_running_loop().create_future()
            self._gate.spawn(self._close_files(self._closing), name="close")

    async def _close_files(self, done: asyncio.Future[None]) -> None:
        # Closing a deleted file is what frees its blocks: 50 ms and more for each segment, which is not the loop's.
        try:
            while self._retired and not self._uses:
                segment = self._retired.pop()
                try:
                    await self._env.workers.run(Pool.READ, segment.file.close)
                except OSError as error:
                    # Nothing in it is needed any more, and its descriptor is gone all the same.
                    _logger.warning("[%s] closing removed segment %s: %s", self._group, segment.name, error)
        finally:
            self._closing = None
            done.set_result(None)

    async def close(self) -> None:
        """Take no more jobs and wait for those under way. Idempotent."""
        self._is_closing = True
        await self.saved()
        await self.written()
        while self._uses:
            await asyncio.shield(next(iter(self._uses)))
        self._close_retired()
        if self._closing is not None:
            await asyncio.shield(self._closing)
        await self._gate.close()
