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
from tests.unit.cluster.cluster_nodes import Cluster, can_take_over, run, until


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
                (ports[leader], f"{path}?target=9", 400, "not a voter"),
                (ports[leader], f"{path}?target=x", 400, "must be a node id"),
                (ports[leader], f"{path}?target={'9' * 5000}", 400, "must be a node id"),
                (ports[leader], path.replace("/0/", f"/{'0' * 5000}/"), 404, "has partitions 0 to 0"),
                (ports[leader], path.replace("/0/", "/1/"), 404, "has partitions 0 to 0"),
                (ports[leader], path.replace("/t/", "/u/"), 404, "no topic"),
                (ports[other], path, 409, f"node {leader} does"),
                (ports[leader], f"{path}?dry_run=yes", 400, "must be true or false"),
                (ports[leader], f"{path}?dryrun=true", 400, "unknown parameter"),
            ):
                for also in ("", f"{'&' if '?' in asked else '?'}dry_run=true"):
                    if "dry_run=yes" in asked and also:
                        continue
                    found, body = await _ask(port, asked + also)
                    assert (found, words in body["error"]) == (status, True), json.dumps(body)
            # A leader that has just been elected does not know yet who is in sync, and refuses whoever may not be.
            await until(lambda: can_take_over(consensus_of(cluster.leader_of("t")), third))
            status, body = await _ask(ports[leader], f"{path}?target={third}")
            assert status == 200, json.dumps(body)
            assert (body["partition"], body["leader"]) == (0, third)
            assert (body["leader_before"], body["dry_run"], body["waits_for"]) == (leader, False, "")
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


def test_a_dry_run_tells_who_would_lead_or_why_not_and_a_second_transfer_changes_nothing(tmp_path):
    async def test():
        cluster, stop = Cluster(tmp_path, 3), []
        await cluster.start()
        try:
            await cluster.create_topic("t", replication_factor=3)
            ports = await _admin_ports(cluster, stop)
            consensus = consensus_of(cluster.leader_of("t"))
            leader = int(consensus.state.node_id)
            other, third = (number for number in cluster.nodes if number != leader)
            await until(lambda: can_take_over(consensus, other) and can_take_over(consensus, third))
            path, term = "/v1/partitions/t/0/transfer_leadership", consensus.term
            told = {"dry_run": True, "waits_for": "", "partition": 0, "leader_before": leader, "term": term}
            status, body = await _ask(ports[leader], f"{path}?target={third}&dry_run=true")
            assert (status, body) == (200, {**told, "leader": third})
            status, body = await _ask(ports[leader], f"{path}?dry_run=true")
            assert (status, body["leader"] in (other, third)) == (200, True)
            assert (consensus.is_in_office, consensus.term) == (True, term)
            assert (await _ask(ports[leader], f"{path}?target={third}"))[0] == 200
            group = cluster[1].controller.topics.get("t").group(0)
            await until(lambda: all(_believes(node, group, third) for node in cluster.nodes.values()))
            term = cluster.leader_of("t").leader_epoch
            for port in ports.values():
                for also in ("", "&dry_run=true"):
                    status, body = await _ask(port, f"{path}?target={third}{also}")
                    assert (status, body["leader_before"], body["leader"]) == (200, third, third)
            assert cluster.leader_of("t").leader_epoch == term
            await cluster.stop(other)
            await until(lambda: not cluster[third].is_alive(other))
            for also in ("", "&dry_run=true"):
                status, body = await _ask(ports[third], f"{path}?target={other}{also}")
                assert (status, "is down" in body["error"]) == (400, True)
        finally:
            for admin in stop:
                await admin.stop()
            await cluster.stop()

    run(test)


def _believes(node, group, number):
    leader = node.leadership.leader_of(group)
    return leader is not None and leader.node_id == number


def _leads(cluster, number):
    return any(partition.is_in_office for partition in cluster[number].partitions)
