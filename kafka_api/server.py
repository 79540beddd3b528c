"""The Kafka listener: accepts, bounds and ends connections."""

import asyncio
import logging

from cluster.node import Node
from kafka_api.auto_topics import AutoTopics
from kafka_api.connection import Connection
from kafka_api.fetch_memory import FetchLease, FetchMemory
from kafka_api.options import KafkaOptions
from kafka_api.protocol.framing import SCRATCH_BYTES
from kafka_api.request_context import RequestContext
from kafka_api.request_memory import RequestMemory
from runtime.environment import Environment
from runtime.gate import Gate
from runtime.network import Listener

_SECONDS_BETWEEN_WARNINGS = 60.0
# Clients are checked so many times per timeout, and so many between other tasks.
_CHECKS_PER_TIMEOUT = 6
_CHECKS_PER_STEP = 500
_logger = logging.getLogger("kafka")


class KafkaServer:
    """Serves one node's partitions on one address, from the moment on at which the node has joined its cluster."""

    def __init__(self, env: Environment, node: Node, options: KafkaOptions) -> None:
        self._env = env
        self._node = node
        self._options = options
        self._requests = RequestMemory(options.request_memory_bytes)
        self._fetches = FetchMemory(options.fetch_memory_bytes, options.slow_client_timeout)
        self._auto_topics = AutoTopics(node, options)
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._warned_at: float | None = None
        self._listener: Listener | None = None
        self._connections: dict[Connection, None] = {}
        self._gate = Gate("kafka server")

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port.

        Raises:
            OSError: The address cannot be bound.
        """
        self._listener = await self._env.network.listen(host, port, self._accept)
        self._gate.spawn(self._check_clients(), name="check clients")
        return self._listener.port

    async def stop(self) -> None:
        """Stop listening and end every connection."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            await connection.close()
        await self._auto_topics.stop()
        await self._gate.close()

    def _accept(self) -> Connection:
        has_room = len(self._connections) < self._options.connections_max
        if not has_room:
            self._warn_of_too_many()
        # Until this broker has joined, its tables are those of its last life, or empty: a client that were told of no
        # other broker would stay with it (KIP-899). Closed at once, the client goes on to another broker.
        is_welcome = has_room and self._node.is_registered.is_set()
        context = RequestContext(self._node, self._options, FetchLease(self._fetches), self._auto_topics)
        connection = Connection(context, self._requests, self._scratch, self._on_closed, is_welcome=is_welcome)
        self._connections[connection] = None
        return connection

    def _on_closed(self, connection: Connection) -> None:
        if self._connections.pop(connection, 0) is None:
            self._gate.spawn(connection.close(), name="close")

    def _warn_of_too_many(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._warned_at is None or now - self._warned_at >= _SECONDS_BETWEEN_WARNINGS:
            self._warned_at = now
            _logger.warning("more than %d connections: new ones are closed", self._options.connections_max)

    async def _check_clients(self) -> None:
        loop = asyncio.get_running_loop()
        interval = min(self._options.stalled_request_timeout, self._options.idle_timeout) / _CHECKS_PER_TIMEOUT
        while True:
            await asyncio.sleep(interval)
            for number, connection in enumerate(list(self._connections), start=1):
                connection.check_progress(loop.time())
                if number % _CHECKS_PER_STEP == 0:
                    await asyncio.sleep(0)
