"""Brokers that do not hold a partition stop believing in its leader once it leads no more, whoever follows."""

import json
from types import SimpleNamespace

import pytest
from cluster_nodes import cluster_of, run, until

from cluster import leadership
from cluster.leadership import (
    PUSH_ENDED_LEADERSHIP,
    PUSH_LEADERSHIP,
    EndedLeadership,
    EndedPush,
    LeadershipPush,
    LedGroup,
)
from kafka_api.handlers.cluster_view import partition_view
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import GroupId, NodeId
from raftka.broker.partition_json import render_partitions
from tests.engine import consensus_of
from tests.feature_levels import LEVEL_0

STRANGE = GroupId("f" * 32 + "/0")


async def push(cluster, sender, term, *in_sync):
    """Node `sender` tells node 1 that it leads; return what node 1 believes then."""
    news = LeadershipPush([LedGroup(STRANGE, term, list(in_sync))])
    await cluster[sender].links.send(NodeId(1), PUSH_LEADERSHIP, news, timeout=5)
    return believed(cluster)


async def push_end(cluster, sender, term):
    """Node `sender` tells node 1 that it leads no more; return what node 1 believes then."""
    news = EndedPush([EndedLeadership(STRANGE, term)])
    await cluster[sender].links.send(NodeId(1), PUSH_ENDED_LEADERSHIP, news, timeout=5)
    return believed(cluster)


def believed(cluster):
    leader = cluster[1].leadership.leader_of(STRANGE)
    return None if leader is None else (int(leader.node_id), int(leader.term))


async def until_level_1(cluster):
    await until(lambda: all(node.leadership._news_end() for node in cluster.nodes.values()))


def test_outsiders_learn_that_nobody_leads_a_partition_without_a_majority(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 5) as cluster:
            await until_level_1(cluster)
            await cluster.create_topic("t", assignment=[[1, 2, 3]] * 2)
            topic = cluster[4].controller.topics.get("t")
            # One of the three leads both or one each: what stays leads the first.
            stays = int(consensus_of(cluster.leader_of("t")).state.node_id)
            group = topic.group(0)
            await until(lambda: all(cluster[outsider].health.is_led(group) for outsider in (4, 5)))
            term = cluster[4].leadership.newest_term(group)
            await cluster.stop(*({1, 2, 3} - {stays}))
            for outsider in (4, 5):
                node = cluster[outsider]
                await until(lambda node=node: node.leadership.leader_of(group) is None, seconds=15)
                assert node.leadership.newest_term(group) == term
                assert node.leadership.newest_leader(group) == stays
                assert not node.health.is_led(group)
                assert (await rows_of(node, topic))[0] == (-1, [], "offline")
                view = partition_view(SimpleNamespace(node=node), topic, 0)
                assert (view.error, view.leader_id, view.leader_epoch) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, term)
                assert view.in_sync == []
            await until(cluster.has_controller)
            await until(lambda: cluster.controller.health.cluster().offline_partitions == 2)

    run(test, seconds=60)


async def rows_of(node, topic):
    rows = json.loads(await render_partitions(node, [topic]))["partitions"]
    return [(row["leader"], row["in_sync"], row["status"]) for row in rows]


def test_the_broker_that_comes_later_is_told_of_the_end_too(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 5) as cluster:
            await until_level_1(cluster)
            await cluster.create_topic("t", assignment=[[1, 2, 3]])
            stays = int(consensus_of(cluster.leader_of("t")).state.node_id)
            group = cluster[4].controller.topics.get("t").group(0)
            leader = cluster[4].leadership.leader_of(group)
            await cluster.stop(*({1, 2, 3} - {stays}))
            await until(lambda: cluster[4].leadership.leader_of(group) is None, seconds=15)
            # As if the message had been lost with the link: the old news stand again.
            cluster[4].leadership._heard[group].has_ended = False
            # By then the leader has told of an in-sync set that differs.
            assert cluster[4].leadership.leader_of(group)[:2] == leader[:2]
            cluster[stays].leadership._tell_all(NodeId(4))
            await until(lambda: cluster[4].leadership.leader_of(group) is None, seconds=3)

    run(test, seconds=60)


def test_an_end_that_comes_late_leaves_the_leader_of_a_newer_term(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await push(cluster, 2, 5, 2)
            assert await push(cluster, 3, 6, 3) == (3, 6)
            assert await push_end(cluster, 2, 5) == (3, 6)
            assert await push_end(cluster, 3, 6) is None

    run(test)


def test_the_end_of_a_term_is_not_undone_by_a_late_report_of_it(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            changes = []
            cluster[1].leadership.add_listener(lambda: changes.append(1))
            assert await push(cluster, 2, 5, 2) == (2, 5)
            assert await push_end(cluster, 2, 5) is None
            assert await push_end(cluster, 2, 5) is None
            assert len(changes) == 2
            assert await push(cluster, 2, 5, 2, 3) is None
            assert len(changes) == 2
            assert await push(cluster, 2, 7, 2) == (2, 7)

    run(test)


def test_the_end_of_a_later_term_ends_the_older_leader_that_is_known(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            assert await push(cluster, 2, 5, 2) == (2, 5)
            # Node 3 was elected after node 2, and its report was lost.
            assert await push_end(cluster, 3, 6) is None
            assert cluster[1].leadership.newest_term(STRANGE) == 6
            assert await push(cluster, 2, 5, 2) is None

    run(test)


def test_only_the_leader_itself_ends_its_term(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            assert await push(cluster, 2, 5, 2) == (2, 5)
            assert await push_end(cluster, 3, 5) == (2, 5)

    run(test)


def test_the_end_of_what_was_never_heard_of_leaves_nothing(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            assert await push_end(cluster, 2, 5) is None
            assert cluster[1].leadership.newest_term(STRANGE) == -1

    run(test)


def test_news_that_nobody_repeats_are_not_believed_until_they_are_repeated(tmp_path, monkeypatch):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await until_level_1(cluster)
            changes = []
            await push(cluster, 2, 5, 2)
            monkeypatch.setattr(leadership, "BELIEVED_SECONDS", 0.0)
            assert believed(cluster) is None
            assert cluster[1].leadership.newest_term(STRANGE) == 5
            cluster[1].leadership.add_listener(lambda: changes.append(1))
            await push(cluster, 2, 5, 2)
            assert len(changes) == 1
            monkeypatch.setattr(leadership, "BELIEVED_SECONDS", 60.0)
            assert believed(cluster) == (2, 5)

    run(test)


@pytest.mark.parametrize(("features", "told"), [(LEVEL_0, 0), (None, 1)])
def test_an_end_is_told_only_where_all_brokers_know_the_message(tmp_path, monkeypatch, features, told):
    async def test():
        async with cluster_of(tmp_path, 3, features=features) as cluster:
            if features is None:
                await until_level_1(cluster)
            await cluster.create_topic("t", assignment=[[1, 2]])
            consensus = consensus_of(cluster.leader_of("t"))
            teller = cluster[int(consensus.state.node_id)]
            sent = []
            monkeypatch.setattr(teller.links, "send", lambda _, method, *__, **___: sent.append(method.name))
            consensus.step_down("test")
            assert teller.leadership._left == {consensus.group: 0}
            teller.leadership._left[consensus.group] = leadership._LOOKS_BEFORE_END
            teller.leadership._tell_all(NodeId(3))
            assert sent.count("push_ended_leadership") == told
            monkeypatch.undo()

    run(test)


def test_news_are_believed_for_ever_below_the_level(tmp_path, monkeypatch):
    async def test():
        async with cluster_of(tmp_path, 3, features=LEVEL_0) as cluster:
            monkeypatch.setattr(leadership, "BELIEVED_SECONDS", 0.0)
            assert await push(cluster, 2, 5, 2) == (2, 5)

    run(test)


def test_a_leader_that_hands_over_tells_no_end(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await until_level_1(cluster)
            await cluster.create_topic("t", replication_factor=3)
            leader = consensus_of(cluster.leader_of("t"))
            node = cluster[int(leader.state.node_id)]
            leader.step_down("test")
            assert node.leadership._left
            await until(lambda: cluster.has_leaders("t"), seconds=15)
            # Whoever was elected has told of itself, and nothing is left to say.
            assert node.leadership._left == {}

    run(test)
