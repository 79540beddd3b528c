"""Three brokers of Apache Kafka, or of Raftka, that compact small segments all the time.

The frameworks create their compacted topics with settings of their own. Therefore the brokers' defaults, and not the
topics, have the short times.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kafka.kafka_cluster import running_kafka
from raftka.chaos.compaction_watch import CompactionWatch
from tests.clients.referee import TRANSACTIONAL, Referee
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.command_line import raftka as raftka_command

REPLICAS = 3
_HEAP = "512m"
# A segment is written no more after this time, so that a pass may read it.
_ROLL_MS = 5_000
_COMPACTING = {
    "log.roll.ms": _ROLL_MS,
    "log.cleaner.backoff.ms": 100,
    "log.cleaner.min.cleanable.ratio": 0.01,
}


@dataclass(frozen=True, slots=True)
class Brokers:
    """Three brokers of one kind.

    Attributes:
        bootstrap: Their addresses.
        killable: The cluster whose brokers a test kills; None for Apache Kafka, whose brokers live on.
        watch: What counts the passes of compaction of Raftka's brokers.
    """

    bootstrap: str
    killable: BrokerCluster | None = None
    watch: CompactionWatch | None = None

    def kill_each_once(self, wait_more: Callable[[], None]) -> None:
        """SIGKILL one broker after the other, and start it again after `wait_more`; nothing happens to Apache Kafka.

        Each leader and each coordinator is on a broker that dies.
        """
        if self.killable is not None:
            for victim in self.killable.brokers:
                self._kill(victim, wait_more)

    def kill_leader(self, topic: str, wait_more: Callable[[], None]) -> None:
        """SIGKILL the leader of the topic's partition 0 in the same way."""
        if self.killable is not None:
            self._kill(Referee(self.killable).leader_of(topic), wait_more)

    def kill_coordinator(self, group: str, wait_more: Callable[[], None]) -> None:
        """SIGKILL the broker that keeps the group in the same way."""
        if self.killable is not None:
            self._kill(Referee(self.killable).coordinator_of(group), wait_more)

    def kill_transaction_coordinator(self, transactional_id: str, wait_more: Callable[[], None]) -> None:
        """SIGKILL the broker that keeps the transactional id in the same way."""
        if self.killable is not None:
            self._kill(Referee(self.killable).transaction_coordinator_of(transactional_id), wait_more)

    def lead_each_once(self, topic: str, look: Callable[[], None]) -> None:
        """Let one broker after the other lead the topic's partition 0, and look; once only at Apache Kafka."""
        if self.killable is None:
            look()
            return
        for node_id in self.killable.brokers:
            self.killable.wait_in_sync(topic, 0)
            command = ("partition", "transfer-leadership", topic, "0", "--target", str(node_id))
            raftka_command(*command, "--brokers", self.bootstrap)
            look()

    def check_passes(self) -> None:
        """Fail unless a pass has removed records by now, and none has failed; Apache Kafka is not asked."""
        watch = self.watch
        if watch is None:
            return
        eventually(lambda: f"a pass removes records: {watch.counts}", lambda: watch.counts.removed > 0)
        assert watch.counts.failures == 0, watch.counts

    def _kill(self, victim: int, wait_more: Callable[[], None]) -> None:
        assert self.killable is not None
        self.killable[victim].kill()
        try:
            wait_more()
        finally:
            self.killable.restart([victim])


@contextmanager
def apache_kafka(folder: Path) -> Iterator[Brokers]:
    """Run three brokers of Apache Kafka."""
    with running_kafka(folder, properties=_COMPACTING, heap=_HEAP) as kafka:
        yield Brokers(kafka.bootstrap)


@contextmanager
def raftka(folder: Path) -> Iterator[Brokers]:
    """Run three brokers of Raftka that have compaction."""
    maker = ClusterMaker(folder)
    try:
        cluster = maker(REPLICAS, **TRANSACTIONAL, **_COMPACTING)
        cluster.start()
        with CompactionWatch(lambda: {broker.node_id: broker.admin for broker in cluster.running}) as watch:
            yield Brokers(cluster.bootstrap, cluster, watch)
    finally:
        maker.stop()


KINDS = {"apache-kafka": apache_kafka, "raftka": raftka}
