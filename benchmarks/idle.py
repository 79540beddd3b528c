"""What brokers cost that have nothing to do."""

import time
from pathlib import Path
from typing import Any

from benchmarks.cluster import running_cluster
from benchmarks.plan import Plan
from benchmarks.processes import cpu_between, mark_cpu, rss_megabytes

_PARTITIONS = 3


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return memory and CPU of each broker over 20 s, with one topic of 3 partitions."""
    seconds = 5 if plan.is_quick else 20
    with running_cluster(data_dir) as cluster, cluster.topic(_PARTITIONS):
        cluster.wait_in_sync(_PARTITIONS)
        # What creating the topic left behind is none of the idle cost.
        time.sleep(1 if plan.is_quick else 5)
        pids = cluster.pids
        first = mark_cpu(pids)
        time.sleep(seconds)
        shares = cpu_between(first, mark_cpu(pids))
        memory = {str(node): rss_megabytes(pid) for node, pid in pids.items()}
    return {
        "what": f"each of three brokers over {seconds} s without clients, one topic of {_PARTITIONS} partitions",
        "rss_megabytes": memory,
        **shares,
    }
