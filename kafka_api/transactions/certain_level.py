"""The level of `transaction.version` for who would be refused at level 0 (RFC 0021, section 1).

That refusal ends a producer for good. The tables of raft0 here may lag when the level is raised: then this broker would
refuse a producer which another broker has let in already. So the tables first become as new as raft0's leader knows.
"""

import asyncio
from collections.abc import Awaitable, Callable

from cluster.errors import ClusterError
from model.features import TRANSACTION_VERSION

NO_TRANSACTIONS = (
    f"transactions need {TRANSACTION_VERSION} at level 1, and the cluster uses it at level 0: raise it with"
    " `raftka cluster features upgrade` once all brokers have it"
)
NOT_KNOWN = f"raft0's leader does not say at the moment at which level the cluster uses {TRANSACTION_VERSION}"

# A connection serves nothing else while its request waits.
_TIMEOUT = 1.0


class CertainLevel:
    """See the module.

    Args:
        level: The level as this broker has applied it.
        catch_up: Makes raft0's tables here as new as its leader knows, within so many seconds; raises ClusterError
            where that is not certain.
        is_offered: Whether this broker can work above level 0. Otherwise no raise can have passed it by.
    """

    def __init__(
        self, level: Callable[[], int], catch_up: Callable[[float], Awaitable[None]], *, is_offered: bool
    ) -> None:
        self._level = level
        self._catch_up = catch_up
        self._is_offered = is_offered
        # Whoever waits meanwhile shares the next question: each is one confirmation of raft0's leader.
        self._lock = asyncio.Lock()
        self._begun = 0
        self._is_answered = False

    async def ask(self) -> int | None:
        """Return a level that was in force at a moment of this call; None: that is not known now.

        Above 0 what this broker has applied is enough: no level is lowered to 0 again.
        """
        if self._level() or not self._is_offered:
            return self._level()
        is_answered = await self._question()
        return self._level() or (0 if is_answered else None)

    async def _question(self) -> bool:
        begun_before = self._begun
        async with self._lock:
            # One that was under way may be about a moment before this call; one that began behind it is not.
            if self._begun == begun_before:
                self._begun += 1
                self._is_answered = False
                try:
                    await self._catch_up(_TIMEOUT)
                except ClusterError:
                    return False
                self._is_answered = True
            return self._is_answered
