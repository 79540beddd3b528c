"""What a node exposes as metrics, for tests that read single values."""

import asyncio

from kafka_api.options import KafkaOptions
from kafka_api.server import KafkaServer
from raftka.broker.loop_watch import LoopWatch
from raftka.broker.metrics import row_sources
from raftka.broker.stall_watch import StallWatch
from raftka.monitoring.catalogue import BY_NAME, Path


class Exposed:
    """What one node exposes."""

    def __init__(self, node, server) -> None:
        self.stalls = StallWatch(node)
        self.watch = LoopWatch()
        self._sources = row_sources(node, server, self.watch, self.stalls)

    def rows(self, path=Path.BROKER):
        now = asyncio.get_running_loop().time()
        return [row for source in self._sources[path] for row in source.rows(now) if row is not None]

    def __call__(self, name, *labels):
        """Return one value; None if it is not exposed."""
        return next(
            (row.value for row in self.rows(BY_NAME[name].path) if (row.name, row.labels) == (name, labels)), None
        )


def exposed_by(node) -> Exposed:
    """Return what a node exposes that serves no Kafka clients."""
    return Exposed(node, KafkaServer(node.env, node, KafkaOptions()))
