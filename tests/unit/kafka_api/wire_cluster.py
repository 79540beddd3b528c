"""Three brokers in one process, and a client of each."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

from kafka_api.options import KafkaOptions
from kafka_api.server import KafkaServer
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import Cluster, run
from tests.unit.kafka_api.wire_client import Client


@asynccontextmanager
async def three_brokers(directory, *, founded=None, features=None, **options):
    """Topic "t" on three nodes, and a client of each.

    `founded` is what the version has offered that founded the cluster; None: this one has, with `features`.
    """
    cluster = Cluster(directory, 3, features=features if founded is None else founded, **options)
    await cluster.start()
    if founded is not None:
        await cluster.stop()
        cluster.features = features
        await cluster.start()
    servers, clients = {}, {}
    try:
        for number, node in cluster.nodes.items():
            servers[number] = KafkaServer(node.env, node, KafkaOptions())
            port = await servers[number].start("127.0.0.1", 0)
            clients[number] = Client(*await asyncio.open_connection("127.0.0.1", port))
        topic_id = await cluster.create_topic("t", replication_factor=3)
        leader = int(consensus_of(cluster.leader_of("t")).state.node_id)
        other = next(number for number in cluster.nodes if number != leader)
        yield SimpleNamespace(cluster=cluster, clients=clients, topic_id=topic_id, leader=leader, other=other)
    finally:
        for client in clients.values():
            await client.close()
        for server in servers.values():
            await server.stop()
        await cluster.stop()


def with_brokers(tmp_path, test, **options):
    async def whole():
        async with three_brokers(tmp_path, **options) as brokers:
            await test(brokers)

    run(whole)
