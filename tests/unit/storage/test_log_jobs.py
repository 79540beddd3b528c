"""What becomes of the files of segments that left the log."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.environment import system_environment
from storage.log_jobs import LogJobs


class _BrokenFile:
    def close(self) -> None:
        raise OSError(5, "Input/output error")


def test_a_removed_segment_that_cannot_be_closed_is_logged_and_holds_up_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        env = system_environment()
        jobs = LogJobs(env, "0123-7")
        for name in ("one", "two"):
            segment: Any = SimpleNamespace(name=name, file=_BrokenFile())
            jobs.retire(segment)
        async with asyncio.timeout(10):
            await jobs.close()
        env.workers.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == [
        f"[0123-7] closing removed segment {name}: [Errno 5] Input/output error" for name in ("two", "one")
    ]
