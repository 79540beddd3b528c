"""Runs of two or more contenders in turns: A B A B, each with a topic of its own."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import native_client
from benchmarks.cluster import TOPIC, BenchCluster, BenchmarkError, Cluster, running_cluster
from benchmarks.kafka.kafka_cluster import KafkaCluster, running_kafka
from benchmarks.plan import Plan
from benchmarks.processes import cpu_seconds
from raftka.kafka.errors import KafkaClientError

_TRIES = 3
_WARM_UP_PARTITIONS = 3
_WARM_UP_READ_SECONDS = 5.0
WRITE_CACHING = {"write.caching": "true"}

# What one run gave, by name of the metric. It is invalid when `errors` (records that were refused) or `missing` (those
# that were written and not read in time; not every run counts them) is not 0.
Metrics = Mapping[str, float]
Measurement = Callable[["Contender"], Metrics]


class RefusedError(BenchmarkError):
    """A contender does not offer what is measured; the others go on without it."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A cluster, and the configuration its topic gets."""

    label: str
    cluster: Cluster
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Match:
    """What the runs gave.

    Attributes:
        runs: By label, the metrics of each valid run in order: the n-th of all labels are one pair.
        discarded: Why runs were repeated.
        refused: By label, why a contender could not take part.
    """

    runs: dict[str, list[Metrics]] = field(default_factory=dict)
    discarded: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def refuse(self, label: str, error: Exception) -> None:
        """Note why a contender does not take part any more."""
        self.refused[label] = str(error)
        print(f"   {label}: refused: {error}", flush=True)

    def to_json(self) -> dict[str, object]:
        """Return it for a result file."""
        return {"runs": self.runs, "discarded": self.discarded, "refused": self.refused}


def play(contenders: Sequence[Contender], partitions: int, pairs: int, measure: Measurement) -> Match:
    """Let each contender run `pairs` times, in turns.

    Raises:
        BenchmarkError: A contender had no run without an election or an error.
    """
    match = Match({each.label: [] for each in contenders})
    for _ in range(pairs):
        for contender in contenders:
            if contender.label in match.refused:
                continue
            metrics = _run_once(contender, partitions, measure, match)
            if metrics is not None:
                match.runs[contender.label].append(metrics)
                print(f"   {contender.label}: {_words(metrics)}", flush=True)
    return match


def _run_once(contender: Contender, partitions: int, measure: Measurement, match: Match) -> Metrics | None:
    for _ in range(_TRIES):
        with ExitStack() as held:
            try:
                held.enter_context(contender.cluster.topic(partitions, contender.config))
            except KafkaClientError as error:
                # A default topic must work; what a configuration needs may not be there.
                if not contender.config:
                    raise
                match.refuse(contender.label, error)
                return None
            terms = contender.cluster.terms(partitions)
            try:
                metrics = measure(contender)
            except RefusedError as error:
                match.refuse(contender.label, error)
                return None
            then = contender.cluster.terms(partitions)
            elections = [f"{n}: {terms[n]} to {term}" for n, term in enumerate(then) if term != terms[n]]
            if elections:
                print("\n".join(contender.cluster.elections()), flush=True)
        if not elections and not metrics["errors"] and not metrics.get("missing"):
            return metrics
        reason = f"{metrics['errors']:.0f} errors"
        if elections:
            reason += f", elections (partition: terms) {', '.join(elections)}"
        found = _words(metrics)
        match.discarded.append(f"{contender.label}: {reason}{f' ({found})' if found else ''}")
    raise BenchmarkError(f"{contender.label}: no run without a disturbance: {match.discarded}")


def _words(metrics: Metrics) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in metrics.items() if value)


@dataclass(frozen=True, slots=True)
class Rivals:
    """Both clusters, warmed up."""

    raftka: BenchCluster
    kafka: KafkaCluster

    def both(self, config: Mapping[str, str] | None = None) -> list[Contender]:
        """Return both, with the same topic configuration."""
        return [Contender("raftka", self.raftka, config or {}), Contender("kafka", self.kafka, config or {})]

    @property
    def raftka_cached(self) -> Contender:
        """Raftka with `write.caching`: acknowledged, as by Kafka, when a majority has it in memory."""
        return Contender("raftka, write.caching", self.raftka, WRITE_CACHING)


@contextmanager
def rivals(
    data_dir: Path,
    plan: Plan,
    options: Mapping[str, str] | None = None,
    warm: Callable[[Cluster, float], None] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Iterator[Rivals]:
    """Start both clusters, and load one after the other as long as the plan says.

    Args:
        data_dir: A folder on a disk.
        plan: Says how long each is loaded.
        options: Configuration of Raftka's brokers.
        warm: Loads a cluster for so many seconds; `warm_up` if nothing is said.
        properties: Configuration of Kafka's brokers, beside what all have.
    """
    with running_kafka(data_dir, properties=properties) as kafka, running_cluster(data_dir, options) as raftka:
        found = Rivals(raftka, kafka)
        for contender in found.both():
            (warm or warm_up)(contender.cluster, plan.warm_up_seconds)
        yield found


def warm_up(cluster: Cluster, seconds: float) -> None:
    """Load a cluster for so long in each of two ways, and read some of it."""
    # First in large batches, then in many requests: both are measured later, and a JVM compiles them apart.
    with cluster.topic(_WARM_UP_PARTITIONS):
        where = {"brokers": cluster.bootstrap, "topic": TOPIC}
        for mode in ("flood", "single"):
            native_client.run("producer", {**where, "mode": mode, "seconds": seconds})
        native_client.run("consumer", {**where, "partitions": _WARM_UP_PARTITIONS, "seconds": _WARM_UP_READ_SECONDS})


@dataclass(slots=True)
class BrokerCpu:
    """CPU seconds of all brokers of a cluster between `began` and `ended`."""

    cluster: Cluster
    seconds: float = 0.0
    elapsed: float = 0.0

    def began(self) -> None:
        """Note where they are."""
        self.seconds, self.elapsed = -self._now(), -time.perf_counter()

    def ended(self) -> None:
        """Note how far they came."""
        self.seconds, self.elapsed = self.seconds + self._now(), self.elapsed + time.perf_counter()

    def _now(self) -> float:
        return sum(cpu_seconds(pid) for pid in self.cluster.pids.values())
