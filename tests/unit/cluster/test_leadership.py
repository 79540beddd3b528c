"""Who leads what, as every node knows it."""

from cluster_nodes import cluster_of, run, until

from cluster.leadership import PUSH_LEADERSHIP, Leader, LeadershipPush, LedGroup
from model.ids import GroupId, NodeId, Term
from tests.engine import consensus_of

STRANGE = GroupId("f" * 32 + "/0")


def test_a_node_without_a_replica_learns_the_leader_and_its_in_sync_set(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", assignment=[[2, 1]])
            group = cluster[3].controller.topics.get("t").group(0)
            assert cluster[3].groups.get(group) is None
            leader = cluster[3].leadership.leader_of(group)
            assert leader.node_id in (1, 2)
            assert leader.term == cluster.leader_of("t").leader_epoch

    run(test)


def test_the_highest_term_wins_and_late_news_do_no_harm(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:

            async def push(sender, term, *in_sync):
                news = LeadershipPush([LedGroup(STRANGE, term, list(in_sync))])
                await cluster[sender].links.send(NodeId(1), PUSH_LEADERSHIP, news, timeout=5)
                return cluster[1].leadership.leader_of(STRANGE)

            changes = []
            cluster[1].leadership.add_listener(lambda: changes.append(1))
            assert cluster[1].leadership.leader_of(STRANGE) is None
            assert await push(2, 5, 2, 3) == Leader(Term(5), NodeId(2), (NodeId(2), NodeId(3)))
            assert (await push(3, 4, 3)).node_id == 2
            assert (await push(3, 6, 3)) == Leader(Term(6), NodeId(3), (NodeId(3),))
            assert (await push(2, 5, 2)).node_id == 3
            assert len(changes) == 2
            # The same leader tells of another in-sync set, then repeats itself.
            assert (await push(3, 6, 1, 3)).in_sync == (1, 3)
            await push(3, 6, 1, 3)
            assert len(changes) == 3
            cluster[1].leadership.forget(STRANGE)
            assert cluster[1].leadership.leader_of(STRANGE) is None

    run(test)


def test_after_a_leader_is_gone_all_others_learn_the_new_one_with_a_higher_term(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            group = cluster[1].controller.topics.get("t").group(0)
            old = cluster[1].leadership.leader_of(group)
            await cluster.stop(int(old.node_id))
            await until(lambda: cluster.has_leaders("t"))
            new = [node.leadership.leader_of(group) for node in cluster.nodes.values()]
            assert new[0] == new[1]
            assert new[0].term > old.term
            assert new[0].node_id != old.node_id

    run(test)


def test_a_node_that_comes_back_is_told_at_once_instead_of_at_the_next_repetition(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", assignment=[[1], [2]])
            await cluster.stop(3)
            await cluster.start(3)
            await until(lambda: cluster.has_leaders("t"), seconds=3)

    run(test)


def test_a_deposed_leader_does_not_name_itself(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            partition = cluster.leader_of("t")
            node = cluster[int(consensus_of(partition).state.node_id)]
            consensus_of(partition).step_down("test")
            leader = node.leadership.leader_of(partition.group)
            assert leader is None
            await until(lambda: cluster.has_leaders("t"))

    run(test)


def test_a_deleted_topics_leader_is_forgotten_even_where_it_had_no_replica(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            topic_id = await cluster.create_topic("t", assignment=[[1]])
            group = cluster[3].controller.topics.get("t").group(0)
            assert cluster[3].leadership.leader_of(group) is not None
            await cluster.delete_topic(topic_id)
            await until(lambda: all(node.leadership.leader_of(group) is None for node in cluster.nodes.values()))

    run(test)
