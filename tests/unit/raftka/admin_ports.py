"""The admin ports of whole nodes, asked over HTTP as the command line asks them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cluster.partition_status import PartitionStatusReader
from raftka.admin_client import request_json
from raftka.broker.admin_http import AdminHttp
from raftka.broker.admin_listener import AdminListener
from raftka.broker.stall_watch import StallWatch
from raftka.broker.starting import Starting
from tests.unit.cluster.cluster_nodes import Cluster, until


class AdminPorts:
    """The admin ports of a cluster's nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._admins: list[AdminHttp] = []
        self._ports: dict[int, int] = {}

    async def open(self) -> None:
        """Serve at the nodes that run."""
        for number, node in self.cluster.nodes.items():
            listener = AdminListener(16)
            admin = AdminHttp(Starting(number), listener)
            statuses = PartitionStatusReader(node.links, node.partitions, node.options.node_id)
            admin.serve(node, statuses, StallWatch(node))
            await admin.start("127.0.0.1", 0)
            self._admins.append(admin)
            self._ports[number] = listener.port

    async def close(self) -> None:
        """Stop serving."""
        for admin in self._admins:
            await admin.stop()

    async def ask(self, path: str, document: Any = None, at: int = 1) -> tuple[int, Any]:
        """Return (status, body) at a node: of a POST if there is a document."""
        method = "GET" if document is None else "POST"
        address = f"127.0.0.1:{self._ports[at]}"
        return await asyncio.to_thread(request_json, address, path, 20.0, method=method, document=document)

    async def moves(self, at: int = 1) -> list[dict[str, Any]]:
        """Return the partitions that are being moved, as a node tells."""
        status, body = await self.ask("/v1/moves", at=at)
        assert status == 200
        moves: list[dict[str, Any]] = body["moves"]
        return moves


@asynccontextmanager
async def ports_of(cluster: Cluster) -> AsyncIterator[AdminPorts]:
    """Yield the admin ports of a cluster, which is started if it does not run, and stopped at the end."""
    ports = AdminPorts(cluster)
    try:
        if not cluster.nodes:
            await cluster.start()
        await until(cluster.has_controller)
        await ports.open()
        yield ports
    finally:
        await ports.close()
        await cluster.stop()
