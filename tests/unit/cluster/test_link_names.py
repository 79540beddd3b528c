"""Names of groups on links: replicas that know of another force never hear each other."""

import pytest

from cluster.leadership import PUSH_LEADERSHIP, LeadershipPush, LedGroup
from cluster.leadership_moves import MOVE_LEADERSHIP, MoveRequest
from cluster.partition_status import PARTITION_STATUS, PartitionStatusReader, StatusRequest
from cluster.placements import PlacementReport, ReachedPlacement
from cluster.telemetry.telemetry_relay import PUBLISH_TELEMETRY, PublishRequest
from cluster.visible_ends import VISIBLE_ENDS, VisibleEndsRequest
from model.ids import RAFT0, GroupId, NodeId, Term
from raft.group_configuration import Revision
from raft.link_methods import APPEND_ENTRIES, HEARTBEAT, STEPPED_DOWN, TIMEOUT_NOW, VOTE
from raft.link_names import LinkNames
from raft.messages import (
    AppendEntriesRequest,
    AppendStatus,
    Heartbeat,
    HeartbeatRequest,
    StepDownNotice,
    TimeoutNowRequest,
    VoteRequest,
)
from tests.unit.cluster.cluster_nodes import cluster_of, run, until

GROUP = GroupId("a" * 32 + "/0")
FORCED = Revision(0, 71)
LATER = Revision(1, 3)


def test_a_group_that_nobody_has_forced_is_called_by_its_id():
    names = LinkNames()
    assert names.name_of(GROUP) == GROUP
    assert names.group_of(GROUP) == GROUP
    assert names.name_of(RAFT0) == RAFT0
    assert names.group_of(RAFT0) == RAFT0
    assert names.group_of(f"{GROUP}~0.71") is None


def test_a_group_that_was_forced_is_called_by_the_newest_revision_only():
    names = LinkNames()
    names.force(GROUP, FORCED)
    assert names.name_of(GROUP) == f"{GROUP}~0.71"
    assert names.group_of(f"{GROUP}~0.71") == GROUP
    assert names.group_of(GROUP) is None
    names.force(GROUP, LATER)
    assert names.group_of(f"{GROUP}~1.3") == GROUP
    assert names.group_of(f"{GROUP}~0.71") is None
    other = GroupId("b" * 32 + "/0")
    assert names.name_of(other) == other


@pytest.mark.parametrize(
    "tail", ["~", "~~", "~0", "~0.", "~.71", "~0.071", "~00.71", "~0.71 ", "~0.71~0.71", "~-0.71", "~x"]
)
def test_a_name_that_is_not_to_the_letter_is_of_no_group(tail):
    names = LinkNames()
    assert names.group_of(GROUP + tail) is None
    names.force(GROUP, FORCED)
    assert names.group_of(GROUP + tail) is None


def test_only_a_later_revision_forces_and_raft0_is_never_forced():
    names = LinkNames()
    names.force(GROUP, FORCED)
    for group, revision in ((GROUP, FORCED), (GROUP, Revision(0, 70)), (RAFT0, FORCED)):
        with pytest.raises(AssertionError):
            names.force(group, revision)


def test_a_replica_that_was_not_forced_knows_nothing_of_the_forced_name(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            leader = cluster.leader_of("t")
            at = NodeId(int(leader.leader_id))
            sender = next(cluster[number] for number in cluster.nodes if number != at)
            term = leader.leader_epoch
            await _knows_nothing_of(f"{leader.group}~0.71", sender, at, term)
            assert leader.is_in_office
            assert leader.leader_epoch == term

    run(test)


def test_a_replica_that_was_forced_knows_nothing_of_the_old_name(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            leader = cluster.leader_of("t")
            at = NodeId(int(leader.leader_id))
            sender = next(cluster[number] for number in cluster.nodes if number != at)
            cluster[at].groups.link_names.force(leader.group, FORCED)
            await _knows_nothing_of(leader.group, sender, at, leader.leader_epoch)

    run(test)


async def _knows_nothing_of(name, sender, at, term):
    """Send a replica each message that names its group by `name`."""

    async def ask(method, request):
        return await sender.links.send(at, method, request, timeout=5)

    vote = await ask(VOTE, VoteRequest(name, term + 5, 10**6, term + 4, False, True))
    assert (vote.granted, vote.term, vote.reason) == (False, 0, "no such replica here")
    append = await ask(APPEND_ENTRIES, AppendEntriesRequest(name, term + 5, 0, 0, 0, 0, True))
    beat = (await ask(HEARTBEAT, HeartbeatRequest([Heartbeat(name, term + 5, 0, 0, -1, 0)]))).replies[0]
    assert append.status == beat.status == AppendStatus.UNKNOWN_GROUP
    assert not (await ask(TIMEOUT_NOW, TimeoutNowRequest(name, term, 10**6))).accepted
    await ask(STEPPED_DOWN, StepDownNotice(name, term))
    moved = await ask(MOVE_LEADERSHIP, MoveRequest(name, int(sender.options.node_id)))
    assert f"no replica of {name}" in moved.refusal
    assert (await ask(VISIBLE_ENDS, VisibleEndsRequest([name]))).ends == [-1]


def test_news_of_a_leader_count_by_the_name_that_the_hearer_has(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 2) as cluster:

            async def push(name, term):
                news = LeadershipPush([LedGroup(name, term, [2])])
                await cluster[2].links.send(NodeId(1), PUSH_LEADERSHIP, news, timeout=5)
                return cluster[1].leadership.leader_of(GROUP)

            assert await push(f"{GROUP}~0.71", 9) is None
            assert (await push(GROUP, 5)).term == Term(5)
            cluster[1].groups.link_names.force(GROUP, FORCED)
            assert (await push(GROUP, 9)).term == Term(5)
            assert (await push(f"{GROUP}~0.71", 8)).term == Term(8)

    run(test)


def test_telemetry_and_status_are_asked_for_by_the_name_on_links(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 2) as cluster:
            await cluster.create_topic("t", 1, 2)
            group = cluster.leader_of("t").group
            node = cluster[1]
            readers = [
                PartitionStatusReader(each.links, each.partitions, each.options.node_id)
                for each in cluster.nodes.values()
            ]

            async def status(name):
                return (await node.links.send(NodeId(2), PARTITION_STATUS, StatusRequest(name), timeout=5)).role

            async def publish(name):
                request = PublishRequest(name, 1, 5.0)
                return (await node.links.send(NodeId(2), PUBLISH_TELEMETRY, request, [b"x"], timeout=5)).error

            assert await status(group) in "FL"
            assert await status(f"{group}~0.71") == "-"
            assert "no such partition" in await publish(f"{group}~0.71")
            node.groups.link_names.force(group, FORCED)
            topic = node.controller.topics.get("t")
            assert [each.role for each in await readers[0].gather(topic, 0) if each.node_id == 2] == ["-"]

    run(test)


def test_a_group_goes_on_among_those_who_have_applied_the_force(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            await cluster.produce("t", b"before")
            leader = cluster.leader_of("t")
            group, at = leader.group, int(leader.leader_id)
            late = next(number for number in cluster.nodes if number != at)
            for number in cluster.nodes:
                if number != late:
                    cluster[number].groups.link_names.force(group, FORCED)
            await cluster.produce("t", b"among two")
            replica = cluster[late].groups.get(group)
            assert replica.log.dirty_index < leader.gauges.indexes.dirty
            cluster[late].groups.link_names.force(group, FORCED)
            await until(lambda: replica.state.commit_index >= leader.gauges.indexes.commit)
            # Any broker asks for the rest by the same name.
            assert await cluster[late].visible_ends.read([group]) == {group: 2}
            await until(lambda: cluster[late].leadership.leader_of(group) is not None)
            loop_time = cluster[late].groups.get(group)._context.now()
            await cluster[late].moves.move(group, NodeId(late), loop_time + 10)

    run(test)


def test_a_report_of_a_move_by_another_name_finishes_nothing(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            await cluster.create_topic("t")
            group = cluster.leader_of("t").group
            before = cluster[1].controller.topics.get("t")
            report = PlacementReport([ReachedPlacement(f"{group}~0.71", Revision(0, 5))], 5.0)
            assert (await cluster[1].placements.report(report)).error == ""
            assert cluster[1].controller.topics.get("t") == before

    run(test)
