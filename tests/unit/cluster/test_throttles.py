"""Throttled moves between whole nodes: what is set on topics and nodes, and what comes of it."""

import asyncio
from dataclasses import replace

import pytest

from cluster.admin_messages import AlterTopicConfigsRequest
from cluster.commands import AlterTopicConfigs, CreateTopic
from cluster.errors import FeatureLevelError, InvalidTopicConfigError
from cluster.topic_changes import ConfigChange, ConfigOperation
from model.features import OFFERED
from model.ids import GroupId
from tests.feature_levels import LEVEL_0
from tests.unit.cluster.cluster_nodes import cluster_of, create_request, run, until
from tests.unit.cluster.test_moves import acknowledged, ask, assert_kept, movable, until_held, writes
from tests.unit.cluster.test_placements import TOPIC, Machine, fixture_machine, raised, records  # noqa: F401

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
RATE = 50_000


async def configure(cluster, **configs):
    """Set or, with None, delete throttled replicas of `t`, at each node."""
    await until(cluster.has_controller)
    keys = {"leaders": LEADERS, "followers": FOLLOWERS}
    changes = [
        ConfigChange(keys[name], ConfigOperation.DELETE if value is None else ConfigOperation.SET, value)
        for name, value in configs.items()
    ]
    reply = await cluster[1].admin.alter_topic_configs(AlterTopicConfigsRequest("t", changes, False, False, 10.0))
    for node in cluster.nodes.values():
        await node.controller.wait_applied(reply.applied_index)


def limit(cluster, leader=None, follower=None):
    """Let these rates be in force on each node; None: as before."""
    for node in cluster.nodes.values():
        now = node.options.raft
        rates = {
            "leader_throttled_rate": now.leader_throttled_rate if leader is None else leader,
            "follower_throttled_rate": now.follower_throttled_rate if follower is None else follower,
        }
        node.change_options(replace(node.options, raft=replace(now, **rates)))


def throttled_bytes(cluster):
    return sum(node.groups.probe.throttled_bytes for node in cluster.nodes.values())


def recovered_bytes(cluster):
    return sum(node.groups.probe.recovery_bytes for node in cluster.nodes.values())


def waits(cluster, group):
    """What the replicas of a group wait for."""
    open_here = [node.groups.get(GroupId(group)) for node in cluster.nodes.values()]
    return [each.reconfiguration.waits_for for each in open_here if each is not None]


async def fill(cluster, count=40):
    for _ in range(count):
        await cluster.produce("t", bytes(range(256)) * 40)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_move_is_slow_says_why_and_goes_on_at_once_when_its_rate_is_raised(tmp_path, side):
    async def test():
        async with movable(tmp_path) as cluster:
            await cluster.create_topic("t", 1, 3, assignment=[[1, 2, 3]])
            await fill(cluster)
            await configure(cluster, leaders="0:1,0:2,0:3", followers="0:4")
            limit(cluster, **{side: 20_000})
            loop = asyncio.get_running_loop()
            began, before = loop.time(), recovered_bytes(cluster)
            group = cluster.leader_of("t").group
            assert await ask(cluster, (0, [1, 2, 4])) == {}
            await until(lambda: throttled_bytes(cluster) > 60_000)
            # Four hundred thousand bytes would take 20 s.
            seconds = loop.time() - began
            assert recovered_bytes(cluster) - before <= 20_000 * (seconds + 1.5) + 4 * 16_384
            (why,) = {each for each in waits(cluster, group) if "gets at most" in each}
            assert f"at most 20000 bytes/s: {side}.replication.throttled.rate of broker" in why
            limit(cluster, **{side: 2**63 - 1})
            await until_held(cluster, 1, 2, 4)

    run(test)


def test_a_throttled_move_ends_under_writes_below_the_rate_and_keeps_what_was_acknowledged(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await cluster.create_topic("t", 1, 3, assignment=[[1, 2, 3]])
            await fill(cluster, 20)
            limit(cluster, 200_000, 200_000)
            await configure(cluster, leaders="*", followers="*")
            async with writes(cluster) as written:
                assert await ask(cluster, (0, [2, 3, 4])) == {}
                group = await until_held(cluster, 2, 3, 4)
            assert_kept(written, await acknowledged(cluster, group, 2, 3, 4))
            assert throttled_bytes(cluster) > 150_000

    run(test)


def test_a_throttled_move_is_cancelled_and_one_whose_lists_are_deleted_is_not_slow(tmp_path):
    async def test():
        async with movable(tmp_path) as cluster:
            await cluster.create_topic("t", 1, 3, assignment=[[1, 2, 3]])
            await fill(cluster)
            limit(cluster, 0, 0)
            await configure(cluster, leaders="0:1,0:2,0:3", followers="0:4")
            assert await ask(cluster, (0, [1, 2, 4])) == {}
            group = cluster.leader_of("t").group
            await until(lambda: any("gets at most 0 bytes/s" in each for each in waits(cluster, group)))
            assert await ask(cluster, (0, None)) == {}
            await until_held(cluster, 1, 2, 3)
            await configure(cluster, leaders=None, followers=None)
            assert await ask(cluster, (0, [1, 2, 4])) == {}
            await until_held(cluster, 1, 2, 4)
            assert throttled_bytes(cluster) == 0

    run(test)


def test_throttled_replicas_are_refused_below_the_level_of_the_feature_and_a_wrong_list_always(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1, features=LEVEL_0) as cluster:
            await cluster.create_topic("t")
            with pytest.raises(FeatureLevelError, match=r"throttled replicas need raftka\.membership at level 1"):
                await configure(cluster, leaders="0:1")
            with pytest.raises(FeatureLevelError, match="throttled replicas need"):
                await cluster[1].admin.create_topic(create_request("u", configs={FOLLOWERS: "*"}))
            with pytest.raises(InvalidTopicConfigError, match=r"follower.*'0-1' is no partition:broker"):
                await configure(cluster, followers="0-1")
            # What was never set may be deleted: Kafka's tool does that without looking.
            await configure(cluster, leaders=None, followers=None)

    run(test)


def test_the_tables_refuse_throttled_replicas_below_the_level_and_take_them_at_it(machine):
    commands = [AlterTopicConfigs(TOPIC, {LEADERS: "0:1"}), CreateTopic("u", "b" * 32, [records(1)], {FOLLOWERS: "*"})]
    for command in commands:
        assert isinstance(machine.apply(command), FeatureLevelError)
    raised(machine)
    for command in commands:
        assert machine.apply(command) is None
    other = Machine(OFFERED)
    other.restore(machine.saved())
    assert other.state.tables.topics.get("t").config.leader_replication_throttled_replicas == "0:1"
