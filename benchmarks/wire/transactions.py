"""Producers that commit one transaction after the other for a while, and what each transaction took."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from benchmarks.wire.transactor import Protocol, Transactor
from raftka.kafka import client as kafka_client


@dataclass(slots=True)
class Committed:
    """What producers have committed within a window.

    Attributes:
        seconds: From the begin of the window to the last commit.
        samples: Seconds of each transaction, from its begin to the answer to its commit.
        retries: Requests that were sent again, before the window, too.
    """

    seconds: float = 0.0
    samples: list[float] = field(default_factory=list)
    retries: int = 0


def leaders_of(bootstrap: str, topic: str) -> list[str]:
    """Return HOST:PORT of the leader of each partition."""
    cluster = kafka_client.read_cluster(bootstrap)
    return [cluster.brokers[each.leader] for each in cluster.topic(topic)]


@asynccontextmanager
async def transactors(
    bootstrap: str, leaders: Sequence[str], protocol: Protocol, records: int, producers: int = 1
) -> AsyncIterator[list[Transactor]]:
    """Hold producers with transactional ids that nobody has used before."""
    run = os.urandom(4).hex()
    found: list[Transactor] = []
    try:
        for number in range(producers):
            name = f"transactor-{run}-{number}"
            found.append(await Transactor.begun(bootstrap, name, protocol, leaders, records))
        yield found
    finally:
        for each in found:
            await each.close()


async def commit_for(
    found: Sequence[Transactor],
    settle_seconds: float,
    seconds: float,
    began: Callable[[], object] = lambda: None,
    ended: Callable[[], object] = lambda: None,
) -> Committed:
    """Let each producer commit one transaction after the other.

    Args:
        found: The producers.
        settle_seconds: Before the window.
        seconds: Of the window. Each producer begins transactions for so long, and has one at least that ends there.
        began, ended: Called at the edges of the window.
    """
    committed = Committed()
    start = time.perf_counter() + settle_seconds
    end = start + seconds

    async def tell() -> None:
        await asyncio.sleep(start - time.perf_counter())
        began()

    async def commit(transactor: Transactor) -> None:
        before, count = time.perf_counter(), 0
        while before < end or not count:
            await transactor.write()
            await transactor.commit()
            now = time.perf_counter()
            if now >= start:
                committed.samples.append(now - before)
                count += 1
            before = now

    await asyncio.gather(tell(), *map(commit, found))
    ended()
    committed.seconds = time.perf_counter() - start
    committed.retries = sum(each.retries for each in found)
    return committed


def run_for(
    bootstrap: str, leaders: Sequence[str], protocol: Protocol, records: int, seconds: float, producers: int = 1
) -> Committed:
    """Begin producers and let them commit for so long."""

    async def run() -> Committed:
        async with transactors(bootstrap, leaders, protocol, records, producers) as found:
            return await commit_for(found, 0.0, seconds)

    return asyncio.run(run())
