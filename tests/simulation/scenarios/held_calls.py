"""A call of a broker that does not get further until the script lets it: its loop is busy, or the network is slow."""

import asyncio
from typing import Any

from tests.simulation.scenarios.scenario import Scenario


class HeldCalls:
    """Holds up every call of a coroutine method of one object until `let_go`.

    Args:
        story: The scenario.
        node_id: The broker whose object it is.
        owner: The object.
        name: Of the method.
        is_done_first: The call takes effect, and only what follows it waits.

    Attributes:
        count: How many calls have come so far, or have taken effect.
    """

    def __init__(self, story: Scenario, node_id: int, owner: Any, name: str, *, is_done_first: bool = False) -> None:
        self._loop = story.machine(node_id).loop
        self._free = asyncio.Event()
        self.count = 0
        real = getattr(owner, name)

        async def held(*args: Any) -> Any:
            if is_done_first:
                result = await real(*args)
                self.count += 1
                await self._free.wait()
                return result
            self.count += 1
            await self._free.wait()
            return await real(*args)

        setattr(owner, name, held)

    def let_go(self) -> None:
        """Let what waits go on, and hold up nothing more."""
        self._loop.post(self._free.set)
