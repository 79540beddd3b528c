"""One run: a cluster, a workload, a nemesis, and the verdict on what clients saw."""

import sys
import time
from contextlib import ExitStack
from pathlib import Path

from raftka.chaos.cluster import ChaosCluster
from raftka.chaos.compacted_workload import VALUE_BYTES as COMPACTED_VALUE_BYTES
from raftka.chaos.compacted_workload import CompactedWorkload
from raftka.chaos.compaction_watch import CompactionWatch
from raftka.chaos.dead_threads import DeadThreads
from raftka.chaos.errors import ChaosError
from raftka.chaos.history import History, now_ns
from raftka.chaos.interruption import GivenUpError, Interruption
from raftka.chaos.judgement import judge
from raftka.chaos.load import VALUE_BYTES
from raftka.chaos.log_workload import LogWorkload
from raftka.chaos.nemesis import Nemesis
from raftka.chaos.network_namespace import NetworkNamespace, NetworkNamespaceError, own_network
from raftka.chaos.register_workload import RegisterWorkload
from raftka.chaos.run_facts import Judgement, RunFacts, RunRequest
from raftka.chaos.run_folder import clear_folder, prepare_folder
from raftka.chaos.small_disks import leave_shared_mounts
from raftka.chaos.transaction_workload import TransactionWorkload
from raftka.chaos.workload import Workload
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError, NoBrokerError

_WELL_SECONDS = 120.0
_WELL_POLL = 0.5
_LOOK_SECONDS = 0.2
_SWITCH_SECONDS = 0.0005
_REPLICAS_MAX = 3
# A small disk: what a run writes, by its rate and length, and room to be filled.
_DISK_MARGIN = 192 * 1024 * 1024
_RECORD_OVERHEAD = 250
# Passes follow each other as fast as there is something to compact.
COMPACTION_OPTIONS = "log.cleaner.backoff.ms = 100\nlog.cleaner.io.max.bytes.per.second = 0\n"


def carry_out(request: RunRequest) -> Judgement:
    """Do it all, and leave history, schedule, logs, verdict, summary and report in the run's folder.

    Raises:
        ChaosError: It could not be done; where nothing was done, nothing is left.
        KafkaClientError: There is no cluster to work on.
    """
    prepare_folder(request.out)
    # Clients are threads: with the default of 5 ms each would wait longer for the others than for a broker.
    sys.setswitchinterval(_SWITCH_SECONDS)
    request.schedule.save(request.out / "schedule.json")
    history = History(request.out / "history.jsonl")
    interruption = Interruption()
    try:
        with interruption.by_signals(), DeadThreads() as dead, ExitStack() as stack:
            stack.enter_context(history)
            if request.bootstrap is not None:
                facts, workload = _run_workload(stack, request, history, interruption)
                logs: dict[int, Path] = {}
            else:
                facts, workload, logs = _run_cluster(stack, request, history, interruption)
    except (ChaosError, KafkaClientError):
        if not history.counts:
            clear_folder(request.out)
        raise
    facts.problems += dead.problems
    return judge(request, history, facts, workload, logs)


def _workload(request: RunRequest, bootstrap: str, history: History, replicas: int) -> Workload:
    seed = request.schedule.seed
    if request.workload == "register":
        return RegisterWorkload(bootstrap, history, seed, request.rate, replicas)
    if request.workload == "txn":
        return TransactionWorkload(bootstrap, history, seed, request.rate, replicas)
    is_raftka = request.bootstrap is None
    kind = CompactedWorkload if request.workload == "compacted" else LogWorkload
    return kind(bootstrap, history, seed, request.rate, request.acks, replicas, is_raftka=is_raftka)


def _run_workload(
    stack: ExitStack, request: RunRequest, history: History, interruption: Interruption
) -> tuple[RunFacts, Workload]:
    """Work on a cluster that is there; nothing is done to it but what clients do."""
    assert request.bootstrap is not None
    try:
        found = kafka_client.read_cluster(request.bootstrap)
    except NoBrokerError as error:
        raise ChaosError(f"{error.what} (--bootstrap names others)") from error
    bootstrap = ",".join(found.brokers.values()) or request.bootstrap
    workload = stack.enter_context(_workload(request, bootstrap, history, min(_REPLICAS_MAX, len(found.brokers))))
    facts = RunFacts(now_ns())
    workload.start()
    deadline = time.monotonic() + request.schedule.seconds
    while time.monotonic() < deadline and not interruption.ends_load.wait(_LOOK_SECONDS):
        _tell(history)
    _finish(request, workload, facts, None, interruption)
    return facts, workload


def _run_cluster(
    stack: ExitStack, request: RunRequest, history: History, interruption: Interruption
) -> tuple[RunFacts, Workload, dict[int, Path]]:
    """Make a cluster, work on it, and do to it what the schedule says."""
    try:
        network: NetworkNamespace = stack.enter_context(own_network())
    except NetworkNamespaceError as error:
        raise ChaosError(f"no network of the run's own, in which links can be cut: {error}") from error
    disk_bytes = None
    if "disk" in request.nemeses:
        leave_shared_mounts()
        size = COMPACTED_VALUE_BYTES if request.workload == "compacted" else VALUE_BYTES
        written = request.schedule.seconds * request.rate * (size + _RECORD_OVERHEAD)
        disk_bytes = int(2 * written) + _DISK_MARGIN
    is_compacted = request.workload == "compacted"
    options = COMPACTION_OPTIONS if is_compacted else ""
    cluster = stack.enter_context(ChaosCluster(request.out / "cluster", request.brokers, disk_bytes, options))
    workload = stack.enter_context(_workload(request, cluster.bootstrap, history, min(_REPLICAS_MAX, request.brokers)))
    watch: CompactionWatch | None = None
    if is_compacted:
        watch = stack.enter_context(CompactionWatch(cluster.admins))
    facts = RunFacts(now_ns())
    workload.start()
    nemesis = Nemesis(cluster, network, history, workload.watch, workload.topics, request.schedule)

    def look() -> bool:
        _tell(history)
        return interruption.ends_load.is_set()

    nemesis.run(look)
    _finish(request, workload, facts, nemesis, interruption)
    facts.compaction = None if watch is None else watch.counts
    facts.deaths = tuple(nemesis.deaths)
    facts.problems += nemesis.membership.problems
    seconds = (facts.ended_ns - facts.began_ns) / 1e9
    facts.undone = [each for each in request.schedule.faults if each.at <= seconds and each not in nemesis.done]
    return facts, workload, cluster.copy_logs(request.out / "logs")


def _finish(
    request: RunRequest, workload: Workload, facts: RunFacts, nemesis: Nemesis | None, interruption: Interruption
) -> None:
    """Stop the load, wait until the cluster is well, and read everything once more."""
    facts.ended_ns = now_ns()
    interruption.load_is_over()
    if interruption.ends_load.is_set():
        seconds = (facts.ended_ns - facts.began_ns) / 1e9
        facts.problems.append(f"interrupted after {seconds:.0f} s of {request.schedule.seconds:g} s")
        print("\ninterrupted; once more gives up the final reads", end="", flush=True)
    print("\nstops the load and waits until the cluster is well", flush=True)
    try:
        workload.stop(interruption.gives_up)
        _wait_until_well(workload, nemesis, interruption)
        print("reads every partition once more", flush=True)
        workload.read_finally(interruption.gives_up)
        facts.is_read_finally = True
    except GivenUpError as error:
        facts.problems.append(f"interrupted before the final reads were complete: {error}")
    except ChaosError as error:
        facts.problems.append(str(error))


def _wait_until_well(workload: Workload, nemesis: Nemesis | None, interruption: Interruption) -> None:
    deadline = time.monotonic() + _WELL_SECONDS
    while (problem := workload.why_not_well(interruption.gives_up)) is not None:
        if nemesis is not None:
            nemesis.look_after_the_dead()
        if time.monotonic() > deadline:
            raise ChaosError(f"the cluster is not well {_WELL_SECONDS:g} s after the last fault: {problem}")
        if interruption.gives_up.wait(_WELL_POLL):
            raise GivenUpError(problem)


def _tell(history: History) -> None:
    """Keep whoever watches a terminal company."""
    if sys.stdout.isatty():
        last = history.faults[-1]["name"] if history.faults else "-"
        seconds = (now_ns() - history.began_ns) // 1_000_000_000
        print(f"\r{seconds:4d} s   {history.acked:8d} acknowledged   last: {last:<24}", end="", flush=True)
