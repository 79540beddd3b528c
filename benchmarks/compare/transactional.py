"""What all measurements of transactions share: both clusters with transactions, and Kafka that fsyncs each batch."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from benchmarks.cluster import TOPIC, Cluster
from benchmarks.compare.match import Contender, Rivals, rivals
from benchmarks.plan import Plan
from benchmarks.wire.transactions import leaders_of, run_for
from benchmarks.wire.transactor import TV1, TV2
from raftka.kafka.configs import Owner, alter_configs

RECORDS = 100
KAFKA_DURABLE = "kafka, flush.messages=1"
STATE_TOPIC, OFFSETS_TOPIC = "__transaction_state", "__consumer_offsets"
_FLUSH_EACH = {"flush.messages": "1"}


def transactional_rivals(data_dir: Path, plan: Plan) -> AbstractContextManager[Rivals]:
    """Start both clusters, and load one after the other with transactions as long as the plan says."""
    return rivals(data_dir, plan, warm=_warm_up)


def contenders(found: Rivals) -> list[Contender]:
    """Return Raftka, Kafka that fsyncs each batch, and Kafka as shipped."""
    raftka, kafka = found.both()
    return [raftka, Contender(KAFKA_DURABLE, found.kafka, _FLUSH_EACH), kafka]


@contextmanager
def flushed(contender: Contender, *internal: str) -> Iterator[None]:
    """Have Kafka's own topics fsync each batch, too, while the contender that shall do so is measured.

    Args:
        contender: Whose turn it is.
        internal: The topics, beside `__transaction_state`.
    """
    topics = (STATE_TOPIC, *internal) if contender.label == KAFKA_DURABLE else ()
    bootstrap = contender.cluster.bootstrap
    try:
        for topic in topics:
            alter_configs(bootstrap, Owner.TOPIC, topic, _FLUSH_EACH)
        yield
    finally:
        for topic in topics:
            alter_configs(bootstrap, Owner.TOPIC, topic, {}, _FLUSH_EACH)


def _warm_up(cluster: Cluster, seconds: float) -> None:
    """Run transactions by both protocols: a JVM compiles the paths of each apart."""
    with cluster.topic(1):
        leaders = leaders_of(cluster.bootstrap, TOPIC)
        for protocol in (TV1, TV2):
            run_for(cluster.bootstrap, leaders, protocol, RECORDS, seconds / 2)
