"""Which partitions of a coordinator's topic this broker keeps, since when, and who keeps the others.

elected, in office      load: the table is as of this term, the machines are made
loaded                  requests are answered
the term is over        end: whoever waits looks for the next coordinator
"""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from cluster.commands import BrokerRecord
from cluster.coordinator_partition import coordinator_partition
from cluster.node import Node
from cluster.partition import Partition
from kafka_api.coordinators.topic_creation import TopicCreation
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import GroupId, NodeId, Term
from raft.consensus import Consensus
from runtime.gate import Gate

# A replica that took office while it was being opened is found so late.
_LOOK_INTERVAL = 0.5


class KeptPartition(Protocol):
    """One partition of the topic, while this broker leads it in one term.

    Attributes:
        partition: The replica.
        term: Of its leadership.
        is_loaded: Requests are answered.
    """

    partition: Partition
    term: Term
    is_loaded: bool

    @property
    def is_current(self) -> bool:
        """Whether the replica still leads in that term."""
        ...

    async def load(self) -> None:
        """Make ready for requests."""
        ...

    def end(self) -> None:
        """The term is over."""
        ...


P = TypeVar("P", bound=KeptPartition)


class CoordinatorOffice(ABC, Generic[P]):
    """See the module. Requests are answered with a code where this broker is not the one to ask.

    Args:
        node: This broker.
        topic_name: The coordinator's topic.
        topic_configs: With which it is created.
        topic_partitions: How many partitions it gets.
        gate: Owns the background tasks.
        logger: Tells of terms that begin and end.
    """

    def __init__(
        self,
        node: Node,
        topic_name: str,
        topic_configs: Mapping[str, str],
        topic_partitions: int,
        gate: Gate,
        logger: logging.Logger,
    ) -> None:
        self._node = node
        self._topic_name = topic_name
        self._gate = gate
        self._logger = logger
        self._creation = TopicCreation(node, topic_name, topic_configs, topic_partitions, gate, logger)
        self._active: dict[GroupId, P] = {}
        self._leadership_news = asyncio.Event()

    @property
    @abstractmethod
    def _first_leader_wait(self) -> float:
        """Seconds for which a search waits for the first leader of its partition."""

    @abstractmethod
    def _new_kept(self, partition: Partition) -> P | None:
        """Return a partition that is led here, not loaded yet; None if its state is of another kind."""

    def start(self) -> None:
        """Begin to take over what this broker leads. The node has started."""
        self._node.groups.add_leadership_listener(self._on_leadership)
        self._node.leadership.add_listener(self._on_leadership_news)
        self._gate.spawn(self._look(), name="look")

    async def stop(self) -> None:
        """Keep nothing any more; whoever waits is told to look for the next coordinator."""
        for active in self._active.values():
            active.end()
        self._active.clear()
        await self._gate.close()

    # -- who keeps what -----------------------------------------------------------------------------------------

    def find_node(self, name: str) -> NodeId | None:
        """Return the node that keeps what has this name; None while nobody does. Asking creates the topic."""
        topic = self._node.controller.topics.get(self._topic_name)
        if topic is None:
            self._creation.request()
            return None
        number = coordinator_partition(name, len(topic.replicas))
        leader = self._node.leadership.leader_of(topic.group(number))
        if leader is None or not self._node.is_alive(leader.node_id):
            return None
        return leader.node_id

    def find_coordinator(self, name: str) -> BrokerRecord | None:
        """As `find_node`, the broker."""
        node_id = self.find_node(name)
        return None if node_id is None else self._node.controller.members.get(node_id)

    async def wait_for_first_leader(self, name: str) -> None:
        """Wait until somebody keeps it, for a while, if nobody ever has.

        librdkafka 2.16 asks three times within 0.3 s for an administrative request. After that it neither asks again
        nor fails: the request hangs until its time is over. So the first request of a new cluster waits here. Later
        elections are not waited for, because answers to other requests of the same connection would wait, too.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._first_leader_wait):
                while self.find_coordinator(name) is None and self._awaits_first_leader(name):
                    await self._leadership_news.wait()

    def _awaits_first_leader(self, name: str) -> bool:
        topic = self._node.controller.topics.get(self._topic_name)
        if topic is None:
            return not self._gate.is_closed
        return self._node.leadership.newest_term(topic.group(coordinator_partition(name, len(topic.replicas)))) < 0

    def _on_leadership_news(self) -> None:
        # Whoever waits now is woken; whoever comes later waits for the next news.
        self._leadership_news.set()
        self._leadership_news.clear()

    def locate(self, name: str) -> P | ErrorCode:
        """Return the partition that keeps what has this name, if this broker leads it and has loaded it."""
        topic = self._node.controller.topics.get(self._topic_name)
        if topic is None or self._gate.is_closed:
            return ErrorCode.NOT_COORDINATOR
        group = topic.group(coordinator_partition(name, len(topic.replicas)))
        partition = self._node.partitions.get(group)
        if partition is None or partition.failure is not None:
            return ErrorCode.NOT_COORDINATOR
        if not partition.is_in_office:
            is_leader = partition.is_leader
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_leader else ErrorCode.NOT_COORDINATOR
        active = self._active_of(partition)
        return active if active is not None and active.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def all_here(self) -> list[P] | ErrorCode:
        """Return every partition that is kept here; an error while one of them is not known yet."""
        found = []
        for partition in self._led_here():
            active = self._active_of(partition) if partition.is_in_office else None
            if active is None or not active.is_loaded:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            found.append(active)
        return found

    def _led_here(self) -> list[Partition]:
        """Return what this broker was elected for, in office yet or not."""
        topic = self._node.controller.topics.get(self._topic_name)
        numbers = range(0 if topic is None else len(topic.replicas))
        partitions = [self._node.partitions.get(topic.group(number)) for number in numbers if topic is not None]
        whole = [each for each in partitions if each is not None and each.failure is None]
        return [partition for partition in whole if partition.is_leader]

    def _active_of(self, partition: Partition) -> P | None:
        """Return what is kept of a partition that is led here, from the term's first look on."""
        group = partition.group
        active = self._active.get(group)
        if active is not None and active.term == partition.leader_epoch and active.partition is partition:
            return active
        if active is not None:
            active.end()
        active = self._new_kept(partition)
        if active is None:
            return None
        self._active[group] = active
        self._gate.spawn(active.load(), name=f"load {group}")
        return active

    def _on_leadership(self, consensus: Consensus) -> None:
        active = self._active.get(consensus.group)
        if active is not None and not active.is_current:
            consensus.logger_of(self._logger.name).info("no coordinator any more, term %d is over", active.term)
            active.end()
            del self._active[consensus.group]
        if not consensus.is_in_office or self._gate.is_closed:
            return
        partition = self._node.partitions.get(consensus.group)
        if partition is not None and partition.topic.name == self._topic_name:
            self._active_of(partition)

    async def _look(self) -> None:
        while True:
            for partition in self._led_here():
                if partition.is_in_office:
                    self._active_of(partition)
            await asyncio.sleep(_LOOK_INTERVAL)
