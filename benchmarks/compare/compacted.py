"""What measurements of compacted topics share: settings of brokers and topics, counts of passes, rows of ratios."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from benchmarks.cluster import TOPIC, BenchCluster, Cluster
from benchmarks.compare.match import Contender, Match, Rivals
from benchmarks.compare.verdict import Target, row
from benchmarks.kafka.kafka_cluster import KafkaCluster
from benchmarks.processes import children

# Both systems look for dirty logs each 15 s; to have passes all the time they look each 0.1 s.
IMPATIENT = {"log.cleaner.backoff.ms": "100"}
DELETE, COMPACT = {"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}
# A pass follows each segment of 1 MiB, the smallest that Kafka accepts.
SMALL_SEGMENTS = {"segment.bytes": str(1024 * 1024), "min.cleanable.dirty.ratio": "0.01"}
KEYS = 10_000
# As Java's client is by default, and librdkafka is not.
IDEMPOTENT = {"enable.idempotence": "true"}

_PASSES = re.compile(r"^raftka_compaction_passes_total (\S+)$", re.MULTILINE)
_CHILD = "storage.cleaning_process"


class Labels(NamedTuple):
    """Of the contenders of one system: with a compacted topic, and with one that is not."""

    compacted: str
    plain: str


RAFTKA = Labels("raftka, compacted", "raftka")
KAFKA = Labels("kafka, compacted", "kafka")


def contenders(found: Rivals, config: Mapping[str, str] | None = None) -> list[Contender]:
    """Return both systems, each with a topic that is not compacted and with one that is; `config` is of both topics."""
    plain, compacted = ({**(config or {}), **policy} for policy in (DELETE, COMPACT))
    return [
        Contender(RAFTKA.plain, found.raftka, plain),
        Contender(RAFTKA.compacted, found.raftka, compacted),
        Contender(KAFKA.plain, found.kafka, plain),
        Contender(KAFKA.compacted, found.kafka, compacted),
    ]


def ratio_row(match: Match, what: str, metric: str, *targets: Target) -> dict[str, Any]:
    """Return a row of ratios, compacted to not compacted: Raftka's, and beside it Kafka's.

    Args:
        match: Of the four contenders.
        what: Names the row.
        metric: Of which the ratio is.
        targets: Of Raftka's ratio, which is the value of the row.
    """
    ours, theirs = (_ratios(match, labels, metric) for labels in (RAFTKA, KAFKA))
    found = row(what, "x", ours, theirs, *targets, peer="kafka")
    refused = [match.refused[label] for label in RAFTKA if label in match.refused]
    return found | {"refused": refused[0]} if refused else found


def _ratios(match: Match, labels: Labels, metric: str) -> list[float]:
    """Return the ratio of each pair of runs of one system; none where one of the two was refused."""
    compacted, plain = ([run[metric] for run in match.runs[label]] for label in labels)
    return [own / other for own, other in zip(compacted, plain, strict=False) if other]


def passes(cluster: Cluster) -> int:
    """Return how many passes all brokers of a cluster have ended well since their start.

    Raises:
        BenchmarkError: A broker of Raftka does not tell its metrics.
    """
    if isinstance(cluster, BenchCluster):
        return sum(int(float(each)) for text in cluster.metrics() for each in _PASSES.findall(text))
    assert isinstance(cluster, KafkaCluster)
    # Kafka's metric of it needs JMX; its log has a line for each pass.
    return sum(cluster.log_path(node).read_text().count(f"cleaned log {TOPIC}-") for node in cluster.pids)


def brokers_in_a_pass(pids: Iterable[int]) -> int:
    """Return how many of these brokers of Raftka have the child process of a pass at this moment."""
    return sum(any(_CHILD in command for command in children(pid)) for pid in pids)
