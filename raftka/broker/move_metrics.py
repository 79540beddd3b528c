"""What is measured of moves of partitions, and of the features that they need."""

from collections import Counter

from cluster.move_status import LED_STATES
from cluster.node import Node
from raftka.broker.metric_rows import Row, Rows


class MoveCollector:
    """Moves of what is led here, and as raft0's leader of all."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def rows(self, now: float) -> Rows:
        """Yield the rows; while nothing moves, nothing is looked at."""
        node = self._node
        topics = node.controller.topics
        led = [each for each in node.move_status.here() if each.is_leader] if topics.is_moving else []
        yield None
        if node.health.speaks_for_the_cluster():
            moves = sum(topic.move_of(number) is not None for topic in topics.all() for number in topic.placements)
            yield Row("raftka_cluster_moves", moves)
        states = Counter(each.state for each in led)
        for state in LED_STATES:
            yield Row("raftka_moves", states[state], (state,))
        yield Row("raftka_move_idle_seconds", max((each.idle_ms for each in led), default=0) / 1000)
        yield Row("raftka_unleft_replicas", len(node.backend.unleft))
        features = node.controller.features
        for name in sorted({*node.options.features, *features.all()}):
            yield Row("raftka_feature_level", features.level(name), (name,))
