"""How long it takes until a broker that joins has its first replica, and until a lost disk of 1 GiB is replaced."""

import shutil
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster import TOPIC, BenchCluster, eventually, running_cluster
from benchmarks.compare.verdict import row
from benchmarks.living.verbs import ask, move
from benchmarks.load import VALUE_BYTES, CountingProducer
from benchmarks.plan import Plan
from raftka.dev.membership import add_broker
from raftka.kafka import client as kafka_client

_GIB = 1024**3
_QUICK_BYTES = 64 * 1024**2
_FILL_SECONDS = 600.0
_LINK_SECONDS = 60.0


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return seconds of joins and of replaced disks.

    Raises:
        BenchmarkError: A broker does not come so far.
    """
    size = _QUICK_BYTES if plan.is_quick else _GIB
    with running_cluster(data_dir) as cluster, cluster.topic(1):
        with CountingProducer(cluster.bootstrap, "all") as producer:
            eventually("the partition is filled", lambda: producer.acked * VALUE_BYTES >= size or None, _FILL_SECONDS)
        cluster.wait_in_sync(1)
        replaced = [_replace(cluster) for _ in range(plan.pairs)]
    with running_cluster(data_dir) as cluster, cluster.topic(1):
        joined = [_join(cluster) for _ in range(min(plan.pairs, 3))]
    held = f"{size / _GIB:g} GiB"
    return {
        "what": f"a fourth broker and more join one cluster; a broker of three loses its disk, which holds {held}, "
        "is killed, replaced by the verb of `raftka broker replace`, and started; nothing else is sent",
        "rows": [
            row("broker that joins: from its start until it serves", "s", [each["serves"] for each in joined]),
            row("broker that joins: from its start to its first replica", "s", [each["holds"] for each in joined]),
            row(f"broker with {held} replaced: from its start to 3 replicas in sync", "s", replaced),
        ],
        "joined": joined,
        "replaced": replaced,
    }


def _join(cluster: BenchCluster) -> dict[str, float]:
    """Add a broker and move the partition, which is nearly empty, to it, in place of one that does not lead it."""
    began = time.perf_counter()
    added, _, _ = add_broker(cluster.folder)
    serves = time.perf_counter()
    (now,) = kafka_client.read_cluster(cluster.bootstrap).topic(TOPIC)
    leaves = next(node for node in now.replicas if node != now.leader)
    target = [added.node_id if node == leaves else node for node in now.replicas]
    move(cluster, target)
    eventually("the new broker has its replica", lambda: _in_sync(cluster, target))
    return {"serves": round(serves - began, 2), "holds": round(time.perf_counter() - began, 2)}


def _replace(cluster: BenchCluster) -> float:
    (now,) = kafka_client.read_cluster(cluster.bootstrap).topic(TOPIC)
    node = next(each for each in now.replicas if each != now.leader)
    cluster.kill(node)
    shutil.rmtree(cluster.folder.node_path(node) / "data")
    path = f"/v1/brokers/{node}"
    eventually("the others miss it", lambda: not ask(cluster, path)["alive"] or None, _LINK_SECONDS)
    ask(cluster, f"{path}/retire-directory", {"directory_id": ask(cluster, path)["directory_id"]})
    began = time.perf_counter()
    cluster.restart(node)
    # Not by the in-sync set: it may still hold a replica that is away for less than the lag time.
    cluster.wait_in_sync(1)
    return round(time.perf_counter() - began, 2)


def _in_sync(cluster: BenchCluster, nodes: list[int]) -> bool | None:
    """Whether these brokers, and no others, hold the partition, and all are in sync."""
    (now,) = kafka_client.read_cluster(cluster.bootstrap).topic(TOPIC)
    return (sorted(now.replicas) == sorted(nodes) == sorted(now.in_sync)) or None
