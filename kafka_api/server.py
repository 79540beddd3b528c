"""The Kafka listener: accepts, bounds and ends connections."""

import logging

from cluster.node import Node
from kafka_api.connection import Connection
from kafka_api.options import KafkaOptions
from kafka_api.request_context import RequestContext
from runtime.environment import Environment
from runtime.gate import Gate
from runtime.network import Listener

_logger = logging.getLogger("kafka")


class KafkaServer:
    """Serves one node's partitions on one address, from the moment on at which the node has joined its cluster."""

    def __init__(self, env: Environment, node: Node, options: KafkaOptions) -> None:
        self._env = env
        self._context = RequestContext(node, options)
        self._listener: Listener | None = None
        self._connections: dict[Connection, None] = {}
        self._gate = Gate("kafka server")

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port.

        Raises:
            OSError: The address cannot be bound.
        """
        self._listener = await self._env.network.listen(host, port, self._accept)
        return self._listener.port

    async def stop(self) -> None:
        """Stop listening and end every connection."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            await connection.close()
        await self._gate.close()

    def _accept(self) -> Connection:
        has_room = len(self._connections) < self._context.options.connections_max
        if not has_room:
            _logger.warning("more than %d connections: a new one is closed", self._context.options.connections_max)
        # Until this broker has joined, its tables are those of its last life, or empty: a client that were told of no
        # other broker would stay with it (KIP-899). Closed at once, the client goes on to another broker.
        is_welcome = has_room and self._context.node.is_registered.is_set()
        connection = Connection(self._context, self._on_closed, is_welcome=is_welcome)
        self._connections[connection] = None
        return connection

    def _on_closed(self, connection: Connection) -> None:
        if self._connections.pop(connection, 0) is None:
            self._gate.spawn(connection.close(), name="close")
