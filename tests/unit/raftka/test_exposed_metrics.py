"""Every name of the catalogue is exposed, and every name that is exposed is in the catalogue; values that brokers agree on."""

from collections import Counter
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from cluster.telemetry.publisher import TelemetryCounts
from kafka_api import topic_traffic
from kafka_api.groups import lag
from kafka_api.handlers.cluster_view import partition_view
from kafka_api.protocol.api_keys import ApiKey
from model import bounded_names
from model.ids import NodeId
from model.topic_config import TopicConfig
from raftka.broker.group_lag_metrics import GroupLagCollector
from raftka.monitoring import catalogue
from raftka.monitoring.catalogue import BY_NAME, FAMILIES, Kind, Path
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import Cluster, run, until
from tests.unit.kafka_api.wire_client import broker_in, fetch_request
from tests.unit.raftka.exposed import Exposed, exposed_by


@asynccontextmanager
async def _exposed(tmp_path, count, **options):
    """Yield a cluster, and what each of its nodes exposes."""
    cluster = Cluster(tmp_path, count, **options)
    await cluster.start()
    try:
        yield (
            cluster,
            {number: exposed_by(node) for number, node in cluster.nodes.items()},
        )
    finally:
        await cluster.stop()


def _raft0_leader(cluster):
    return next(number for number, node in cluster.nodes.items() if node.controller.is_in_office)


def test_every_name_of_the_catalogue_is_exposed_and_no_other(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.produce("t")
            await client.call(ApiKey.FETCH, 12, fetch_request("t", 0))
            await client.fetch("t", 99)
            exposed = Exposed(broker.node, broker.server)
            # What needs another broker, or telemetry, has rows of the same names there.
            elsewhere = {
                name
                for name in BY_NAME
                if name.startswith(
                    (
                        "raftka_link_",
                        "raftka_peer_",
                        "raftka_telemetry_",
                        "raftka_group_",
                        "raftka_compaction_held_part",
                    )
                )
            }
            for path in Path:
                rows = exposed.rows(path)
                names = {family.name for family in FAMILIES if family.path is path}
                assert names - elsewhere <= {row.name for row in rows} <= names
                for row in rows:
                    assert len(row.labels) == len(BY_NAME[row.name].labels), row
                    assert isinstance(row.value, int | float) == (BY_NAME[row.name].kind is not Kind.HISTOGRAM), row
                # Each series once, and the series of a family one after the other.
                assert max(Counter((row.name, row.labels) for row in rows).values()) == 1
                families = [
                    row.name for number, row in enumerate(rows) if not number or rows[number - 1].name != row.name
                ]
                assert len(families) == len(set(families))

    run(test)


def test_links_and_telemetry_are_exposed_where_there_are_some(tmp_path):
    async def test():
        async with _exposed(tmp_path, 2) as (cluster, exposed):
            cluster[1].links._owner.damage.counts[NodeId(2)] = 4
            cluster[1].telemetry = type("Telemetry", (), {"counts": TelemetryCounts(5, 6, 7, 8)})()
            try:
                found = {row.name for row in exposed[1].rows()}
            finally:
                del cluster[1].telemetry
            assert {
                name for name in BY_NAME if name.startswith(("raftka_link_", "raftka_peer_", "raftka_telemetry_"))
            } <= found
            assert exposed[1]("raftka_peer_up", "2") == 1
            assert exposed[1]("raftka_stalled_partitions") == 0
            exposed[1].stalls._stalled = {"a group", "another"}
            assert exposed[1]("raftka_stalled_partitions") == 2
            told = GroupLagCollector(SimpleNamespace(lag_reports=lambda: [lag.LagReport("g", 7, 4, 1, 2)]))
            rows = {row.name: (row.value, row.labels) for row in told.rows(0.0)}
            assert rows == {
                "raftka_group_lag_records": (7, ("g",)),
                "raftka_group_lag_max_records": (4, ("g",)),
                "raftka_group_lag_unknown_partitions": (1, ("g",)),
            }
            assert rows.keys() == {name for name in BY_NAME if name.startswith("raftka_group_")}

    run(test)


def test_the_catalogue_is_well_formed():
    assert len(BY_NAME) == len(FAMILIES)
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind is Kind.COUNTER), family.name
        assert family.help.endswith("."), family.name
        assert family.tells, family.name
        assert bool(family.series) == (bool(family.labels) and family.name != "raftka_build_info"), family.name
        if family.unit:
            words = family.name.removesuffix("_total").split("_")
            assert family.unit in words or family.unit == "seconds", family.name


def test_the_bounds_of_the_catalogue_are_those_of_the_broker():
    assert catalogue.TOPICS_MAX == topic_traffic.TOPICS_MAX
    assert catalogue.OTHER == bounded_names.OTHER == lag.OTHER
    assert catalogue.GROUPS_MAX == lag.GROUPS_MAX


def test_only_the_leader_of_raft0_speaks_of_the_cluster(tmp_path):
    async def test():
        async with _exposed(tmp_path, 3) as (cluster, exposed):
            leader = _raft0_leader(cluster)
            for number, found in exposed.items():
                is_leader = number == leader
                assert found("raftka_controller_active") == is_leader
                assert found("raftka_cluster_brokers") == (3 if is_leader else None)
                assert found("raftka_cluster_brokers_alive") == (3 if is_leader else None)
                assert found("raftka_cluster_offline_partitions") == (0 if is_leader else None)

    run(test)


def test_a_lost_broker_is_seen_in_the_gauges_of_the_cluster(tmp_path):
    async def test():
        async with _exposed(tmp_path, 3) as (cluster, exposed):
            leader = _raft0_leader(cluster)
            lost = next(number for number in exposed if number != leader)
            await cluster.create_topic("copied", partitions=3, replication_factor=3)
            # One partition on each broker.
            await cluster.create_topic("single", partitions=3, replication_factor=1)
            led = [found("raftka_partitions_led") for found in exposed.values()]
            assert sum(led) == 6
            await cluster.stop(lost)
            survivors = {number: found for number, found in exposed.items() if number != lost}
            await until(lambda: exposed[leader]("raftka_cluster_brokers_alive") == 2)
            await until(lambda: sum(found("raftka_partitions_led") for found in survivors.values()) == 5)
            await until(lambda: exposed[leader]("raftka_cluster_offline_partitions") == 1)
            assert exposed[leader]("raftka_cluster_brokers") == 3
            assert exposed[leader]("raftka_peer_up", str(lost)) == 0
            # Metadata calls the same partitions leaderless (W8).
            context = SimpleNamespace(node=cluster[leader])
            topics = cluster[leader].controller.topics.all()
            views = [
                partition_view(context, topic, number) for topic in topics for number in range(len(topic.replicas))
            ]
            assert sum(view.leader_id == -1 for view in views) == 1

    run(test)


def test_a_replica_out_of_sync_is_counted_by_the_leader_alone(tmp_path):
    async def test():
        async with _exposed(tmp_path, 3) as (cluster, exposed):
            await cluster.create_topic("t", replication_factor=3, configs={"min.insync.replicas": "3"})
            (leader,) = [number for number, found in exposed.items() if found("raftka_partitions_led")]
            names = ("raftka_under_replicated_partitions", "raftka_under_min_isr_partitions")
            await until(lambda: exposed[leader]("raftka_isr_size_min", "t") == 3)
            assert [found(name) for found in exposed.values() for name in names] == [0] * 6
            assert exposed[leader]("raftka_min_isr_setting", "t") == 3
            partition = next(iter(cluster[leader].partitions))
            consensus = consensus_of(partition)
            for follower in consensus.state.followers.values():
                follower.caught_up_at = float("-inf")
            assert exposed[leader]("raftka_isr_size_min", "t") == 1
            assert [exposed[leader](name) for name in names] == [1, 1]
            followers = [found for number, found in exposed.items() if number != leader]
            assert [found(name) for found in followers for name in names] == [0] * 4
            assert [found("raftka_isr_size_min", "t") for found in followers] == [None, None]

    run(test)


def test_a_topic_that_asks_for_more_replicas_than_it_has_is_not_below_its_minimum(tmp_path):
    async def test():
        async with _exposed(tmp_path, 1, defaults=TopicConfig(min_insync_replicas=3)) as (cluster, exposed):
            await cluster.create_topic("t")
            assert exposed[1]("raftka_min_isr_setting", "t") == 3
            assert exposed[1]("raftka_isr_size_min", "t") == 1
            assert exposed[1]("raftka_under_min_isr_partitions") == 0
            # Producers are accepted.
            assert await cluster.produce("t", b"value") == 0

    run(test)


def test_topics_beyond_the_bound_add_up(tmp_path, monkeypatch):
    monkeypatch.setattr(topic_traffic, "TOPICS_MAX", 2)

    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            for name in ("a", "b", "c", "d"):
                await client.create_topic(name)
                await client.produce(name)
            exposed = Exposed(broker.node, broker.server)
            for name in ("raftka_topic_bytes_in_total", "raftka_topic_size_bytes"):
                values = {row.labels[0]: row.value for row in exposed.rows() if row.name == name}
                assert set(values) == {"a", "b", catalogue.OTHER}
                assert values[catalogue.OTHER] == 2 * values["a"]

    run(test)


@pytest.mark.parametrize("topic", ["t", "_other"])
def test_a_topic_is_measured_whatever_its_name(tmp_path, topic):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic(topic)
            await client.produce(topic)
            assert Exposed(broker.node, broker.server)("raftka_topic_records_in_total", topic) == 1

    run(test)


def test_a_replica_that_has_failed_is_counted(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            exposed = Exposed(broker.node, broker.server)
            assert exposed("raftka_failed_replicas") == 0
            broker.node.backend.failed[broker.partition("t").group] = "its file is gone"
            assert exposed("raftka_failed_replicas") == 1

    run(test)


def test_fsyncs_and_kvstore_syncs_are_measured_for_the_whole_node(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", partitions=2)
            exposed = Exposed(broker.node, broker.server)
            before = exposed("raftka_fsync_seconds").count
            for partition in (0, 1):
                await client.produce("t", partition=partition)
            assert exposed("raftka_fsync_seconds").count >= before + 2
            assert exposed("raftka_fsync_max_seconds") > 0
            assert exposed("raftka_kvstore_sync_seconds").count > 0
            assert exposed("raftka_kvstore_sync_max_seconds") > 0

    run(test)
