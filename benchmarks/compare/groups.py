"""Consumer groups: rebalances of ten members, alone and beside 99 other groups, and commits."""

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.cluster import TOPIC, BenchmarkError
from benchmarks.compare.match import BrokerCpu, Contender, Measurement, Metrics, play, rivals
from benchmarks.compare.verdict import Target, match_row
from benchmarks.machine import allow_many_files
from benchmarks.plan import Plan
from benchmarks.report import quantile
from benchmarks.wire.connection import WireConnection
from benchmarks.wire.group_member import MeasuredGroup, find_coordinator
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import OffsetCommitRequest
from raftka.kafka.configs import Owner, alter_configs

_MEMBERS = 10
_GROUPS, _QUICK_GROUPS = 100, 10
_FOUNDED_AT_ONCE = 20
_PARTITIONS = 10
_HEARTBEAT_SECONDS = 3.0
_COMMITTERS = 50
_COMMIT_VERSION = 7
_KAFKA_DURABLE = "kafka, flush.messages=1"
_KAFKA_OFFSETS = "__consumer_offsets"

_Sampled = Callable[[str, Plan], Awaitable[Metrics]]


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return milliseconds of rebalances, and commits/s; the CPU of the brokers beside them."""
    allow_many_files()
    groups = _QUICK_GROUPS if plan.is_quick else _GROUPS
    one, many = f"rebalance of a group of {_MEMBERS}", f"rebalance of one of {groups} groups of {_MEMBERS}"
    commits = f"commits of one offset, {_COMMITTERS} clients with one on its way each"
    rows, matches = [], {}
    with rivals(data_dir, plan) as found:
        for what, sampled in ((one, _one_group), (many, _many_groups)):
            print(f"   -- {what}", flush=True)
            match = play(found.both(), _PARTITIONS, plan.pairs, _measurement(sampled, plan))
            matches[what] = match.to_json()
            bound = [Target("<=", 1000, "value")] if sampled is _many_groups else []
            rows.append(match_row(match, f"{what}: p50", "ms", "p50_ms"))
            rows.append(match_row(match, f"{what}: p99", "ms", "p99_ms", *bound))
            rows.append(match_row(match, f"{what}: CPU of the brokers", "% of a core", "cpu_percent"))
        print(f"   -- {commits}", flush=True)
        contenders = [*found.both(), Contender(_KAFKA_DURABLE, found.kafka)]
        match = play(contenders, _PARTITIONS, plan.pairs, _commit_measurement(plan))
        matches[commits] = match.to_json()
        as_shipped = f"{commits}, beside Kafka as shipped"
        for what, peer, asked in ((commits, _KAFKA_DURABLE, [Target(">=", 1.0)]), (as_shipped, "kafka", [])):
            rows.append(match_row(match, what, "/s", "commits_per_second", *asked, theirs=peer))
            rows.append(match_row(match, f"{what}: CPU of the brokers", "% of a core", "cpu_percent", theirs=peer))
    return {
        "what": "a rebalance: all members join at once, until the last of them has its assignment; one group after the "
        f"other, while the members of the rest send a heartbeat every {_HEARTBEAT_SECONDS:g} s. Every member has a "
        "connection of its own, all of them in one Python process, whose time is in the numbers",
        "rows": rows,
        "matches": matches,
    }


def _measurement(sampled: _Sampled, plan: Plan) -> Measurement:
    def run(contender: Contender) -> Metrics:
        cpu = BrokerCpu(contender.cluster)
        cpu.began()
        found = asyncio.run(sampled(contender.cluster.bootstrap, plan))
        cpu.ended()
        return {**found, "cpu_percent": 100 * cpu.seconds / cpu.elapsed, "errors": 0}

    return run


def _commit_measurement(plan: Plan) -> Measurement:
    """As `_measurement`; one contender is Kafka whose topic of offsets fsyncs each batch, as Raftka's does."""
    measured = _measurement(_commits, plan)

    def run(contender: Contender) -> Metrics:
        if contender.label != _KAFKA_DURABLE:
            return measured(contender)
        bootstrap = contender.cluster.bootstrap
        alter_configs(bootstrap, Owner.TOPIC, _KAFKA_OFFSETS, {"flush.messages": "1"})
        try:
            return measured(contender)
        finally:
            alter_configs(bootstrap, Owner.TOPIC, _KAFKA_OFFSETS, {}, ["flush.messages"])

    return run


async def _one_group(bootstrap: str, plan: Plan) -> Metrics:
    async with _founded(bootstrap, 1) as groups:
        return await _rebalances(groups, plan)


async def _many_groups(bootstrap: str, plan: Plan) -> Metrics:
    async with _founded(bootstrap, _QUICK_GROUPS if plan.is_quick else _GROUPS) as groups:
        return await _rebalances(groups, plan)


@asynccontextmanager
async def _founded(bootstrap: str, count: int) -> AsyncIterator[list[MeasuredGroup]]:
    """Hold so many groups, whose members send heartbeats."""
    names = _names("rebalance", count)
    groups: list[MeasuredGroup] = []
    try:
        for begin in range(0, count, _FOUNDED_AT_ONCE):
            part = names[begin : begin + _FOUNDED_AT_ONCE]
            groups += await asyncio.gather(*(MeasuredGroup.founded(bootstrap, name, _MEMBERS) for name in part))
        ended = asyncio.Event()
        beats = asyncio.create_task(_heartbeats(groups, ended))
        try:
            yield groups
        finally:
            if beats.done():
                raise BenchmarkError(f"heartbeats ended: {beats.exception()!r}")
            ended.set()
            await beats
    finally:
        await asyncio.gather(*(each.leave() for each in groups))


async def _heartbeats(groups: Sequence[MeasuredGroup], ended: asyncio.Event) -> None:
    """Every member has its own moment in each interval; those on their way at the end are waited for."""
    members = [member for group in groups for member in group.members]
    began = time.perf_counter()
    async with asyncio.TaskGroup() as under_way:
        for number in itertools.count():
            due = began + number * _HEARTBEAT_SECONDS / len(members)
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), max(0.0, due - time.perf_counter()))
            if ended.is_set():
                return
            under_way.create_task(members[number % len(members)].heartbeat())


async def _rebalances(groups: Sequence[MeasuredGroup], plan: Plan) -> Metrics:
    """Let one group after the other rebalance, and each at least once behind the time to settle."""
    settled = time.perf_counter() + plan.settle_seconds
    number = 0
    while time.perf_counter() < settled:
        await groups[number % len(groups)].rebalance()
        number += 1
    samples: list[float] = []
    end = time.perf_counter() + plan.seconds
    while time.perf_counter() < end or len(samples) < len(groups):
        samples.append(await groups[number % len(groups)].rebalance())
        number += 1
    return {
        "p50_ms": 1000 * quantile(samples, 0.5),
        "p99_ms": 1000 * quantile(samples, 0.99),
        "max_ms": 1000 * max(samples),
        "rebalances": len(samples),
    }


async def _commits(bootstrap: str, plan: Plan) -> Metrics:
    """Simple consumers, which have no members: what is measured is the way of a commit to the disks."""
    names = _names("commits", _COMMITTERS)
    connections = [await WireConnection.open(await find_coordinator(bootstrap, name)) for name in names]
    began = time.perf_counter() + plan.settle_seconds
    try:
        counts = await asyncio.gather(
            *(
                _commit_on(connection, name, number % _PARTITIONS, began, began + plan.seconds)
                for number, (name, connection) in enumerate(zip(names, connections, strict=True))
            )
        )
    finally:
        await asyncio.gather(*(each.close() for each in connections))
    return {"commits_per_second": sum(counts) / plan.seconds}


async def _commit_on(connection: WireConnection, group: str, partition: int, began: float, end: float) -> int:
    """Commit one offset after the other; return how many were answered between these moments."""
    asked = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=partition)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[asked])
    request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=[topic])
    count = 0
    while (now := time.perf_counter()) < end:
        asked.committed_offset += 1
        answer = await connection.call(ApiKey.OFFSET_COMMIT, _COMMIT_VERSION, request)
        if code := answer.topics[0].partitions[0].error_code:
            raise BenchmarkError(f"OffsetCommit: error {code}")
        count += now >= began
    return count


def _names(kind: str, count: int) -> list[str]:
    """Names that no run before has used: what is left of those must not be found."""
    run = os.urandom(4).hex()
    return [f"{kind}-{run}-{number}" for number in range(count)]
