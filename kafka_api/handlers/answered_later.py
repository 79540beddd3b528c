"""Answers that follow when something else has happened; the connection reads its next request meanwhile."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def answer_when_done(result: "T | asyncio.Future[T]", build: Callable[[T], R]) -> "R | asyncio.Future[R]":
    """Return `build` of the result, now or as a future. The result is no error and is not cancelled."""
    if not isinstance(result, asyncio.Future):
        return build(result)
    if result.done():
        return build(result.result())
    answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    def on_done(done: "asyncio.Future[T]") -> None:
        if not answer.done():
            answer.set_result(build(done.result()))

    result.add_done_callback(on_done)
    return answer
