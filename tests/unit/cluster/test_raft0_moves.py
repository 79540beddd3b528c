"""raft0 moves between whole nodes: five of seven vote, the others follow its log for good."""

from contextlib import asynccontextmanager

import pytest

from cluster import controller_tables, raft0_voters
from cluster.admin_messages import UpdateFeatureRequest
from cluster.raft0_candidates import raft0_candidates
from model.features import MEMBERSHIP, OFFERED
from model.ids import RAFT0
from raft.group_configuration import NO_REVISION, Revision
from raft.reconfiguration_stm import Reconfiguration
from tests.feature_levels import LEVEL_0
from tests.unit.cluster.cluster_nodes import Cluster, create_request, run, until
from tests.unit.cluster.test_controller_log import SEGMENT_BYTES, churn, cut
from tests.unit.cluster.test_moves import Movable


class Upgraded(Cluster):
    """Nodes of a version that has not got the feature, until they have another one."""

    features = LEVEL_0

    def make(self, number, **changes):
        return super().make(number, features=self.features, **changes)


@asynccontextmanager
async def founded(directory, count, **options):
    """Nodes that are at level 1 from the founding on."""
    cluster = Movable(directory, count, **options)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()


def configuration(cluster, node):
    return cluster[node].groups.get(RAFT0).configuration


def learners_of(cluster, node):
    return sorted(learner.node_id for learner in configuration(cluster, node).learners)


def has_settled(cluster, count, but=()):
    """Every running node's table and log say that raft0 has so many voters, and that all others learn."""
    nodes = list(cluster.nodes)
    brokers = {*cluster.durable} - {*but}
    first = {voter.node_id for voter in cluster[nodes[0]].controller.raft0.voters}
    return len(first) == count and all(
        cluster[node].controller.raft0.move is None
        and {voter.node_id for voter in cluster[node].controller.raft0.voters} == first
        and not configuration(cluster, node).is_joint
        and {*configuration(cluster, node).voter_ids} == first
        and {*learners_of(cluster, node)} == brokers - first
        for node in nodes
    )


async def settled(cluster, count, but=(), seconds=40):
    """Wait for that; return voters and learners."""
    await until(lambda: has_settled(cluster, count, but), seconds=seconds)
    node = next(iter(cluster.nodes))
    return list(configuration(cluster, node).voter_ids), learners_of(cluster, node)


async def create_at(cluster, node, name):
    """Create a topic at a node, and wait until every running one knows it."""
    await until(cluster.has_controller)
    await cluster[node].admin.create_topic(create_request(name))
    await until(lambda: all(each.controller.topics.get(name) for each in cluster.nodes.values()))


async def leader_of_raft0(cluster):
    await until(lambda: cluster.controller is not None)
    return int(cluster.controller.options.node_id)


def gone(patch, *, leaving=(), retired=(), changed=NO_REVISION):
    """As if these brokers were being decommissioned, and the directories of those were retired by a command."""

    def judged(members):
        found = raft0_candidates(members)
        admitted = [
            each._replace(qualifies=each.replica.node_id not in leaving)
            for each in found.admitted
            if each.replica.node_id not in retired
        ]
        directories = [
            each.directory_id for each in (member.replica for member in members.admitted()) if each.node_id in retired
        ]
        return found._replace(admitted=tuple(admitted), retired=frozenset(directories), changed=changed)

    for module in (raft0_voters, controller_tables):
        patch.setattr(module, "raft0_candidates", judged)


def test_five_of_seven_vote_the_others_learn_and_two_voters_may_die(tmp_path):
    async def test():
        async with founded(tmp_path, 7) as cluster:
            voters, learners = await settled(cluster, 5)
            assert len(learners) == 2
            await create_at(cluster, learners[0], "a")
            # What is told of raft0, asked for at a learner.
            status = await cluster[learners[1]].quorum.read()
            assert [each.node_id for each in status.voters] == voters
            assert [each.node_id for each in status.learners] == learners
            leader = await leader_of_raft0(cluster)
            dead = [leader, next(node for node in voters if node != leader)]
            await cluster.stop(*dead)
            await create_at(cluster, learners[0], "b")
            # Who is down only stays a voter.
            assert list(configuration(cluster, learners[0]).voter_ids) == voters
            # A learner restarts: it has its tables, and learns as before.
            await cluster.stop(learners[0])
            await create_at(cluster, learners[1], "c")
            await cluster.start(learners[0])
            assert cluster[learners[0]].controller.topics.get("c") is not None
            assert learners_of(cluster, learners[0]) == learners
            await cluster.start(*dead)
            assert await settled(cluster, 5) == (voters, learners)

    run(test, seconds=120)


def test_raft0_moves_once_the_level_is_raised_and_not_before(tmp_path):
    async def test():
        cluster = Upgraded(tmp_path, 4)
        try:
            await cluster.start()
            await cluster.stop()
            cluster.features = OFFERED
            await cluster.start()
            await create_at(cluster, 1, "a")
            assert all(cluster[node].controller.raft0.placement is None for node in cluster.nodes)
            assert all(cluster[node].groups.get(RAFT0).reconfiguration.target is None for node in cluster.nodes)
            await until(cluster.has_controller)
            await cluster[1].admin.update_feature(
                UpdateFeatureRequest(MEMBERSHIP, 1, validate_only=False, timeout=10.0)
            )
            voters, learners = await settled(cluster, 3)
            # All voted, and the leader stays.
            assert sorted(voters + learners) == [1, 2, 3, 4]
            assert await leader_of_raft0(cluster) in voters
        finally:
            await cluster.stop()

    run(test, seconds=90)


def test_voters_and_learners_are_the_same_after_raft0_was_read_from_a_snapshot(tmp_path):
    async def test():
        async with founded(tmp_path, 4, raft0_segment_bytes=SEGMENT_BYTES) as cluster:
            voters, (learner,) = await settled(cluster, 3)
            placement = cluster[learner].controller.raft0.saved
            # The learner misses it all, and gets the snapshot.
            await cluster.stop(learner)
            await until(cluster.has_controller)
            await churn(cluster, 10)
            start = await cut(cluster)
            await cluster.start(learner)
            assert cluster[learner].controller.consensus.log.start_index == start
            assert cluster[learner].controller.raft0.saved == placement
            assert await settled(cluster, 3) == (voters, [learner])
            # All of them read it from their disks.
            await cluster.stop()
            await cluster.start()
            assert await settled(cluster, 3) == (voters, [learner])
            assert {node.controller.raft0.saved for node in cluster.nodes.values()} == {placement}
            await create_at(cluster, learner, "b")

    run(test, seconds=90)


@pytest.mark.parametrize("who", ["the leader", "a follower"])
def test_a_voter_that_is_decommissioned_gives_way_to_a_learner_and_learns(tmp_path, monkeypatch, who):
    async def test():
        async with founded(tmp_path, 7) as cluster:
            voters, learners = await settled(cluster, 5)
            leader = await leader_of_raft0(cluster)
            leaving = leader if who == "the leader" else next(node for node in voters if node != leader)
            gone(monkeypatch, leaving=[leaving])
            await until(lambda: leaving not in configuration(cluster, leaving).voter_ids, seconds=40)
            now, others = await settled(cluster, 5)
            assert now == sorted({*voters, learners[0]} - {leaving})
            assert others == sorted({*learners, leaving} - {learners[0]})
            assert await leader_of_raft0(cluster) != leaving
            await create_at(cluster, leaving, "a")

    run(test, seconds=90)


def test_a_voter_whose_directory_is_retired_goes_and_a_learner_votes(tmp_path, monkeypatch):
    async def test():
        async with founded(tmp_path, 4) as cluster:
            voters, (learner,) = await settled(cluster, 3)
            leader = await leader_of_raft0(cluster)
            lost = next(node for node in voters if node != leader)
            await cluster.stop(lost)
            await until(cluster.has_controller)
            changed = Revision(0, cluster[leader].controller.applied_index)
            gone(monkeypatch, retired=[lost], changed=changed)
            await until(lambda: lost not in configuration(cluster, leader).voter_ids, seconds=40)
            now, others = await settled(cluster, 3, but=[lost])
            assert (now, others) == (sorted({*voters, learner} - {lost}), [])
            await create_at(cluster, learner, "a")

    run(test, seconds=90)


def test_a_voter_waits_for_a_learner_that_is_there(tmp_path, monkeypatch):
    async def test():
        async with founded(tmp_path, 4) as cluster:
            voters, (learner,) = await settled(cluster, 3)
            leader = await leader_of_raft0(cluster)
            leaving = next(node for node in voters if node != leader)
            await cluster.stop(learner)
            await until(lambda: not cluster.controller.is_alive(learner))
            gone(monkeypatch, leaving=[leaving])
            end = cluster.controller.controller.applied_index
            await create_at(cluster, leaving, "a")
            assert cluster.controller.controller.applied_index == end + 1
            await cluster.start(learner)
            await until(lambda: learner in configuration(cluster, learner).voter_ids, seconds=40)
            assert await settled(cluster, 3) == (sorted({*voters, learner} - {leaving}), [leaving])

    run(test, seconds=90)


def test_a_learner_that_is_lost_before_it_votes_gives_way_to_another_one(tmp_path, monkeypatch):
    async def test():
        async with founded(tmp_path, 7) as cluster:
            voters, (first, second) = await settled(cluster, 5)
            leader = await leader_of_raft0(cluster)
            leaving = next(node for node in voters if node != leader)
            is_caught_up = Reconfiguration._is_caught_up
            monkeypatch.setattr(
                Reconfiguration,
                "_is_caught_up",
                lambda self, learner: learner.node_id != first and is_caught_up(self, learner),
            )
            gone(monkeypatch, leaving=[leaving])
            table = cluster[leader].controller.raft0
            await until(lambda: table.move is not None and first in {each.node_id for each in table.move.target})
            await cluster.stop(first)
            now, others = await settled(cluster, 5)
            assert (now, others) == (sorted({*voters, second} - {leaving}), sorted((first, leaving)))

    run(test, seconds=90)
