"""Long requests in short steps: whoever asks for twenty thousand things must not stop the loop while he is answered."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

# The dearest of them, an offset's reading, costs some ten microseconds.
ELEMENTS_PER_STEP = 100


async def in_steps(elements: Iterable[T]) -> AsyncIterator[T]:
    """Yield what a request lists; other tasks run between every hundred, so what was looked up before may be old."""
    for number, each in enumerate(elements, start=1):
        yield each
        if number % ELEMENTS_PER_STEP == 0:
            await asyncio.sleep(0)
