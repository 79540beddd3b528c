"""Which state the log of a partition builds up: producers, or in the topics of coordinators what those keep."""

from collections.abc import Callable
from dataclasses import replace

from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.node_options import NodeOptions
from cluster.producer_state import ProducerState
from cluster.topic_table import Topic
from cluster.transactions.transactions_log_state import TransactionsLogState
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC
from raft.log_state import LogState


class LogStates:
    """See the module.

    Args:
        options: What the node is told.
        lived_ms: Returns milliseconds on a clock that nobody can set.
    """

    def __init__(self, options: NodeOptions, lived_ms: Callable[[], int]) -> None:
        self._state_options = options.state
        # All producer states share it: what is changed is in force for all of them.
        self._producer_options = replace(options.producers)
        self._lived_ms = lived_ms

    def new(self, topic: Topic, number: int) -> LogState:
        """Return the empty state of one partition of a topic."""
        if topic.name == OFFSETS_TOPIC:
            name = topic.partition_name(number)
            return OffsetsLogState(name, self._state_options, self._lived_ms, self._producer_options)
        if topic.name == TRANSACTIONS_TOPIC:
            return TransactionsLogState(topic.partition_name(number), self._state_options)
        return ProducerState(self._lived_ms, self._producer_options, topic.older_producers)

    def change_options(self, options: NodeOptions) -> None:
        """Work by these options from now on: after how long a silent producer is forgotten."""
        self._producer_options.expiration_ms = options.producers.expiration_ms
