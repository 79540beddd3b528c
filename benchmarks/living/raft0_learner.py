"""Seven brokers without clients: what one that only learns raft0 needs, beside one that votes."""

import time
from pathlib import Path
from typing import Any

from benchmarks.cluster import BenchCluster, eventually, running_cluster
from benchmarks.compare.verdict import row
from benchmarks.living.verbs import raft0_roles
from benchmarks.plan import Plan
from benchmarks.processes import cpu_seconds, rss_megabytes

_NODES, _VOTERS = 7, 5
_REST_SECONDS, _WINDOW_SECONDS = 30.0, 30.0
_QUICK_REST_SECONDS, _QUICK_WINDOW_SECONDS = 2.0, 3.0


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return memory and CPU of each broker, voters beside learners."""
    rest, window = (_QUICK_REST_SECONDS, _QUICK_WINDOW_SECONDS) if plan.is_quick else (_REST_SECONDS, _WINDOW_SECONDS)
    with running_cluster(data_dir, nodes=_NODES) as cluster:
        roles = eventually(f"raft0 has {_VOTERS} voters", lambda: _settled(cluster))
        time.sleep(rest)
        found = _look(cluster, roles, window)
    voters, learners = ([each for each in found if each["raft0"] == role] for role in ("voter", "learner"))
    what = f"idle broker of {_NODES} that only learns raft0"
    rows = [
        row(f"{what}: {name}", unit, [each[key] for each in learners], [each[key] for each in voters], peer="a voter")
        for key, name, unit in (("rss", "resident memory", "MB"), ("cpu", "CPU of one core", "%"))
    ]
    return {
        "what": f"each of {_NODES} brokers without clients and topics, {rest:.0f} s after the start; "
        f"CPU over {window:.0f} s from then; raft0 has {_VOTERS} voters, one of which leads",
        "rows": rows,
        "brokers": found,
    }


def _settled(cluster: BenchCluster) -> dict[int, str] | None:
    roles = raft0_roles(cluster)
    counts = [list(roles.values()).count(role) for role in ("voter", "learner")]
    return roles if counts == [_VOTERS, _NODES - _VOTERS] else None


def _look(cluster: BenchCluster, roles: dict[int, str], seconds: float) -> list[dict[str, Any]]:
    pids = cluster.pids
    before = {node: cpu_seconds(pid) for node, pid in pids.items()}
    began = time.perf_counter()
    time.sleep(seconds)
    elapsed = time.perf_counter() - began
    return [
        {
            "node": node,
            "raft0": roles[node],
            "rss": rss_megabytes(pid),
            "cpu": round(100 * (cpu_seconds(pid) - before[node]) / elapsed, 2),
        }
        for node, pid in pids.items()
    ]
