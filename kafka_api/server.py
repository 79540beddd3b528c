"""The Kafka listener: accepts, bounds and ends connections."""

import asyncio
import logging

from cluster.node import Node
from kafka_api.auto_topics import AutoTopics
from kafka_api.closed_log import ClosedLog
from kafka_api.connection import Connection
from kafka_api.fetch_memory import FetchLease, FetchMemory
from kafka_api.fetch_sessions import FetchSessions
from kafka_api.groups.coordinator import GroupCoordinator
from kafka_api.groups.lag import GroupLags
from kafka_api.key_checks import KeyChecks
from kafka_api.options import KafkaOptions, OptionsInForce
from kafka_api.protocol.framing import SCRATCH_BYTES
from kafka_api.request_context import RequestContext
from kafka_api.request_figures import RequestFigures
from kafka_api.request_memory import RequestMemory
from kafka_api.topic_traffic import TopicTraffic
from kafka_api.transactions.coordinator import TransactionCoordinator
from runtime.environment import Environment
from runtime.gate import Gate
from runtime.network import Listener

_SECONDS_BETWEEN_WARNINGS = 60.0
# Clients are checked so many times per timeout, and so many between other tasks.
_CHECKS_PER_TIMEOUT = 6
_CHECKS_PER_STEP = 500
_logger = logging.getLogger("kafka")


class KafkaServer:
    """Serves one node's partitions on one address, from the moment on at which the node has joined its cluster.

    At most `connections_max` connections: one more closes the oldest of those that have not completed a request yet, so
    that strangers who connect and say nothing never keep a client out. Where all have completed one, the new one is
    closed.
    """

    def __init__(self, env: Environment, node: Node, options: KafkaOptions) -> None:
        self._env = env
        self._node = node
        self._in_force = OptionsInForce(options)
        self._requests = RequestMemory(options.request_memory_bytes)
        self._fetches = FetchMemory(options.fetch_memory_bytes, options.slow_client_timeout)
        self.figures = RequestFigures()
        self.traffic = TopicTraffic(node.controller.topics)
        self._key_checks = KeyChecks(node.env.workers)
        self.fetch_sessions = FetchSessions(options.fetch_sessions, env.rng)
        self._auto_topics = AutoTopics(node, self._in_force)
        self._groups = GroupCoordinator(node, self._in_force)
        self._transactions = TransactionCoordinator(node, self._in_force)
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._closed_log = ClosedLog()
        self._warned_at: float | None = None
        self._turned_away = 0
        self._listener: Listener | None = None
        self._connections: dict[Connection, None] = {}
        # Those without a completed request. In arrival order: the first is the oldest.
        self._strangers: dict[Connection, None] = {}
        self._gate = Gate("kafka server")

    @property
    def _options(self) -> KafkaOptions:
        return self._in_force.current

    def change_options(self, options: KafkaOptions) -> None:
        """Answer by other options from now on; it does not block.

        What may change: `num_partitions`, `default_replication_factor`, `auto_create_topics`, what is described, and of
        `groups` what `GroupCoordinator.on_options` names. The others are read once, and must be as before.
        """
        before, self._in_force.current = self._options, options
        if options.groups != before.groups:
            self._groups.on_options()

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return len(self._connections)

    @property
    def connections_max(self) -> int:
        """How many there may be."""
        return self._options.connections_max

    @property
    def refused_connections(self) -> int:
        """How many were closed because there were too many, since the start."""
        return self._turned_away

    @property
    def group_lags(self) -> GroupLags:
        """How far the groups that are kept here are behind."""
        return self._groups.lags

    @property
    def transactions(self) -> TransactionCoordinator:
        """What coordinates the transactional ids that are kept here."""
        return self._transactions

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port.

        Raises:
            OSError: The address cannot be bound.
        """
        self._listener = await self._env.network.listen(host, port, self._accept)
        self._groups.start()
        self._transactions.start()
        self._gate.spawn(self._check_clients(), name="check clients")
        return self._listener.port

    async def stop(self) -> None:
        """Stop listening and end every connection."""
        if self._listener is not None:
            self._listener.close()
        await self._groups.stop()
        await self._transactions.stop()
        for connection in list(self._connections):
            await connection.close()
        await self._auto_topics.stop()
        await self._gate.close()

    # ConnectionOwner

    def on_served(self, connection: Connection) -> None:
        """Keep the connection when room is made."""
        self._strangers.pop(connection, None)

    def on_ended(self, peer: str, reason: str) -> None:
        """Log it, if there is not too much of it."""
        self._closed_log.closed(asyncio.get_running_loop().time(), peer, reason)

    def on_closed(self, connection: Connection) -> None:
        """Forget the connection."""
        self._strangers.pop(connection, None)
        if self._connections.pop(connection, 0) is None:
            self._gate.spawn(connection.close(), name="close")

    # Connections

    def _accept(self) -> Connection:
        # Until this broker has joined, its tables are those of its last life, or empty: a client that were told of no
        # other broker would stay with it (KIP-899). Closed at once, the client goes on to another broker.
        is_welcome = self._node.is_registered.is_set() and self._has_room()
        lease = FetchLease(self._fetches)
        context = RequestContext(
            *(self._node, self._in_force, lease, self.fetch_sessions, self._auto_topics, self._groups),
            *(self._transactions, self.figures, self.traffic, self._key_checks),
        )
        connection = Connection(context, self._requests, self._scratch, self, is_welcome=is_welcome)
        self._connections[connection] = None
        if is_welcome:
            self._strangers[connection] = None
        return connection

    def _has_room(self) -> bool:
        if len(self._connections) < self._options.connections_max:
            return True
        self._turned_away += 1
        self._warn_of_too_many()
        oldest = next(iter(self._strangers), None)
        if oldest is None:
            return False
        # It is among the connections until the loop's next step.
        del self._strangers[oldest]
        oldest.make_room()
        return True

    def _warn_of_too_many(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._warned_at is None or now - self._warned_at >= _SECONDS_BETWEEN_WARNINGS:
            self._warned_at = now
            _logger.warning(
                "more than %d connections: the oldest that asked nothing yet are closed, else new ones; %d until now",
                self._options.connections_max,
                self._turned_away,
            )

    async def _check_clients(self) -> None:
        loop = asyncio.get_running_loop()
        interval = min(self._options.stalled_request_timeout, self._options.idle_timeout) / _CHECKS_PER_TIMEOUT
        while True:
            await asyncio.sleep(interval)
            self._closed_log.look(loop.time())
            for number, connection in enumerate(list(self._connections), start=1):
                connection.check_progress(loop.time())
                if number % _CHECKS_PER_STEP == 0:
                    await asyncio.sleep(0)
