"""How long a new coordinator takes until it serves, with 100,000 transactional ids in its partition.

Three brokers, one partition of `__transaction_state`; every hundredth id has an open transaction. The coordinator is
killed. From the moment when another broker is in office, as its event says, until it answers the first request: that of
a new producer with one of the ids, which writes a record.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.cluster import TOPIC, BenchCluster, BenchmarkError, eventually, running_cluster
from benchmarks.compare.transactional import STATE_TOPIC
from benchmarks.compare.verdict import Target, row
from benchmarks.plan import Plan
from benchmarks.wire.connection import WireConnection
from benchmarks.wire.group_member import TRANSACTION_KEY, find_coordinator
from benchmarks.wire.transactor import TV1, add_partitions, added_codes, init_producer, init_request
from kafka_api.protocol.api_keys import ApiKey
from raftka.admin_client import get_json

_IDS, _QUICK_IDS = 100_000, 10_000
_OPEN_EACH = 100
_CONNECTIONS = 64
_ADD = 3
_TIMEOUT_MS = 900_000
_SERVED_SECONDS = 60.0
_POLL_SECONDS = 0.002
# What the log of a new coordinator says when it has looked at all ids.
_LOADED = re.compile(rb"^(\S+)Z .*coordinator of \d+ transactional ids", re.MULTILINE)
_OPTIONS = {"transaction.state.log.num.partitions": "1"}


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return milliseconds from office to the first answer, and from the kill to that, of each kill.

    Raises:
        BenchmarkError: Nobody serves in time.
    """
    count = _QUICK_IDS if plan.is_quick else _IDS
    with running_cluster(data_dir, _OPTIONS) as cluster, cluster.topic(1):
        began = time.perf_counter()
        names = [f"id-{number:06d}" for number in range(count)]
        asyncio.run(_make(cluster.bootstrap, names))
        made_seconds = time.perf_counter() - began
        print(f"   {count:,} ids in {made_seconds:.1f} s", flush=True)
        # Every hundredth is open: the first of them is not one of these.
        kills = [_kill(cluster, names[1 + number]) for number in range(plan.pairs)]
    served, loaded, away = ([each[key] for each in kills] for key in ("served_ms", "loaded_ms", "away_ms"))
    target = Target("<=", 1000, "value")
    what = f"{count:,} transactional ids: from the coordinator's office to the first request served"
    return {
        "what": f"SIGKILL of the coordinator; every {_OPEN_EACH}th id has an open transaction",
        "rows": [
            row(f"{what}, median of {len(kills)} kills", "ms", served, [], target),
            row(f"{what}, the slowest", "ms", [max(served)], [], target),
            row(f"{what[: what.index(':')]}: from office until all are loaded", "ms", loaded),
            row(f"{what[: what.index(':')]}: from the kill to the first request served", "ms", away),
        ],
        "made_seconds": round(made_seconds, 1),
        "kills": kills,
    }


async def _make(bootstrap: str, names: Sequence[str]) -> None:
    """Begin a producer with each of these ids, and a transaction with some."""
    address = await find_coordinator(bootstrap, names[0], TRANSACTION_KEY)
    connections = [await WireConnection.open(address) for _ in range(_CONNECTIONS)]
    left = iter(enumerate(names))

    async def make(connection: WireConnection) -> None:
        for number, name in left:
            identity = await init_producer(connection, name, TV1, _TIMEOUT_MS)
            if number % _OPEN_EACH == 0:
                request = add_partitions(name, identity, [0])
                answer = await connection.call(ApiKey.ADD_PARTITIONS_TO_TXN, _ADD, request)
                if any(added_codes(answer)):
                    raise BenchmarkError(f"a transaction of {name} does not begin: errors {added_codes(answer)}")

    try:
        await asyncio.gather(*map(make, connections))
    finally:
        for connection in connections:
            await connection.close()


def _kill(cluster: BenchCluster, name: str) -> dict[str, Any]:
    """Kill the coordinator, ask the others until one of them serves the id, and start the victim again."""
    before = eventually("somebody coordinates", lambda: _led(cluster))
    victim = int(before["leader"])
    ends = {each.node_id: cluster.folder.log_path(each.node_id).stat().st_size for each in cluster.brokers}
    try:
        node, killed_at, served_at = asyncio.run(_until_served(cluster, victim, name))
        office_at = _office(cluster, node, int(before["term"]))
        loaded_at = eventually("the new coordinator tells of its ids", lambda: _loaded(cluster, node, ends[node]))
    finally:
        cluster.restart(victim)
    eventually("every replica is in sync", lambda: _is_whole(cluster), _SERVED_SECONDS)
    found = {
        "loaded_ms": loaded_at - office_at,
        "served_ms": 1000 * served_at - office_at,
        "away_ms": 1000 * (served_at - killed_at),
    }
    print("   " + ", ".join(f"{name} {value:.1f}" for name, value in found.items()), flush=True)
    return {**found, "victim": victim, "elected": node}


async def _until_served(cluster: BenchCluster, victim: int, name: str) -> tuple[int, float, float]:
    """Return which broker served first, and when (seconds since 1970) the victim was killed and the answer came."""
    others = [each for each in cluster.brokers if each.node_id != victim]
    connections = {each.node_id: await WireConnection.open(each.addresses.kafka) for each in others}
    tasks = {asyncio.create_task(_served(connection, name), name=str(node)) for node, connection in connections.items()}
    try:
        killed_at = time.time()
        await asyncio.to_thread(cluster.kill, victim)
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=_SERVED_SECONDS)
        if not done:
            raise BenchmarkError("no broker serves transactional ids")
        first = done.pop()
        return int(first.get_name()), killed_at, first.result()
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError, BenchmarkError):
                await task
        for connection in connections.values():
            await connection.close()


async def _served(connection: WireConnection, name: str) -> float:
    """Ask a broker until it serves a new producer of the id; return when it did."""
    request = init_request(name, _TIMEOUT_MS)
    while True:
        answer = await connection.call(ApiKey.INIT_PRODUCER_ID, TV1.init, request)
        if not answer.error_code:
            return time.time()
        await asyncio.sleep(_POLL_SECONDS)


def _office(cluster: BenchCluster, node: int, former_term: int) -> float:
    """Return when (ms since 1970) a broker took office as the coordinator, in a later term."""
    broker = next(each for each in cluster.brokers if each.node_id == node)
    _, found = get_json(broker.addresses.admin, "/v1/events?since=1", 10.0)
    moments = [
        each["at_ms"]
        for each in found["events"]
        if each["kind"] == "leader" and each["partition"] == f"{STATE_TOPIC}-0" and each["term"] > former_term
    ]
    if not moments:
        raise BenchmarkError(f"broker {node} does not tell when it took office")
    return float(moments[-1])


def _loaded(cluster: BenchCluster, node: int, since: int) -> float | None:
    """Return when (ms since 1970) a broker had loaded its ids, by its log behind a byte; None: not yet."""
    with cluster.folder.log_path(node).open("rb") as log:
        log.seek(since)
        found = _LOADED.search(log.read())
    if found is None:
        return None
    return 1000 * datetime.fromisoformat(found[1].decode()).replace(tzinfo=UTC).timestamp()


def _led(cluster: BenchCluster) -> dict[str, Any] | None:
    found = cluster.partition(0, STATE_TOPIC)
    return found if found is not None and found["leader"] != -1 else None


def _is_whole(cluster: BenchCluster) -> bool | None:
    """Whether all replicas of the ids, and of the topic, are in sync and at the same place."""
    for topic in (STATE_TOPIC, TOPIC):
        found = cluster.partition(0, topic)
        if found is None or found["leader"] == -1 or len(found["in_sync"]) < len(cluster.brokers):
            return None
    return True
