"""Commit to visible: from a commit's request until a reader at read_committed has the transaction's records."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cluster import TOPIC
from benchmarks.compare.match import Contender, Metrics, play
from benchmarks.compare.transactional import KAFKA_DURABLE, RECORDS, contenders, flushed, transactional_rivals
from benchmarks.compare.verdict import Target, match_row
from benchmarks.plan import Plan
from benchmarks.report import quantile
from benchmarks.wire.connection import WireConnection
from benchmarks.wire.transactions import leaders_of, transactors
from benchmarks.wire.transactor import CommittedReader, DisturbedError, Protocol, Transactor

_QUANTILES = {"p50": 0.5, "p99": 0.99}


def by_protocol(protocol: Protocol) -> Callable[[Path, Plan], dict[str, Any]]:
    """Return the benchmark of one protocol."""

    def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
        def run(contender: Contender) -> Metrics:
            with flushed(contender):
                return asyncio.run(_visible(contender, protocol, plan))

        with transactional_rivals(data_dir, plan) as found:
            match = play(contenders(found), 1, plan.pairs, run)
        what = f"commit to visible at read_committed, {RECORDS} x 1 KiB by {protocol.name}"
        rows = []
        for theirs, words, targets in (
            (KAFKA_DURABLE, "", [Target("<=", 1.0)]),
            ("kafka", ", beside Kafka as shipped", []),
        ):
            rows += [
                match_row(match, f"{what}{words}: {name}", "ms", f"{name}_ms", *targets, theirs=theirs)
                for name in _QUANTILES
            ]
        answered = f"{what}: the commit is answered"
        rows += [
            match_row(match, f"{answered}, {name}", "ms", f"answered_{name}_ms", theirs=KAFKA_DURABLE)
            for name in _QUANTILES
        ]
        return {
            "what": "one transaction after the other on one partition with three replicas; the reader's request is "
            "under way when the commit is sent; producer and reader are in one Python process, whose time is in the "
            "numbers",
            "rows": rows,
            "matches": {what: match.to_json()},
        }

    return measure


async def _visible(contender: Contender, protocol: Protocol, plan: Plan) -> Metrics:
    bootstrap = contender.cluster.bootstrap
    visible: list[float] = []
    answered: list[float] = []
    try:
        leaders = leaders_of(bootstrap, TOPIC)
        async with transactors(bootstrap, leaders, protocol, RECORDS) as (transactor,):
            reader = CommittedReader(await WireConnection.open(leaders[0]), 0, 0)
            try:
                await _sample(transactor, reader, plan, visible, answered)
            finally:
                await reader.close()
    except DisturbedError as error:
        print(f"   {contender.label}: {error}", flush=True)
        return {"errors": 1}
    return {
        **{f"{name}_ms": 1000 * quantile(visible, share) for name, share in _QUANTILES.items()},
        **{f"answered_{name}_ms": 1000 * quantile(answered, share) for name, share in _QUANTILES.items()},
        "transactions": len(visible),
        "errors": 0,
    }


async def _sample(
    transactor: Transactor, reader: CommittedReader, plan: Plan, visible: list[float], answered: list[float]
) -> None:
    start = time.perf_counter() + plan.settle_seconds
    end = start + plan.seconds
    while (now := time.perf_counter()) < end or not visible:
        ends = await transactor.write()
        sent = time.perf_counter()
        told, seen = await asyncio.gather(_commit(transactor), reader.until(ends[0]))
        if now >= start:
            visible.append(seen - sent)
            answered.append(told - sent)


async def _commit(transactor: Transactor) -> float:
    """Commit; return when it was answered (perf_counter)."""
    await transactor.commit()
    return time.perf_counter()
