"""`POST /v1/partitions/{topic}/{partition}/transfer_leadership` at three nodes' admin ports."""

import asyncio
import json

from cluster.partition_status import PartitionStatusReader
from raftka.admin_client import request_json
from raftka.broker.admin_http import AdminHttp
from raftka.broker.admin_listener import AdminListener
from raftka.broker.stall_watch import StallWatch
from raftka.broker.starting import Starting
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import Cluster, run, until


async def _ask(port, path, method="POST"):
    return await asyncio.to_thread(request_json, f"127.0.0.1:{port}", path, 5.0, method=method)


async def _admin_ports(cluster, stop):
    ports = {}
    for number, node in cluster.nodes.items():
        listener = AdminListener(16)
        admin = AdminHttp(Starting(number), listener)
        admin.serve(node, PartitionStatusReader(node.links, node.partitions, node.options.node_id), StallWatch(node))
        await admin.start("127.0.0.1", 0)
        stop.append(admin)
        ports[number] = listener.port
    return ports


def test_the_leader_moves_and_what_cannot_be_is_refused(tmp_path):
    async def test():
        cluster, stop = Cluster(tmp_path, 3), []
        await cluster.start()
        try:
            await cluster.create_topic("t", replication_factor=3)
            ports = await _admin_ports(cluster, stop)
            leader = int(consensus_of(cluster.leader_of("t")).state.node_id)
            other, third = (number for number in cluster.nodes if number != leader)
            path = "/v1/partitions/t/0/transfer_leadership"
            for port, asked, status, words in (
                (ports[leader], f"{path}?target={leader}", 400, "already leads"),
                (ports[leader], f"{path}?target=9", 400, "not a voter"),
                (ports[leader], f"{path}?target=x", 400, "must be a node id"),
                (ports[leader], f"{path}?target={'9' * 5000}", 400, "must be a node id"),
                (ports[leader], path.replace("/0/", f"/{'0' * 5000}/"), 404, "has partitions 0 to 0"),
                (ports[leader], path.replace("/0/", "/1/"), 404, "has partitions 0 to 0"),
                (ports[leader], path.replace("/t/", "/u/"), 404, "no topic"),
                (ports[other], path, 409, f"node {leader} does"),
            ):
                found, body = await _ask(port, asked)
                assert (found, words in body["error"]) == (status, True), json.dumps(body)
            status, body = await _ask(ports[leader], f"{path}?target={third}")
            assert (status, body["partition"], body["leader"]) == (200, 0, third)
            await until(lambda: _leads(cluster, third))
            assert body["term"] == cluster.leader_of("t").leader_epoch
            status, body = await _ask(ports[third], path)
            assert status == 200
            assert body["leader"] in (leader, other)
        finally:
            for admin in stop:
                await admin.stop()
            await cluster.stop()

    run(test)


def _leads(cluster, number):
    return any(partition.is_in_office for partition in cluster[number].partitions)
