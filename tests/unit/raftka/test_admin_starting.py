"""The admin port before and after the node has started: one listener, two views, the same guards."""

import asyncio
import http.client
import json
from contextlib import asynccontextmanager

import pytest

from cluster.partition_status import PartitionStatusReader
from raftka.admin_client import is_answer, not_ready_reason, request_json
from raftka.broker.admin_http import AdminHttp
from raftka.broker.admin_listener import AdminListener
from raftka.broker.admin_parameters import PARAMETERS
from raftka.broker.readiness import NotReady
from raftka.broker.stall_watch import StallWatch
from raftka.broker.starting import STARTING, Starting
from tests.unit.cluster.cluster_nodes import cluster_of, run, until

PATHS = ("/v1/brokers", "/v1/bounds", "/v1/events", "/v1/partitions/t/0", "/metrics", "/nowhere")


@asynccontextmanager
async def _starting_port(node_id=7):
    starting = Starting(node_id)
    listener = AdminListener(16)
    admin = AdminHttp(starting, listener)
    await admin.start("127.0.0.1", 0)
    try:
        yield starting, admin, f"127.0.0.1:{listener.port}"
    finally:
        await admin.stop()


async def _ask(address, path, method="GET"):
    return await asyncio.to_thread(request_json, address, path, 5.0, method=method)


def test_a_broker_that_starts_lives_and_says_what_it_waits_for(tmp_path):
    async def test():
        async with _starting_port() as (starting, _, address):
            starting.enter("opening the kvstore")
            assert await _ask(address, "/v1/status/live") == (200, {"live": True, "node_id": 7})
            answer = {"ready": False, "node_id": 7, "reason": "starting: opening the kvstore", "cure": None}
            assert await _ask(address, "/v1/status/ready") == (503, answer)
            starting.enter(lambda: NotReady("waiting for 2", "start it"))
            answer |= {"reason": "starting: waiting for 2", "cure": "start it"}
            assert await _ask(address, "/v1/status/ready") == (503, answer)
            for path in PATHS:
                assert await _ask(address, path) == (503, {"error": "node 7 is starting: waiting for 2"}), path
            transfer = "/v1/partitions/t/0/transfer_leadership"
            assert (await _ask(address, transfer, "POST"))[0] == 503
            reason = await asyncio.to_thread(not_ready_reason, address)
            assert reason.startswith(STARTING)
            assert not is_answer(reason)

    run(test)


def test_the_same_connection_is_answered_by_the_node_once_it_has_started(tmp_path):
    def ask(connection, path):
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    async def test():
        async with cluster_of(tmp_path, 1) as cluster, _starting_port(1) as (_, admin, address):
            connection = http.client.HTTPConnection(address, timeout=5)
            try:
                assert (await asyncio.to_thread(ask, connection, "/v1/brokers"))[0] == 503
                kept = connection.sock
                node = cluster[1]
                admin.serve(
                    node, PartitionStatusReader(node.links, node.partitions, node.options.node_id), StallWatch(node)
                )
                status, body = await asyncio.to_thread(ask, connection, "/v1/brokers")
                assert (status, body[0]["node_id"], body[0]["refused"]) == (200, 1, None)
                live = await asyncio.to_thread(ask, connection, "/v1/status/live")
                assert live == (200, {"live": True, "node_id": 1})

                async def ready():
                    return await asyncio.to_thread(ask, connection, "/v1/status/ready")

                while (found := await ready())[0] != 200:
                    assert not found[1]["reason"].startswith(STARTING)
                assert found == (200, {"ready": True, "node_id": 1})
                assert connection.sock is kept
            finally:
                connection.close()

    run(test)


def test_a_page_is_refused_while_the_broker_starts(tmp_path):
    def ask(address, **headers):
        connection = http.client.HTTPConnection(address, timeout=5)
        try:
            connection.request("GET", "/v1/status/live", headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    async def test():
        async with _starting_port() as (_, _, address):
            assert await asyncio.to_thread(ask, address) == 200
            assert await asyncio.to_thread(ask, address, Host="evil.example.com") == 403

    run(test)


@pytest.mark.parametrize("has_started", [False, True])
def test_every_path_refuses_a_parameter_that_it_does_not_take_and_names_it(tmp_path, has_started):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster, _starting_port(1) as (_, admin, address):
            if has_started:
                node = cluster[1]
                admin.serve(
                    node, PartitionStatusReader(node.links, node.partitions, node.options.node_id), StallWatch(node)
                )
            assert admin._runner is not None
            asked = {}
            for resource in admin._runner.app.router.resources():
                path = resource.canonical.replace("{topic}", "t").replace("{partition}", "0").replace("{node_id}", "1")
                method = next(iter({route.method for route in resource} - {"HEAD"}))
                status, body = await _ask(address, f"{path}?bogus=1&since=1&target=1", method)
                assert status == 400, path
                assert "unknown parameter 'bogus'" in body["error"], path
                assert all(name in body["error"] for name in PARAMETERS.get(resource.canonical, ())), path
                asked[resource.canonical] = body["error"]
            assert PARAMETERS.keys() <= asked.keys()
            assert asked["/metrics"].endswith("this path takes none")
            status, body = await _ask(address, "/v1/status/ready?" + "x" * 5000)
            assert status == 400
            assert len(body["error"]) < 200

    run(test)


def test_a_known_parameter_passes(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster, _starting_port(1) as (_, admin, address):
            node = cluster[1]
            admin.serve(
                node, PartitionStatusReader(node.links, node.partitions, node.options.node_id), StallWatch(node)
            )
            await until(lambda: node.controller.leader_id is not None)
            assert (await _ask(address, "/v1/events?since=1"))[0] == 200

    run(test)
