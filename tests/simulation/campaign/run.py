"""One seed, one run: a safety phase with faults, then a liveness phase without, which must converge completely."""

import gc
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.compaction import CompactionOptions
from cluster.state_bounds import StateOptions
from model.features import COMPACTION, TRANSACTION_VERSION, LevelRange
from raft.options import RaftOptions
from runtime.open_files import OPEN_FILES_MIN
from tests.feature_levels import LEVEL_0, LIVING
from tests.simulation.campaign.plan import OperationId, Plan
from tests.simulation.clients.kafka_workload import KafkaWorkload
from tests.simulation.world.cluster import ClusterOptions, SimCluster
from tests.simulation.world.endless_steps import EndlessStepError, endless_steps_end
from tests.simulation.world.few_epochs import few_epochs
from tests.simulation.world.living import Living
from tests.simulation.world.living_probes import LivingProbes
from tests.simulation.world.nemesis import InjectedFault, Nemesis
from tests.simulation.world.operators import Operators
from tests.simulation.world.probes import Probes
from tests.simulation.world.transaction_probes import TransactionProbes
from tests.simulation.world.world import World

_LIVENESS_SECONDS = 15.0
_QUIET_SECONDS = 8.0
_READ_SECONDS = 30.0
# A coordinator that has just begun gives what it finds ten seconds more.
_TRANSACTIONS_SECONDS = 20.0
_ANSWERED_MIN = 100
# Divisor and rest of the seeds whose clusters are larger: they cost more, and three brokers show most. By the number and
# not by a draw, which would make all other seeds other runs. Both divisors have no factor in common with those below.
_FIVE_BROKERS, _SEVEN_BROKERS = (7, 3), (17, 8)
# Where members change, by the plan.
_OLDER = 0.2
_LIVING_BROKERS, _LIVING_SPARE, _LIVING_REPLICAS = 5, 1, 3
# As a broker has it. An operator retires the disk of a broker only if no link with it works, also no silent one.
_IDLE_PROBE_SECONDS = 0.5
# A consumer group in every fourth run, by the number, too: in all of them it would make all slower.
_GROUP = (4, 2)
# A table in every third compacted run, for the same reason.
_TABLE = (3, 1)
# So little that producers are held in a run with few clients; in every ninth, which has no factor in common with four,
# by which groups and disks are told.
_TIGHT_BOUNDS = {"unreplicated_bytes": 8 * 1024, "batcher_bytes": 4 * 1024}
# So little that a few topics and offsets fill the tables; in every eighth run, which is every other one with a group.
_RAFT0_BYTES, _GROUPS_BYTES = 960, 2500
# Each broker beyond three is a record of some 160 bytes itself, and its replicas are a few more.
_BYTES_PER_BROKER = 200
# What is set on a topic that is compacted, and the feature of each broker; and a second such topic.
_BYTES_OF_POLICY, _BYTES_OF_TABLE = 300, 600


@dataclass(slots=True)
class RunResult:
    """What one run has shown. It passed if `error` is None; a run that has proved nothing is an error too.

    Attributes:
        digest: The hash of everything that happened, over so many `events`.
        counts: What happened how often.
        configuration: What was drawn for the cluster, and `kinds`, the kinds of faults that were.
        faults: Those that were injected.
        operations: What clients have begun; only of a run that failed.
        cpu_seconds: What it took of one core.
        error: What ended it: its first line is the cause's, and names the invariant or the anomaly.
        cause: What the error was raised from, at the bottom.
        lines: The newest events, where replicas stood, and the traceback.
    """

    seed: int
    digest: str = ""
    events: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    configuration: str = ""
    kinds: list[str] = field(default_factory=list)
    faults: list[InjectedFault] = field(default_factory=list)
    operations: list[OperationId] = field(default_factory=list)
    cpu_seconds: float = 0.0
    error: str | None = None
    cause: str | None = None
    lines: list[str] = field(default_factory=list)


class InvalidRunError(Exception):
    """Too little happened: such a run must not count as a success."""


def run(plan: Plan) -> RunResult:
    """Run what is planned; an error is in the result, with the newest events."""
    began = time.process_time()
    # Once a run, and before it: a run that has just ended is still held by its own frame, and would stay for ever if
    # it were frozen. What is there already is then not looked at again.
    gc.collect()
    gc.freeze()
    gc.disable()
    seed = plan.seed
    world = World(seed)
    result = RunResult(seed)
    cluster: SimCluster | None = None
    try:
        cluster = _cluster(world, plan=plan)
        result.configuration = str(cluster.options.drawn | {"link_seconds": _link_seconds(world)})
        # By the number and not by a draw, which would make all other seeds other runs.
        for node in world.nodes.values():
            node.disk.allocates = seed % 4 == 3
            node.disk.runs_now = seed % 5 != 0
        with few_epochs(are_few=plan.is_crowded), endless_steps_end(lambda: (world.time, world.trace.count)):
            _run(world, cluster, result)
    except (Exception, EndlessStepError) as error:  # noqa: BLE001 - every failure is a finding, reported with its seed
        result.error, result.cause = _headline(error), _text_of(_first_of(error))
        result.lines = world.trace.lines()[-400:] + ([] if cluster is None else cluster.describe())
        result.lines += _traceback(error)
    finally:
        result.digest, result.events = world.trace.hexdigest, world.trace.count
        if cluster is not None:
            cluster.count_what_brokers_counted()
            result.counts = cluster.history.counts
        world.close()
        gc.enable()
        gc.unfreeze()
        result.cpu_seconds = time.process_time() - began
    return result


def _cluster(world: World, *, digests: bool = True, plan: Plan | None = None) -> SimCluster:
    is_living = plan is not None and plan.living
    nodes = _LIVING_BROKERS if is_living else 3 if plan is None else _nodes(plan.seed)
    # Most topics have three replicas. What has one is as good as its only broker.
    replicas = world.stream("replicas").choice({3: [3], 5: [3, 3, 1], 7: [3, 5, 1]}[nodes])
    # What living runs draw is drawn from a stream of theirs: all other runs stay what they are.
    living = world.stream("living/cluster")
    has_group = living.random() < 0.5 if is_living else world.seed % _GROUP[0] == _GROUP[1]
    is_older = is_living and living.random() < _OLDER
    level = world.stream("transactions/cluster").choice([1, 2, 2]) if plan is not None and plan.transactional else 0
    # A cluster of the version before has no transactions to begin with.
    level = 0 if is_older else level
    # Nor has it compacted topics.
    is_compacted = plan is not None and plan.compacted and not is_older
    rng = world.stream("options")
    latency = rng.choice([50e-6, 500e-6, 5e-3])
    jitter = latency * rng.choice([0.1, 1.0, 3.0])
    segment_bytes = rng.choice([4, 16, 64, 1024]) * 1024
    retention_bytes = rng.choice([-1, -1, 2 * segment_bytes, 8 * segment_bytes])
    # Few entries per snapshot and per step: a state that lags behind its commit index is an ordinary sight.
    raft = RaftOptions(
        snapshot_entries=rng.choice([20, 300, 20_000]),
        state_step_entries=rng.choice([1, 7, 256]),
        # The longer, the more a power loss takes.
        flush_interval=rng.choice([0.1, 0.1, 0.5]),
        # By the number, too: segments are closed and opened again all the time.
        open_segments=OPEN_FILES_MIN if world.seed % 3 == 1 else RaftOptions().open_segments,
        # Batches are small: what was read from the files once leaves from them, as large ones do. By the number, hardly
        # anything is read from memory.
        range_bytes_min=1,
        tail_cache_bytes=2048 if world.seed % 4 == 3 else RaftOptions().tail_cache_bytes,
        **(_TIGHT_BOUNDS if plan is not None and plan.seed % 9 == 5 else {}),
    )
    # Callers of partitions do without: they know two levels.
    write_caching = plan is not None and rng.random() < 0.15
    cluster = SimCluster(
        world,
        ClusterOptions(
            nodes=nodes,
            spare=_LIVING_SPARE if is_living else 0,
            is_older=is_older,
            replicas=_LIVING_REPLICAS if is_living else replicas,
            features=_features(level, is_living=is_living, is_compacted=is_compacted),
            compaction=_compaction(world) if is_compacted else None,
            transactions_level=level,
            # Elsewhere raft0's leader hears of every broker, because each of them is a replica of raft0.
            idle_probe_interval=_IDLE_PROBE_SECONDS if is_living else 0.0,
            has_table=is_compacted and _has_table(world.seed),
            has_group=has_group,
            segment_bytes=segment_bytes,
            retention_bytes=retention_bytes,
            digests=digests,
            raft=raft,
            kafka=plan is not None,
            plan=plan or Plan(world.seed),
            write_caching=write_caching,
            state=_small_tables(nodes, world.seed, is_living=is_living or level > 0, is_compacted=is_compacted)
            if plan is not None and plan.seed % 8 == 2
            else None,
            topic_configs={
                **({"write.caching": "true"} if write_caching else {}),
                **(_compacted_topic(world) if is_compacted else {}),
            },
        ),
    )
    for source in world.nodes:
        for target in world.nodes:
            link = world.network.link(source, target)
            link.base, link.jitter = latency, jitter
    return cluster


def _features(transactions_level: int, *, is_living: bool, is_compacted: bool) -> Mapping[str, LevelRange]:
    # By name, and not what this version offers: a pinned run stays what it is in later versions.
    compaction = {COMPACTION: LevelRange(0, 1)} if is_compacted else {}
    if transactions_level:
        return {**LIVING, TRANSACTION_VERSION: LevelRange(0, transactions_level), **compaction}
    return {**(LIVING if is_living else LEVEL_0), **compaction}


def _compaction(world: World) -> CompactionOptions:
    # With a small map a pass ends early.
    map_bytes = world.stream("compaction/options").choice([4_000, 64 * 1024 * 1024])
    return CompactionOptions(backoff_seconds=0.5, map_bytes=map_bytes)


def _compacted_topic(world: World) -> dict[str, str | None]:
    rng = world.stream("compaction/topic")
    return {
        "cleanup.policy": rng.choice(["compact", "compact,delete"]),
        "min.cleanable.dirty.ratio": rng.choice(["0.01", "0.3"]),
        "delete.retention.ms": rng.choice(["0", "3000"]),
        "min.compaction.lag.ms": rng.choice(["0", "0", "2000"]),
    }


def _has_table(seed: int) -> bool:
    """Return whether a run has a table, if it is compacted."""
    divisor, rest = _TABLE
    return seed % divisor == rest


def _small_tables(nodes: int, seed: int, *, is_living: bool, is_compacted: bool) -> StateOptions:
    if is_living:
        # A move takes room for the most that it can become: those that no broker needs would all be refused.
        return StateOptions(groups_bytes_max=_GROUPS_BYTES)
    compacted_bytes = _BYTES_OF_POLICY + _BYTES_OF_TABLE * _has_table(seed) if is_compacted else 0
    raft0_bytes = _RAFT0_BYTES + _BYTES_PER_BROKER * (nodes - 3) + compacted_bytes
    return StateOptions(raft0_bytes_max=raft0_bytes, groups_bytes_max=_GROUPS_BYTES)


def _nodes(seed: int) -> int:
    """Return how many brokers the cluster of a seed has."""
    divisor, rest = _SEVEN_BROKERS
    if seed % divisor == rest:
        return 7
    divisor, rest = _FIVE_BROKERS
    return 5 if seed % divisor == rest else 3


def _link_seconds(world: World) -> tuple[float, float]:
    """Return delay and jitter of the links between brokers."""
    first, second, *_ = world.nodes
    link = world.network.link(first, second)
    return link.base, link.jitter


def _run(world: World, cluster: SimCluster, result: RunResult) -> None:
    cluster.observer.add(Probes(cluster.history))
    if cluster.options.transactions_level:
        cluster.observer.add(TransactionProbes(cluster.history))
    cluster.found()
    workload = KafkaWorkload(cluster, world.stream("workload"))
    operators = Operators(cluster, world.stream("operators"))

    def start_clients(node_id: int) -> None:
        workload.start(node_id)
        operators.start(node_id)

    for node_id in cluster.members:
        start_clients(node_id)
    nemesis = Nemesis(cluster, world.stream("nemesis"), start_clients, workload.note_fault)
    result.kinds, result.faults = nemesis.kinds, nemesis.injected
    nemesis.start()
    if cluster.options.plan.living:
        cluster.observer.add(LivingProbes(cluster.history))
        living = Living(cluster, nemesis, world.stream("living"))
        result.kinds = [*nemesis.kinds, *living.kinds]
        living.start()
        nemesis.on_stopped = living.brokers.hurry
    try:
        _phases(world, cluster, workload, operators, nemesis)
    except (Exception, EndlessStepError):
        result.operations = workload.recorder.operations
        raise


def _phases(world: World, cluster: SimCluster, workload: KafkaWorkload, operators: Operators, nemesis: Nemesis) -> None:
    seconds = cluster.options.plan.seconds
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
        raise AssertionError(
            f"the replicas have not converged {_LIVENESS_SECONDS} s after the last fault:\n  {cluster.what_is_missing()}"
        )
    if cluster.options.transactions_level:
        # Time-outs end what clients have left open.
        has_ended = world.run_until(lambda: cluster.what_is_open() is None, world.time + _TRANSACTIONS_SECONDS)
        world.check()
        if not has_ended:
            raise AssertionError(f"not ended {_TRANSACTIONS_SECONDS} s after the clients: {cluster.what_is_open()}")
    _advance(world, max(seconds, world.time))
    workload.finish(_READ_SECONDS)
    cluster.observer.at_end()
    if workload.answered < _ANSWERED_MIN or not nemesis.injected:
        raise InvalidRunError(f"{workload.answered} operations, {len(nemesis.injected)} faults")


def _advance(world: World, until: float) -> None:
    world.run_until(until)
    world.check()


def _headline(error: BaseException) -> str:
    """Return what ended the run, what was broken before where it was noticed."""
    first = _first_of(error)
    return _text_of(error) if first is error else f"{_text_of(first)}\n  noticed by {_text_of(error)}"


def _text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _first_of(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _traceback(error: BaseException) -> list[str]:
    return "".join(traceback.format_exception(error)).splitlines()
