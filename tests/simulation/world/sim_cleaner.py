"""Passes of log compaction in a simulated run: a broker makes them itself, in one job, where a real one starts a child."""

import asyncio

from runtime.child import ChildError
from runtime.environment import Environment
from runtime.workers import HungWorkersError, Pool
from storage.segment_cleaning import CleaningRequest, CleaningResult, clean

_SECONDS_MAX = 5.0


class SimCleaner:
    """Of one broker's life. What the job does takes no virtual time; until then it waits as any job does.

    A pass that waits for too long is killed, as a child is: its job does nothing any more.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def clean(self, request: CleaningRequest) -> CleaningResult:
        """Make a pass.

        Raises:
            ChildError: It was killed, or not begun.
            CorruptLogError, OSError: As `segment_cleaning.clean`.
        """
        is_killed = False

        def job() -> CleaningResult:
            if is_killed:
                raise ChildError("it was killed")
            return clean(self._environment.files, request)

        try:
            async with asyncio.timeout(_SECONDS_MAX):
                return await self._environment.workers.run(Pool.READ, job)
        except (TimeoutError, HungWorkersError) as error:
            raise ChildError(str(error) or "it took too long") from error
        finally:
            is_killed = True
