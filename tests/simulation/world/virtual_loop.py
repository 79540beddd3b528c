"""One asyncio loop per node over one shared virtual clock: no selector, no threads, no sleeping."""

import asyncio
import contextvars
import itertools
import math
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from heapq import heapify, heappop, heappush
from typing import Any

ExceptionHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]

_HANDLES_PER_INSTANT = 1_000_000
# A stubborn coroutine that awaits in `finally` is closed again this often before it is left to its fate.
_CLOSE_ATTEMPTS = 100


class LivelockError(RuntimeError):
    """Too many handles ran without time passing."""


class Entry(asyncio.TimerHandle):
    """A callback of a loop, or of the world itself (loop None)."""

    __slots__ = ()

    # Not the inherited one: it formats reprs and asks for debug mode, once for every event.
    def __init__(
        self,
        loop: "VirtualLoop | None",
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context,
        when: float,
    ) -> None:
        self._loop: VirtualLoop | None = loop
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._context = context
        self._when = when
        self._scheduled = False
        self._cancelled = False
        self._repr = None
        self._source_traceback = None

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = None
            self._args = ()
            if self._scheduled and self._loop is not None:
                self._loop.scheduler.timer_cancelled()


class Scheduler:
    """The virtual clock and all that is due, in the order (time, sequence); ready handles are FIFO.

    `stopped` ends `run` after the current instant; `observers` are called at the end of every instant.
    """

    def __init__(self) -> None:
        self.time = 0.0
        self.stopped = False
        self.handles_run = 0
        self.observers: list[Callable[[], None]] = []
        self.ready: deque[Entry] = deque()
        self._heap: list[tuple[float, int, Entry]] = []
        self.task_numbers = itertools.count(1)
        self._sequence = itertools.count()
        self._cancelled = 0
        self._context = contextvars.Context()

    def at(self, when: float, callback: Callable[..., object], *args: Any) -> Entry:
        """Call `callback` outside any node at virtual second `when`."""
        entry = Entry(None, callback, args, self._context, when)
        self.push(entry, when)
        return entry

    def push(self, entry: Entry, when: float) -> None:
        """Make `entry` due at virtual second `when` (now, if that is past)."""
        entry._scheduled = True
        heappush(self._heap, (when, next(self._sequence), entry))

    def timer_cancelled(self) -> None:
        """Count a dead timer; rebuild the heap once they are most of it."""
        self._cancelled += 1
        if self._cancelled > 512 and self._cancelled * 2 > len(self._heap):
            self._heap = [item for item in self._heap if not item[2]._cancelled]
            heapify(self._heap)
            self._cancelled = 0

    def clear(self) -> None:
        """Forget all that is due."""
        self.ready.clear()
        self._heap.clear()

    def run(self, until: float, goal: Callable[[], bool] | None = None) -> bool:
        """Run up to and including virtual second `until`, or until `goal` holds at the end of an instant.

        Returns whether the goal (without one: `until`) was reached; False after `stopped`.

        Raises:
            LivelockError: 1,000,000 handles ran without time passing.
        """
        try:
            while True:
                self._run_ready()
                for observer in self.observers:
                    observer()
                if self.stopped:
                    return False
                if goal is not None and goal():
                    return True
                if not self._advance(until):
                    self.time = max(self.time, until)
                    return goal is None
        finally:
            asyncio._set_running_loop(None)

    def _run_ready(self) -> None:
        ready = self.ready
        set_running_loop = asyncio._set_running_loop
        # A foreign marker: whatever loop the caller left set, the first handle sets its own.
        current: object = self
        count = 0
        while ready:
            entry = ready.popleft()
            if entry._cancelled:
                continue
            loop = entry._loop
            if loop is not current:
                if loop is not None and loop.blocked:
                    loop.park(entry)
                    continue
                set_running_loop(loop)
                current = loop
                if loop is not None:
                    loop.has_run = True
            elif loop is not None and loop.blocked:
                loop.park(entry)
                continue
            count += 1
            if count > _HANDLES_PER_INSTANT:
                raise LivelockError(f"{count} handles at {self.time}; next is {_name_of(entry._callback)}")
            if loop is None:
                entry._context.run(entry._callback, *entry._args)  # type: ignore[arg-type]
            else:
                loop.run_entry(entry)
        self.handles_run += count
        set_running_loop(None)

    def _advance(self, until: float) -> bool:
        """Make ready what is due next, at one instant; False if that is after `until`."""
        heap, ready, now = self._heap, self.ready, self.time
        while heap:
            when, _, entry = heap[0]
            if entry._cancelled:
                self._cancelled = max(0, self._cancelled - 1)
            else:
                if when > now:
                    if ready or when > until:
                        break
                    now = self.time = when
                ready.append(entry)
            heappop(heap)
            entry._scheduled = False
        return bool(ready)


class SimTask(asyncio.Task[Any]):
    """A task whose hash is its number: sets of tasks (TaskGroup) then iterate in the same order in every run."""

    def __init__(self, coro: Any, *, number: int, **options: Any) -> None:
        # First of all: asyncio hashes the task while it initialises it.
        self.number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class VirtualLoop(asyncio.AbstractEventLoop):
    """The event loop of one process of one node.

    `offset`: virtual seconds by which this node's monotonic clock is ahead of the world's.
    `on_failure(context)`: called for what no handler took; `context` as for `call_exception_handler`.
    """

    def __init__(self, scheduler: Scheduler, on_failure: Callable[[dict[str, Any]], None], offset: float = 0.0) -> None:
        self.scheduler = scheduler
        self.offset = offset
        self.dead = False
        self.paused = False
        # Set whenever it has run; who looks at what has changed clears it.
        self.has_run = True
        # dead or paused, in one flag: it is read for every handle.
        self.blocked = False
        self._threads_run = False
        self._on_failure = on_failure
        self._handler: ExceptionHandler | None = None
        self._parked: list[Entry] = []
        self._graveyard: list[asyncio.Task[Any]] = []
        self._context = contextvars.Context()

    def time(self) -> float:
        return self.scheduler.time + self.offset

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Entry:
        if context is None:
            context = contextvars.copy_context()
        entry = Entry(self, callback, args, context, self.scheduler.time)
        if self.dead:
            entry._cancelled = True
        else:
            self.scheduler.ready.append(entry)
        return entry

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Entry:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Entry:
        if context is None:
            context = contextvars.copy_context()
        entry = Entry(self, callback, args, context, when)
        if self.dead:
            entry._cancelled = True
            return entry
        due = when - self.offset
        # Rounding must not fire a timer at an instant that this node's clock shows as earlier.
        while due + self.offset < when:
            due = math.nextafter(due, math.inf)
        self.scheduler.push(entry, due)
        return entry

    def post(self, callback: Callable[..., object], *args: Any) -> None:
        """Call from outside (network, disk) into this process: parked while paused, dropped once dead."""
        if not self.dead:
            self.scheduler.ready.append(Entry(self, callback, args, self._context, self.scheduler.time))

    def post_at(self, when: float, callback: Callable[..., object], *args: Any) -> None:
        """As `post`, at virtual second `when` of the world's clock."""
        if not self.dead:
            self.scheduler.push(Entry(self, callback, args, self._context, when), when)

    def post_to_thread_at(self, when: float, callback: Callable[..., object], *args: Any) -> None:
        """As `post_at`, into a thread: a loop that stands still does not hold it up."""

        def run() -> None:
            if self.paused and not self._threads_run:
                self.post(callback, *args)
            elif not self.dead:
                callback(*args)

        self.scheduler.at(when, run)

    def run_entry(self, entry: Entry) -> None:
        """Run one handle; what it raises goes to the exception handler."""
        try:
            entry._context.run(entry._callback, *entry._args)  # type: ignore[arg-type]
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio's Handle does
            self.call_exception_handler({"message": f"exception in {_name_of(entry._callback)}", "exception": error})

    def park(self, entry: Entry) -> None:
        """Keep a handle of a paused process for later; a dead one's is dropped."""
        if not self.dead:
            self._parked.append(entry)

    def pause(self, *, threads_run: bool = False) -> None:
        """SIGSTOP: nothing runs until `resume`; time goes on. Only the loop stands still where `threads_run`."""
        if not self.dead:
            self.paused = self.blocked = True
            self._threads_run = threads_run

    def resume(self) -> None:
        """SIGCONT: what came due meanwhile runs now, in order."""
        if self.paused and not self.dead:
            self.paused = self.blocked = False
            self.scheduler.ready.extend(self._parked)
            self._parked.clear()

    def kill(self) -> None:
        """SIGKILL: no task runs again, not even its `finally`; the tasks are kept until `bury`."""
        if self.dead:
            return
        self.dead = self.blocked = True
        self._parked.clear()
        self._graveyard = sorted(asyncio.all_tasks(self), key=hash)
        for task in self._graveyard:
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def bury(self) -> None:
        """Close the dead tasks' coroutines. Call it when the run is over: now `finally` blocks do run.

        They find a loop that takes no call and an environment that is dead.
        """
        assert self.dead
        asyncio._set_running_loop(self)
        try:
            while self._graveyard:
                coroutine = self._graveyard.pop().get_coro()
                if coroutine is not None:
                    _close_silently(coroutine)
        finally:
            asyncio._set_running_loop(None)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        number = next(self.scheduler.task_numbers)
        task = SimTask(coro, number=number, loop=self, name=name or f"task-{number}", context=context)
        if self.dead:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self._graveyard.append(task)
        return task

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        self._handler = handler

    def get_exception_handler(self) -> ExceptionHandler | None:
        return self._handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self._on_failure(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.dead:
            return
        if self._handler is not None:
            self._handler(self, context)
        else:
            self._on_failure(context)

    def is_running(self) -> bool:
        return not self.dead

    def is_closed(self) -> bool:
        return self.dead

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        pass

    def close(self) -> None:
        pass

    async def shutdown_asyncgens(self) -> None:
        pass

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        pass


def _name_of(callback: Callable[..., object] | None) -> str:
    """Return what a callback is called: its repr would hold an address, which is another one in every process."""
    function = getattr(callback, "func", callback)
    return getattr(function, "__qualname__", type(function).__qualname__)


def _close_silently(coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any]) -> None:
    for _ in range(_CLOSE_ATTEMPTS):
        try:
            coroutine.close()
        except BaseException:  # noqa: BLE001 - a dead process's last words are nobody's business
            continue
        return
