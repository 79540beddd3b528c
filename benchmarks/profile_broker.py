"""`python -m benchmarks.profile_broker [throughput|latency|transactions]`: where the event loops of brokers are.

Starts three brokers under cProfile (`profiled_process`), writes to a topic of one partition at acks=all, and prints
the functions with the most time of their own in the leader and a follower. `transactions` has eight producers commit
transactions of 100 records of 1 KiB (TV2); the broker that coordinates all of them is watched, too.

The numbers are shares: under cProfile everything is slower, and small functions look dearer than they are.
"""

import argparse
import os
import pstats
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.cluster import TOPIC, BenchCluster, eventually
from benchmarks.compare.transactional import RECORDS, STATE_TOPIC
from benchmarks.load import CountingProducer, latencies
from benchmarks.machine import check_disk
from benchmarks.profiled_process import BEGIN, END
from benchmarks.report import ROOT
from benchmarks.wire.transactions import leaders_of, run_for
from benchmarks.wire.transactor import TV2
from raftka.admin_client import not_ready_reason
from raftka.config_descriptor import config_descriptor
from raftka.dev.cluster_file import BrokerEntry, ClusterFolder, ClusterState
from raftka.dev.launcher import broker_config, prepare_folder
from raftka.dev.ports import PortRequest, choose_addresses
from raftka.dev.process_identity import ProcessIdentity

_RECORDS = 3000
_SECONDS, _SETTLE_SECONDS = 10.0, 2.0
_PRODUCERS = 8
# One partition: one broker coordinates all transactions.
_OPTIONS = {"transactions": {"transaction.state.log.num.partitions": "1"}}
_TOP = 25


def main() -> int:
    """Profile one workload and print the top functions of each broker that is watched."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_broker")
    parser.add_argument("workload", nargs="?", choices=["throughput", "latency", "transactions"], default="throughput")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="that are recorded [default: %(default)g]")
    parser.add_argument("--data-dir", type=Path, default=ROOT / "build" / "benchmarks")
    arguments = parser.parse_args()
    arguments.data_dir.mkdir(parents=True, exist_ok=True)
    check_disk(arguments.data_dir)
    options = _OPTIONS.get(arguments.workload, {})
    observed = observed_cluster(arguments.data_dir, "benchmarks.profiled_process", options)
    with observed as (cluster, stats), cluster.topic(1):
        watched = _watched(cluster, arguments.workload)
        began, records = _record(cluster, arguments.workload, list(watched), arguments.seconds)
        seconds = time.perf_counter() - began
        print(f"{arguments.workload}: {records} records at acks=all in {seconds:.1f} s under cProfile")
        for node, roles in watched.items():
            eventually("the statistics", lambda path=stats[node]: path if _is_complete(path) else None)  # type: ignore[misc]
            print(f"\n== {' and '.join(roles)}")
            _print_top(stats[node], seconds)
    return 0


def _watched(cluster: BenchCluster, workload: str) -> dict[int, list[str]]:
    """Return what each broker is that is watched; the coordinator may lead the partition, too."""
    leader = int(eventually("a leader", cluster.partition)["leader"])
    found = {leader: ["leader"], leader % 3 + 1: ["follower"]}
    if workload == "transactions":
        _commit(cluster, _SETTLE_SECONDS)
        coordinator = int(eventually("a coordinator", lambda: cluster.partition(0, STATE_TOPIC))["leader"])
        found.setdefault(coordinator, []).append("coordinator")
    return found


def _commit(cluster: BenchCluster, seconds: float) -> int:
    """Run transactions for so long; return how many records they had."""
    leaders = leaders_of(cluster.bootstrap, TOPIC)
    return RECORDS * len(run_for(cluster.bootstrap, leaders, TV2, RECORDS, seconds, _PRODUCERS).samples)


def _record(cluster: BenchCluster, workload: str, nodes: list[int], duration: float) -> tuple[float, int]:
    """Run a workload between BEGIN and END; return when it began and how many records there were."""
    pids = cluster.pids
    if workload == "latency":
        latencies(cluster.bootstrap, "all", 0, 200)
        _signal(pids, nodes, BEGIN)
        began = time.perf_counter()
        records = len(latencies(cluster.bootstrap, "all", 0, _RECORDS))
    elif workload == "transactions":
        _signal(pids, nodes, BEGIN)
        began = time.perf_counter()
        records = _commit(cluster, duration)
    else:
        with CountingProducer(cluster.bootstrap, "all") as producer:
            time.sleep(_SETTLE_SECONDS)
            _signal(pids, nodes, BEGIN)
            began, before = time.perf_counter(), producer.acked
            time.sleep(duration)
            records = producer.acked - before
            _signal(pids, nodes, END)
            return began, records
    _signal(pids, nodes, END)
    return began, records


def _signal(pids: dict[int, int], nodes: list[int], number: int) -> None:
    for node in nodes:
        os.kill(pids[node], number)


def _is_complete(path: Path) -> bool:
    try:
        pstats.Stats(str(path))
    except (OSError, EOFError, ValueError, TypeError):
        return False
    return True


def _print_top(path: Path, seconds: float) -> None:
    # (file, line, name) -> (primitive calls, calls, own time, time with callees, callers); without stubs.
    rows: dict[tuple[str, int, str], Any] = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
    total = sum(own for _, _, own, _, _ in rows.values())
    print(f"{'own s':>7} {'own %':>6} {'total s':>8} {'calls':>8}  function ({seconds:.1f} s, {total:.1f} s recorded)")
    for (file, line, name), (_, calls, own, with_callees, _) in sorted(rows.items(), key=lambda row: -row[1][2])[:_TOP]:
        where = f" ({Path(file).parent.name}/{Path(file).name}:{line})" if line else ""
        print(f"{own:7.2f} {100 * own / total:6.1f} {with_callees:8.2f} {calls:>8}  {name}{where}")


@contextmanager
def observed_cluster(
    data_dir: Path, program: str, options: Mapping[str, str] | None = None
) -> Iterator[tuple[BenchCluster, dict[int, Path]]]:
    """Start three brokers by a module of ours that takes --stats; yield the cluster and that file of each node.

    `options` are configuration keys of the brokers; the others have their defaults.
    """
    path = Path(tempfile.mkdtemp(prefix="profile-", dir=data_dir))
    folder = ClusterFolder(path)
    addresses = choose_addresses(3, PortRequest(0, 0, 0))
    brokers = tuple(BrokerEntry(node, each) for node, each in enumerate(addresses, 1))
    state = ClusterState(brokers, ephemeral=False, options=dict(options or {}))
    prepare_folder(folder, state)
    stats = {broker.node_id: folder.node_path(broker.node_id) / "profile.stats" for broker in state.brokers}
    children = []
    try:
        for broker in state.brokers:
            descriptor = config_descriptor(broker_config(folder, state, broker).to_json())
            own = ["--node-id", str(broker.node_id), "--config-fd", str(descriptor)]
            command = [sys.executable, "-u", "-m", program, "--stats", str(stats[broker.node_id]), *own]
            with folder.log_path(broker.node_id).open("ab") as log:
                child = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT, pass_fds=(descriptor,)
                )
            os.close(descriptor)
            children.append(child)
            state = state.with_process(broker.node_id, ProcessIdentity.of(child.pid))
        folder.save(state)
        for broker in state.brokers:
            eventually("a ready broker", lambda at=broker.addresses.admin: not_ready_reason(at) is None or None)  # type: ignore[misc]
        yield BenchCluster(folder), stats
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(30.0)
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
