"""Appends that hang while a file exists, and nothing else that does."""

import asyncio
import threading
from pathlib import Path

from runtime.injected_hangs import HangingWorkers
from runtime.workers import Pool


def test_no_append_begins_while_the_file_exists_and_all_else_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        file, begun = tmp_path / "hang", threading.Event()
        workers = HangingWorkers(str(file))
        ran: list[str] = []
        assert workers.run_now(lambda: ran.append("now"))
        file.touch()
        append = asyncio.ensure_future(workers.run(Pool.APPEND, begun.set))
        assert not workers.run_now(lambda: ran.append("never"))
        for pool in (Pool.FSYNC, Pool.READ, Pool.KVSTORE, Pool.WATCH):
            await workers.run(pool, lambda: ran.append("other"))
        assert not begun.is_set()
        file.unlink()
        await append
        assert begun.is_set()
        assert ran == ["now", *["other"] * 4]
        workers.close()

    asyncio.run(scenario())
