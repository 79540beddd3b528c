"""The work of one log that goes on when its caller is cancelled, and the descriptors that must outlive it.

Writes (appends, truncations, index files) come one after the other, and so, beside them, do saves (snapshots). Reads
and fsyncs run beside both and use the files of the segments they saw. The file of a segment that left the log is closed
once no fsync of the log runs and no read has the file open; a read that has not opened it yet looks again.

Whatever a job raises goes to its caller, and the next one may begin. What nobody foresaw poisons the log where
it was a write, a save or an fsync, and fails that read alone where it was a read; the loop's exception handler gets it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from model.error_text import reason_of
from runtime.environment import Environment
from runtime.gate import Gate, report_contained
from runtime.open_files import NO_DESCRIPTORS
from runtime.workers import HungWorkersError, Pool
from storage.errors import HungReadError, StorageError
from storage.log_health import LogHealth
from storage.segment import Segment

T = TypeVar("T")

# A read of the disk that takes longer is refused, long before clients give a fetch up (30 s).
READ_SECONDS_MAX = 10.0
_INSIST_PAUSE = 0.5


class _Lane:
    """Effects one after the other, each of which goes on when its caller is cancelled."""

    def __init__(self, gate: Gate, name: str, health: LogHealth) -> None:
        self._gate = gate
        self._name = name
        self._health = health
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
            self._end(done, error)
        except Exception as error:  # noqa: BLE001 - told to the caller and to the loop
            self._end(done, _contained(self._health, self._name, error))
        except BaseException:
            self._end(done, StorageError(f"a {self._name} was cancelled"))
            raise
        else:
            self._end(done, None)

    def _end(self, done: asyncio.Future[None], error: Exception | None) -> None:
        self._running = None
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)


def _contained(health: LogHealth, name: str, error: Exception) -> StorageError:
    """Poison the log for a mistake of ours, tell the loop, and return the error for the caller.

    Every replica that applies the same log may make the mistake: it ends this log, and not the process with all others.
    How far the effect came is not known.
    """
    failure = health.poisoned(f"a {name} ended in {error!r}")
    report_contained(f"a {name} of a log failed", error)
    return failure


class LogJobs:
    """See the module. One per log."""

    def __init__(self, env: Environment, name: str, health: LogHealth) -> None:
        self._env = env
        self._name = name
        self._health = health
        self._gate = Gate(f"log {name}")
        self._is_closing = False
        self._writes = _Lane(self._gate, "write", health)
        self._saves = _Lane(self._gate, "save", health)
        # Each is done once nobody need wait for its job any more; it stays here until the job has ended.
        self._uses: dict[asyncio.Future[None], None] = {}
        # Those whose reads were refused, because they hang.
        self._hung: dict[asyncio.Future[None], None] = {}
        # Those that need the handle they began with: a read finds another segment if its file is closed, an fsync none.
        self._fsyncs = 0
        self._retired: list[Segment] = []
        self._closing: asyncio.Future[None] | None = None
        # Ends what others do in the directory of the log, while there is such a thing.
        self._guest: asyncio.Timeout | None = None

    @property
    def hangs(self) -> bool:
        """A read was refused because it hangs, and has not ended; or no job is taken any more."""
        return bool(self._hung) or self._is_closing

    @property
    def is_closing(self) -> bool:
        """No job is taken any more."""
        return self._is_closing

    def check_open(self) -> None:
        """Raise StorageError once `close` has begun."""
        if self._is_closing:
            raise StorageError(f"the log of {self._name} is closed")

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

    def write_here(self, effect: Callable[[], bool]) -> bool:
        """Run `effect` now, on the loop, and return what it returns. No other write may be under way.

        Raises:
            StorageError, OSError: What `effect` raises; a mistake of ours comes as a LogPoisonedError, as in a lane.
        """
        try:
            return effect()
        except (StorageError, OSError):
            raise
        except Exception as error:
            raise _contained(self._health, "write", error) from error

    async def insist(self, pool: Pool, job: Callable[[], T]) -> T:
        """Run a blocking job that cannot be refused any more; without a descriptor it is repeated until there is one.

        `job` may be repeated where it failed. For effects: the lane stays theirs meanwhile.

        Raises:
            OSError: What the job raises; for want of a descriptor only once `close` has begun.
        """
        return await self._insist(lambda: self._env.workers.run(pool, job))

    async def _insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        is_said = False
        while True:
            try:
                return await attempt()
            except HungReadError as error:
                if self._is_closing:
                    raise
                refusal = f"waits for the disk to read: {error}"
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS or self._is_closing:
                    raise
                refusal = f"waits for a descriptor, raise `ulimit -n`: {reason_of(error)}"
            if not is_said:
                self._health.logger.error("%s", refusal)
            is_said = True
            await asyncio.sleep(_INSIST_PAUSE)

    async def saved(self) -> None:
        """Wait until no save is under way; the next one may be begun in the same step."""
        await self._saves.idle()

    async def save(self, effect: Callable[[], Awaitable[None]]) -> None:
        """Like `write`, in the order of saves; `effect` may itself wait for writes and begin one."""
        self.check_open()
        await self._saves.run(effect)

    # -- reads and fsyncs -----------------------------------------------------------------------------------------

    async def read(self, job: Callable[[], T]) -> T:
        """Like `use` in `Pool.READ`, for at most READ_SECONDS_MAX; while one hangs, further ones are refused at once.

        Raises:
            HungReadError: The disk does not answer; what else may be read, and all else, goes on.
        """
        if self._hung:
            raise HungReadError(f"{self._name}: a read of the disk hangs, no other one is begun")
        self.check_open()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        use: asyncio.Future[None] = loop.create_future()

        def give_up() -> None:
            if not answer.done():
                self._health.logger.error("a read of the disk has taken %g s: it is refused", READ_SECONDS_MAX)
                self._hung[use] = None
                use.set_result(None)
                answer.set_exception(HungReadError(f"{self._name}: a read of the disk hangs"))

        deadline = loop.call_later(READ_SECONDS_MAX, give_up)
        try:
            return await self._begin(Pool.READ, job, answer, use)
        finally:
            # A caller that was cancelled leaves a read that may hang: it is looked at all the same.
            if answer.done():
                deadline.cancel()

    async def use(self, pool: Pool, job: Callable[[], T]) -> T:
        """Run a blocking job that reads segment files; a removed one may be closed before the job opens it.

        Raises:
            StorageError, OSError: What the job raises; what nobody foresaw comes as a StorageError.
        """
        self.check_open()
        loop = asyncio.get_running_loop()
        return await self._begin(pool, job, loop.create_future(), loop.create_future())

    async def host(self, work: Callable[[], Awaitable[T]]) -> T:
        """Wait for `work`, which writes files of its own into the directory of the log; one at a time.

        `close` cancels it and waits until it has ended. Otherwise it would write into a directory that is being
        removed, which then stays, and which nobody knows any more once its identity file is gone.

        Raises:
            StorageError: `close` has begun, before or meanwhile.
        """
        self.check_open()
        assert self._guest is None
        use: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._uses[use] = None
        # It never expires by itself.
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._guest = scope
                return await work()
        except TimeoutError:
            if scope.expired():
                self.check_open()
            raise
        finally:
            self._guest = None
            self._end_use(use)

    async def use_here(self, pool: Pool, job: Callable[[], T]) -> T:
        """Like `use`, for a job that fsyncs: no file is closed before it has ended.

        It runs in the caller's own task, which is of this gate: nothing cancels it before `close`.

        Raises:
            StorageError, OSError: What the job raises; what nobody foresaw comes as a StorageError.
        """
        self.check_open()
        use: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._uses[use] = None
        self._fsyncs += 1
        try:
            return await self._work(pool, job)
        finally:
            self._fsyncs -= 1
            self._end_use(use)
            self._close_retired()

    async def use_insisting(self, pool: Pool, job: Callable[[], T]) -> T:
        """Like `use`; refused for want of a descriptor or a thread, it is repeated until `close` has begun.

        Raises:
            StorageError, OSError: What the job raises.
        """
        return await self._insist(lambda: self.use(pool, job))

    async def _begin(self, pool: Pool, job: Callable[[], T], answer: asyncio.Future[T], use: asyncio.Future[None]) -> T:
        answer.add_done_callback(lambda future: future.exception())
        self._uses[use] = None
        self._gate.spawn(self._run(pool, job, answer, use), name=pool.value)
        return await asyncio.shield(answer)

    async def _run(
        self, pool: Pool, job: Callable[[], T], answer: asyncio.Future[T], use: asyncio.Future[None]
    ) -> None:
        failure: Exception = StorageError(f"the log of {self._name} is closed")
        try:
            result = await self._work(pool, job)
        except (StorageError, OSError) as error:
            failure = error
        else:
            if not answer.done():
                answer.set_result(result)
        finally:
            if not answer.done():
                answer.set_exception(failure)
            self._end_use(use)

    async def _work(self, pool: Pool, job: Callable[[], T]) -> T:
        try:
            return await self._env.workers.run(pool, job)
        except HungWorkersError as error:
            raise HungReadError(f"{self._name}: {error}") from error
        except (StorageError, OSError):
            raise
        except Exception as error:
            # Told to the caller and to the loop.
            report_contained(f"a {pool.value} job of a log failed", error)
            raise StorageError(f"{self._name}: a {pool.value} job ended in {error!r}") from error

    def _end_use(self, use: asyncio.Future[None]) -> None:
        del self._uses[use]
        self._hung.pop(use, None)
        if not use.done():
            use.set_result(None)

    def retire(self, segment: Segment) -> None:
        """Close the file of a segment that left the log, as soon as no fsync runs and no read has it open.

        Until then its blocks are not free. A read that has not opened it yet gets FileGoneError.
        """
        self._retired.append(segment)
        self._close_retired()

    def _close_retired(self) -> None:
        if not self._fsyncs and self._retired and self._closing is None and not self._gate.is_closed:
            self._closing = asyncio.get_running_loop().create_future()
            self._gate.spawn(self._close_files(self._closing), name="close")

    async def _close_files(self, done: asyncio.Future[None]) -> None:
        # Closing a deleted file is what frees its blocks: 50 ms and more for each segment, which is not the loop's.
        try:
            while self._retired and not self._fsyncs:
                segment = self._retired.pop()
                try:
                    await self._env.workers.run(Pool.READ, segment.file.close)
                except HungWorkersError:
                    # Not begun: the file is open as before.
                    self._retired.append(segment)
                    if self._is_closing:
                        return
                    await asyncio.sleep(_INSIST_PAUSE)
                except OSError as error:
                    # Nothing in it is needed any more, and its descriptor is gone all the same.
                    self._health.logger.warning("closing removed segment %s: %s", segment.name, reason_of(error))
        finally:
            self._closing = None
            done.set_result(None)

    async def close(self) -> None:
        """Take no more jobs, and wait for those under way but for reads that hang. What it hosts ends. Idempotent."""
        self._is_closing = True
        guest, self._guest = self._guest, None
        if guest is not None:
            guest.reschedule(asyncio.get_running_loop().time())
        await self.saved()
        await self.written()
        while ending := [use for use in self._uses if use not in self._hung]:
            await asyncio.shield(ending[0])
        self._close_retired()
        if self._closing is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READ_SECONDS_MAX):
                    await asyncio.shield(self._closing)
        await self._gate.close()
        if self._retired:
            self._health.logger.warning("%d removed segments stay open: the disk hangs", len(self._retired))
