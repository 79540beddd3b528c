"""What a broker finds of its cluster at `/v1/health`: its tables in the picture, requests, and who gets which answer."""

import asyncio
import logging
import threading
from contextlib import asynccontextmanager

import pytest

from cluster import health_counts
from cluster.commands import AlterBrokerConfigs
from cluster.events import EVENTS_MAX, EventKind
from cluster.partition_status import PartitionStatusReader
from model.topic_config import THROTTLE_KEYS
from raftka.admin_client import get_json
from raftka.broker import health
from raftka.broker.admin_http import AdminHttp
from raftka.broker.admin_listener import AdminListener
from raftka.broker.health import HealthReader
from raftka.broker.stall_watch import StallWatch
from raftka.broker.starting import Starting
from raftka.cli.admin_picture import ask_one
from raftka.health.findings import Level, from_json
from raftka.health.picture import RATE_KEYS, THROTTLED_KEYS
from raftka.health.refusals import RefusedLink
from raftka.health.rules import judge
from runtime.workers import POOL_THREADS, Pool
from tests.unit.cluster.cluster_nodes import cluster_of, run, until
from tests.unit.cluster.test_joins import Growing
from tests.unit.kafka_api.wire_client import broker_in, stuck_disk


@asynccontextmanager
async def admin_of(broker):
    """Yield a function that asks the broker's admin port, and its address."""
    node, listener = broker.node, AdminListener(16)
    admin = AdminHttp(Starting(node.options.node_id), listener)
    admin.serve(node, PartitionStatusReader(node.links, node.partitions, node.options.node_id), StallWatch(node))
    await admin.start("127.0.0.1", 0)
    address = f"127.0.0.1:{listener.port}"
    try:
        yield lambda path: node.env.workers.run(Pool.READ, lambda: get_json(address, path)), address
    finally:
        await admin.stop()


def test_a_broker_that_is_well_says_so_and_the_doctor_repeats_it(tmp_path) -> None:
    async def test() -> None:
        async with broker_in(tmp_path) as broker, admin_of(broker) as (ask, address):
            await (await broker.client()).create_topic("t", partitions=3)
            await until(lambda: len(broker.node.partitions) == 3)
            await until(lambda: all(each.is_in_office for each in broker.node.partitions))
            status, body = await ask("/v1/health")
            assert (status, body["node_id"], body["worst"]) == (200, 1, "ok")
            findings = [from_json(each) for each in body["findings"]]
            assert [each.what for each in findings] == ["brokers", "leaders", "replicas", "config", "broker 1"]
            assert findings[0].words == "1 answers; 1 is the controller"
            assert await broker.node.env.workers.run(Pool.READ, lambda: ask_one(address)) == findings
            assert body["broker"]["stalled"] == []
            assert body["broker"]["disk_spare_bytes"] is None or body["broker"]["disk_spare_bytes"] > 0

    run(test)


@pytest.mark.parametrize("query", ["?since=3", "?a=1&view=x", "?" + "x" * 500 + "=1"])
def test_a_parameter_that_health_does_not_know_is_named(tmp_path, query: str) -> None:
    async def test() -> None:
        async with broker_in(tmp_path) as broker, admin_of(broker) as (ask, _):
            status, body = await ask(f"/v1/health{query}")
            assert status == 400
            assert body["error"].startswith(f"unknown parameter '{query[1:].partition('=')[0][:60]}'")

    run(test)


def test_what_is_wrong_with_a_broker_is_among_its_findings(tmp_path) -> None:
    async def test() -> None:
        async with broker_in(tmp_path) as broker:
            node = broker.node
            node.groups.limits.disk.update_free(7)
            node.groups.limits.stalls.raise_doubt("its append hangs")
            for _ in range(EVENTS_MAX + 3):
                node.events.record(logging.DEBUG, EventKind.LEADER, "node 1 leads")
            lost = node.events.next_seq - 1 - EVENTS_MAX
            reader = HealthReader(node, StallWatch(node), lambda: ("the disk hangs: its append hangs", "replace it"))
            found = {
                each.words: each.cure for each in judge(await reader.read_picture()) if each.level is Level.PROBLEM
            }
            assert found["not ready: the disk hangs: its append hangs"] == "replace it"
            assert any(each.startswith("its disk is below disk.reserve.bytes by ") for each in found)
            warned = {each.words for each in judge(await reader.read_picture()) if each.level is Level.WARNING}
            assert any(each.startswith(f"it has dropped {lost} events") for each in warned)

    run(test)


def test_refused_links_of_another_broker_are_among_the_findings(tmp_path) -> None:
    async def test() -> None:
        async with cluster_of(tmp_path, 2) as cluster:
            reader = HealthReader(
                cluster[1],
                StallWatch(cluster[1]),
                lambda: None,
                lambda: {
                    2: RefusedLink("it has another secret", "give it the same", 3.2),
                    7: RefusedLink("unknown here", "none", 1.0),
                },
            )
            found = {(each.what, each.words): each.cure for each in judge(await reader.read_picture())}
            assert found["broker 2", "links with it are refused (3 s ago): it has another secret"] == "give it the same"
            assert "broker 7" not in {what for what, _ in found}

    run(test)


def test_a_broker_whose_directory_is_retired_is_not_counted_as_missing(tmp_path) -> None:
    async def test() -> None:
        cluster = Growing(tmp_path, 3)
        try:
            await cluster.start()
            await cluster.stop(3)
            await until(cluster.has_controller)
            node = cluster.controller
            counts = node.health
            await until(lambda: counts.cluster() == health_counts.ClusterCounts(3, 2, 0))
            await cluster.change(3, "retire")
            await until(lambda: counts.cluster() == health_counts.ClusterCounts(2, 2, 0))
            findings = judge(await HealthReader(node, StallWatch(node), lambda: None).read_picture())
            assert [each.what for each in findings if each.level is Level.PROBLEM] == []
            assert "its data directory is retired" in next(each.words for each in findings if each.what == "broker 3")
        finally:
            await cluster.stop()

    run(test, seconds=60)


def test_throttles_are_in_the_picture_as_they_are_set(tmp_path) -> None:
    async def test() -> None:
        cluster = Growing(tmp_path, 2)
        try:
            await cluster.start()
            await cluster.create_topic("t", configs={THROTTLED_KEYS[1]: "0:1"})
            controller = cluster.controller.controller
            deadline = asyncio.get_running_loop().time() + 10
            await controller.propose(AlterBrokerConfigs(2, {RATE_KEYS[0]: "7"}), deadline)
            await controller.propose(AlterBrokerConfigs(None, {RATE_KEYS[1]: "8"}), deadline)
            node = cluster.controller
            picture = await HealthReader(node, StallWatch(node), lambda: None).read_picture()
            assert {each.node_id: each.throttles for each in picture.brokers} == {1: RATE_KEYS[1:], 2: RATE_KEYS}
            assert [each.throttles for each in picture.topics] == [THROTTLED_KEYS[1:]]
            assert any(each.what == "throttles" for each in judge(picture))
        finally:
            await cluster.stop()

    assert {*THROTTLED_KEYS} == THROTTLE_KEYS
    run(test, seconds=60)


def test_a_broker_that_is_not_registered_says_nothing_of_partitions(tmp_path) -> None:
    async def test() -> None:
        async with broker_in(tmp_path) as broker:
            await (await broker.client()).create_topic("t")
            reader = HealthReader(broker.node, StallWatch(broker.node), lambda: ("not registered with raft0 yet", None))
            broker.node.is_registered.clear()
            assert (await reader.read_picture()).partitions is None
            assert (await reader.read_picture()).moves is None
            broker.node.is_registered.set()
            picture = await reader.read_picture()
            assert [each.name for each in picture.partitions or ()] == ["t-0"]

    run(test)


def test_a_partition_without_an_alive_leader_is_offline(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with broker_in(tmp_path) as broker:
            await (await broker.client()).create_topic("t")
            await until(lambda: all(each.is_in_office for each in broker.node.partitions))
            reader = HealthReader(broker.node, StallWatch(broker.node), lambda: None)
            monkeypatch.setattr(broker.node, "is_alive", lambda _: False)
            (partition,) = (await reader.read_picture()).partitions or ()
            assert (partition.is_offline, partition.in_sync) == (True, ())

    run(test)


def test_who_asks_together_gets_one_answer_and_who_asks_later_a_new_one(tmp_path, monkeypatch) -> None:
    async def test() -> None:
        async with broker_in(tmp_path) as broker:
            reader = HealthReader(broker.node, StallWatch(broker.node), lambda: None)
            bodies = await asyncio.gather(*(reader._judged() for _ in range(5)))
            assert all(each is bodies[0] for each in bodies)
            monkeypatch.setattr(health, "_KEPT_SECONDS", 0.0)
            assert await reader._judged() is not bodies[0]

    run(test)


def test_entries_that_the_disk_does_not_make_durable_wait(tmp_path) -> None:
    async def test() -> None:
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            partition = broker.partition("t")
            await until(lambda: partition.is_in_office)
            stalled = StallWatch(broker.node)
            await stalled.look()
            assert broker.node.health._waiting == {}
            async with stuck_disk(broker):
                produce = asyncio.ensure_future(client.produce("t", acks=-1))
                await until(lambda: partition.gauges.indexes.dirty > partition.gauges.indexes.commit)
                await stalled.look()
                assert list(broker.node.health._waiting) == [partition.group]
            await produce
            await stalled.look()
            assert broker.node.health._waiting == {}

    run(test)


def test_a_leader_whose_followers_disks_hang_stays_and_its_partition_is_stalled(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(health_counts, "STALL_SECONDS", 0.2)

    async def test() -> None:
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", replication_factor=3)
            await cluster.produce("t", b"before")
            leader = cluster.leader_of("t")
            node = cluster[int(leader.leader_id)]
            others = [each for each in cluster.nodes.values() if each is not node]
            stalled = StallWatch(node)
            release, jobs = threading.Event(), []
            try:
                for each in others:
                    jobs += [
                        asyncio.ensure_future(each.env.workers.run(Pool.FSYNC, release.wait))
                        for _ in range(POOL_THREADS[Pool.FSYNC])
                    ]
                await asyncio.sleep(0)
                produce = asyncio.ensure_future(cluster.produce("t", b"hangs"))
                await until(lambda: leader.gauges.indexes.dirty > leader.gauges.indexes.commit)

                async def is_stalled() -> bool:
                    await stalled.look()
                    return leader.group in stalled.groups()

                while not await is_stalled():
                    await asyncio.sleep(0.02)
                assert leader.is_in_office
            finally:
                release.set()
                await asyncio.gather(*jobs)
            await produce
            await stalled.look()
            assert stalled.groups() == set()

    run(test)
