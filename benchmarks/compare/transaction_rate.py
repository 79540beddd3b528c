"""Transactions/s of 100 records of 1 KiB, by one protocol, on 1 or 10 partitions."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cluster import TOPIC
from benchmarks.compare.match import BrokerCpu, Contender, Metrics, play
from benchmarks.compare.transactional import KAFKA_DURABLE, RECORDS, contenders, flushed, transactional_rivals
from benchmarks.compare.verdict import Target, match_row
from benchmarks.plan import Plan
from benchmarks.report import quantile
from benchmarks.wire.transactions import commit_for, leaders_of, transactors
from benchmarks.wire.transactor import DisturbedError, Protocol

_TARGET = Target(">=", 1.0)


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured; `targets` are those beside Kafka that fsyncs each batch."""

    protocol: Protocol
    partitions: int
    producers: int = 1
    targets: tuple[Target, ...] = (_TARGET,)

    @property
    def what(self) -> str:
        """Names its rows."""
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        producers = "" if self.producers == 1 else f", {self.producers} producers"
        return f"transactions of {RECORDS} x 1 KiB by {self.protocol.name}, {partitions}{producers}"


def of_case(case: Case) -> Callable[[Path, Plan], dict[str, Any]]:
    """Return the benchmark of one case."""

    def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
        def run(contender: Contender) -> Metrics:
            with flushed(contender):
                return asyncio.run(_rate(contender, case, plan))

        with transactional_rivals(data_dir, plan) as found:
            match = play(contenders(found), case.partitions, plan.pairs, run)
        rows = []
        for theirs, words, targets in ((KAFKA_DURABLE, "", case.targets), ("kafka", ", beside Kafka as shipped", ())):
            what = f"{case.what}{words}"
            rows.append(match_row(match, what, "/s", "transactions_per_second", *targets, theirs=theirs))
            cpu = "cpu_ms_per_transaction"
            rows.append(match_row(match, f"{what}: CPU of the brokers", "ms each", cpu, theirs=theirs))
        return {
            "what": f"each producer commits one transaction after the other, {RECORDS // case.partitions} random "
            "values for each partition, three replicas; a client of a few lines in Python, the same beside every "
            "broker, that waits 20 ms before it asks again while the last transaction is not complete",
            "rows": rows,
            "matches": {case.what: match.to_json()},
        }

    return measure


async def _rate(contender: Contender, case: Case, plan: Plan) -> Metrics:
    bootstrap = contender.cluster.bootstrap
    cpu = BrokerCpu(contender.cluster)
    try:
        leaders = leaders_of(bootstrap, TOPIC)
        async with transactors(bootstrap, leaders, case.protocol, RECORDS, case.producers) as found:
            committed = await commit_for(found, plan.settle_seconds, plan.seconds, cpu.began, cpu.ended)
    except DisturbedError as error:
        print(f"   {contender.label}: {error}", flush=True)
        return {"errors": 1}
    samples = committed.samples
    return {
        "transactions_per_second": len(samples) / committed.seconds,
        "p50_ms": 1000 * quantile(samples, 0.5),
        "p99_ms": 1000 * quantile(samples, 0.99),
        "cpu_ms_per_transaction": 1000 * cpu.seconds / len(samples),
        "retries": committed.retries,
        "errors": 0,
    }
