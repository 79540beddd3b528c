"""One seed, one run: a safety phase with faults, then a liveness phase without, which must converge completely."""

import gc
import traceback
from collections import Counter
from dataclasses import dataclass, field

from raft.options import RaftOptions
from tests.simulation.cluster import ClusterOptions, SimCluster
from tests.simulation.kafka_workload import KafkaWorkload
from tests.simulation.nemesis import Nemesis
from tests.simulation.operators import Operators
from tests.simulation.workload import Workload
from tests.simulation.world import World

RUN_SECONDS = 60.0
_LIVENESS_SECONDS = 15.0
_QUIET_SECONDS = 8.0
_READ_SECONDS = 30.0
_ACKED_MIN = 100


@dataclass(slots=True)
class RunResult:
    """What one run has shown. It passed if `error` is None; a run that has proved nothing is an error too."""

    seed: int
    digest: str = ""
    events: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    kinds: list[str] = field(default_factory=list)
    error: str | None = None
    lines: list[str] = field(default_factory=list)


class InvalidRunError(Exception):
    """Too little happened: such a run must not count as a success."""


def run_seed(seed: int, seconds: float = RUN_SECONDS, *, kafka: bool = False) -> RunResult:
    """Run one seed; an error is in the result, with the newest events.

    Args:
        seed: Decides everything.
        seconds: Virtual seconds.
        kafka: The clients are Kafka clients on the wire, not callers of the partitions.
    """
    gc.disable()
    world = World(seed)
    result = RunResult(seed)
    cluster: SimCluster | None = None
    try:
        cluster = _cluster(world, kafka=kafka)
        # By the number and not by a draw, which would make all other seeds other runs.
        for node in world.nodes.values():
            node.disk.allocates = seed % 4 == 3
        _run(world, cluster, result, seconds)
    except Exception as error:  # noqa: BLE001 - every failure is a finding, reported with its seed
        result.error = f"{type(error).__name__}: {error}"
        result.lines = world.trace.lines()[-400:] + ([] if cluster is None else cluster.describe())
        result.lines += _traceback(error)
    finally:
        result.digest, result.events = world.trace.hexdigest, world.trace.count
        if cluster is not None:
            result.counts = cluster.history.counts
        world.close()
        gc.enable()
        gc.collect()
    return result


def _cluster(world: World, *, digests: bool = True, kafka: bool = False) -> SimCluster:
    rng = world.stream("options")
    latency = rng.choice([50e-6, 500e-6, 5e-3])
    jitter = latency * rng.choice([0.1, 1.0, 3.0])
    segment_bytes = rng.choice([16, 64, 1024]) * 1024
    retention_bytes = rng.choice([-1, -1, 2 * segment_bytes, 8 * segment_bytes])
    # Few entries per snapshot and per step: a state that lags behind its commit index is an ordinary sight.
    raft = RaftOptions(
        snapshot_entries=rng.choice([20, 300, 20_000]),
        state_step_entries=rng.choice([1, 7, 256]),
    )
    cluster = SimCluster(
        world,
        ClusterOptions(
            segment_bytes=segment_bytes, retention_bytes=retention_bytes, digests=digests, raft=raft, kafka=kafka
        ),
    )
    for source in world.nodes:
        for target in world.nodes:
            link = world.network.link(source, target)
            link.base, link.jitter = latency, jitter
    return cluster


def _run(world: World, cluster: SimCluster, result: RunResult, seconds: float) -> None:
    cluster.found()
    workload = (KafkaWorkload if cluster.options.kafka else Workload)(cluster, world.stream("workload"))
    operators = Operators(cluster, world.stream("operators"))

    def start_clients(node_id: int) -> None:
        workload.start(node_id)
        operators.start(node_id)

    for node_id in world.nodes:
        start_clients(node_id)
    nemesis = Nemesis(cluster, world.stream("nemesis"), start_clients, workload.note_fault)
    result.kinds = nemesis.kinds
    nemesis.start()
    _advance(world, seconds - _LIVENESS_SECONDS)
    nemesis.stop()
    _advance(world, world.time + 1.0)
    nemesis.restart_failed()
    acked_before = workload.acked
    _advance(world, seconds - _QUIET_SECONDS)
    if workload.acked == acked_before:
        raise AssertionError(f"nothing was acknowledged within {_LIVENESS_SECONDS - _QUIET_SECONDS} s after the faults")
    workload.stop()
    operators.is_at_work = False
    has_converged = world.run_until(cluster.has_converged, seconds)
    world.check()
    if not has_converged:
        raise AssertionError(f"the replicas have not converged {_LIVENESS_SECONDS} s after the last fault")
    _advance(world, seconds)
    workload.finish(_READ_SECONDS)
    cluster.observer.at_end()
    if workload.acked < _ACKED_MIN or nemesis.injected == 0:
        raise InvalidRunError(f"{workload.acked} acks, {nemesis.injected} faults")


def _advance(world: World, until: float) -> None:
    world.run_until(until)
    world.check()


def _traceback(error: BaseException) -> list[str]:
    return "".join(traceback.format_exception(error)).splitlines()
