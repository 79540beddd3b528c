"""Owner of background tasks: whoever spawns a task also ends it and waits for it."""

import asyncio
from collections.abc import Coroutine

# In the context of a report: what failed has an owner that has dealt with it, and the process goes on.
CONTAINED = "contained"


def report_contained(message: str, error: BaseException) -> None:
    """Tell the loop's exception handler of a mistake of our own that ended one replica or one request, not the process.

    A broker logs it in full; a simulated run fails, as it does when a background task dies.
    """
    loop = asyncio.get_running_loop()
    loop.call_exception_handler({"message": message, "exception": error, CONTAINED: True})


class Gate:
    """A set of background tasks with one owner.

    * After `close` no task of this gate runs and none can be started.
    * A task that dies of an exception reports it to the loop's exception handler, which ends the process
      (broker) or fails the run (simulator): a background error is never lost.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # A dict keeps insertion order: cancelling in hash order would make simulated runs differ.
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether `close` has begun."""
        return self._closed

    def spawn(self, coroutine: Coroutine[object, object, None], *, name: str) -> None:
        """Run `coroutine` in the background. On a closed gate it is dropped unstarted."""
        if self._closed:
            coroutine.close()
            return
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self._name}/{name}")
        self._tasks[task] = None
        task.add_done_callback(self._reap)

    async def close(self) -> None:
        """Refuse new tasks, cancel the running ones and wait until they have ended."""
        self._closed = True
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _reap(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler(
                {"message": f"background task {task.get_name()} died", "exception": error, "task": task}
            )
