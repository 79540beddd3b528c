"""Why a broker does not serve, and what helps: nodes that refuse each other, and nodes that are away."""

import asyncio
import json

from cluster.commands import BrokerRecord
from model.ids import NodeId
from raftka.broker import readiness
from raftka.broker.health import HealthReader
from raftka.broker.readiness import not_ready, refusals, refused_links
from raftka.broker.stall_watch import StallWatch
from raftka.broker.starting import node_phase
from rpc.errors import HandshakeRefusedError, RefusalCode
from tests.unit.cluster.cluster_nodes import Cluster, cluster_of, run, until
from tests.unit.cluster.test_joins import Growing
from tests.unit.raftka.admin_ports import ports_of


async def _start(node):
    await node.start()
    number = int(node.options.node_id)
    node.register(BrokerRecord(number, node.replica.directory_id, "k", 9000 + number, "r", 1, "a", 2))


def test_a_broker_with_another_secret_is_not_ready_and_the_others_are(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.stop(3)
            stranger = cluster.make(3, secret=b"w" * 32)
            await _start(stranger)
            await until(lambda: len(refusals(stranger, now=True)) == 2)
            found = not_ready(stranger)
            assert found is not None
            assert found.reason == "brokers 1, 2 and this broker (3) have different cluster secrets"
            assert "cluster.secret.file" in found.cure
            await until(lambda: all(3 in cluster[number].links.refusals for number in (1, 2)))
            for number in (1, 2):
                await until(lambda number=number: not_ready(cluster[number]) is None)
                assert [each.kind for each in refusals(cluster[number], now=False)] == ["WRONG_SECRET"]

            await cluster.stop(3)
            assert refusals(cluster[1], now=False), "remembered until a link works"
            await cluster.stop(2)
            again = cluster.make(3, secret=b"w" * 32)
            await _start(again)
            await until(
                lambda: (not_ready(again) or ("",))[0] == "broker 1 and this broker (3) have different cluster secrets"
            )
            assert not_ready(again).cure.endswith("; start broker 2, or repair the network to it")
            await cluster.stop(3)
            await cluster.start(2)
            await cluster.start(3)
            await until(lambda: not any(refusals(cluster[number], now=False) for number in (1, 2, 3)))
            await until(lambda: not_ready(cluster[3]) is None)

    run(test)


def test_a_broker_alone_names_whom_to_start(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.stop()
            alone = cluster.make(1)
            await _start(alone)
            found = not_ready(alone)
            assert found is not None
            assert found.reason == "not registered with raft0 yet"
            assert found.cure == "start brokers 2, 3, or repair the network to them"

    run(test)


def test_a_broker_that_waits_for_seeds_names_each_and_why(tmp_path):
    async def test():
        cluster = Cluster(tmp_path, 3)
        one, two = cluster.make(1), cluster.make(2, secret=b"w" * 32)
        assert node_phase(one).reason == "reading the data directory"
        starting = [asyncio.create_task(node.start()) for node in (one, two)]
        try:

            def is_told():
                return (
                    "different cluster secrets" in node_phase(one).reason and "nobody listens" in node_phase(one).reason
                )

            await until(is_told)
            reason, cure = node_phase(one)
            seeds = {seed.node_id: f"{seed.node_id}@{seed.host}:{seed.port}" for seed in cluster.seeds}
            assert reason.startswith(
                f"waiting for seeds to found the cluster: {seeds[2]} (broker 2 and this broker (1)"
            )
            assert f"{seeds[3]} (nobody listens there)" in reason
            assert seeds[1] not in reason
            assert "cluster.secret.file" in cure
            assert "start the brokers that do not answer (3)" in cure
            assert not one.links.is_up(NodeId(2))
        finally:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            await cluster.stop()

    run(test)


def test_a_refusal_of_a_broker_that_works_is_forgotten_after_a_while(tmp_path, monkeypatch):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            node = cluster[1]
            await until(lambda: node.is_alive(3))
            # Another process has come as broker 3, with an empty directory.
            node.links.note_refusal(NodeId(3), HandshakeRefusedError(RefusalCode.WRONG_DIRECTORY, "unknown"))
            assert refused_links(node).keys() == {3}
            monkeypatch.setattr(readiness, "_PASSED_SECONDS", -1.0)
            assert refused_links(node) == {}

    run(test)


def test_a_broker_that_joined_and_is_alone_tells_its_health_and_whom_to_start(tmp_path):
    async def test():
        cluster = Growing(tmp_path)
        try:
            await cluster.start()
            await cluster.join(4)
            await cluster.stop()
            alone = cluster.make(4)
            await _start(alone)
            assert not_ready(alone).cure == "start brokers 1, 2, 3, or repair the network to them"
            told = json.loads(await HealthReader(alone, StallWatch(alone), lambda: not_ready(alone))._judged())
            assert told["node_id"] == 4
        finally:
            await cluster.stop()

    run(test, seconds=60)


def test_the_refusal_of_a_directory_that_was_given_up_since_is_told_no_more(tmp_path):
    async def test():
        async with ports_of(Growing(tmp_path, 3)) as ports:
            node = ports.cluster[1]
            await ports.cluster.stop(3)
            await until(lambda: not any(each.is_alive(3) for each in ports.cluster.nodes.values()))
            node.links.note_refusal(NodeId(3), HandshakeRefusedError(RefusalCode.WRONG_DIRECTORY, "unknown"))
            assert refused_links(node).keys() == {3}
            await until(ports.cluster.has_controller)
            assert (await ports.ask("/v1/brokers/3/retire-directory", {}))[0] == 200
            assert refused_links(node) == {}

    run(test, seconds=60)
