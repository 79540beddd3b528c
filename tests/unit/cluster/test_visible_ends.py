"""Link method 28: up to where consumers may read partitions that others lead."""

import asyncio

import pytest

from cluster.visible_ends import GROUPS_MAX, VISIBLE_ENDS, VisibleEndsReply, VisibleEndsRequest
from model.ids import GroupId
from rpc.errors import RemoteError
from tests.unit.cluster.cluster_nodes import cluster_of, run, until


def test_ends_of_partitions_that_all_brokers_lead_come_from_their_leaders(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 1, assignment=[[1], [2], [3]])
            for number in range(3):
                await cluster.produce("t", *[b"x"] * (number + 1), number=number)
            topic = cluster[1].controller.topics.get("t")
            groups = [topic.group(number) for number in range(3)]
            for node in cluster.nodes.values():
                assert await node.visible_ends.read(groups) == dict(zip(groups, [1, 2, 3], strict=True))

    run(test)


def test_the_end_of_a_partition_whose_leader_is_gone_is_unknown(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 1, assignment=[[1], [2], [3]])
            topic = cluster[1].controller.topics.get("t")
            groups = [topic.group(number) for number in range(3)]
            await cluster.stop(3)
            assert await cluster[1].visible_ends.read([*groups, GroupId("nothing/0")]) == {groups[0]: 0, groups[1]: 0}

    run(test)


def test_a_broker_tells_no_end_of_what_it_does_not_lead(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            leader = cluster.leader_of("t")
            asked = VisibleEndsRequest([leader.group, "nothing/0", ""])
            for number, node in cluster.nodes.items():
                other = next(each for each in cluster.nodes if each != number)
                await until(lambda node=node, other=other: node.links.is_up(other))
                is_led = leader is cluster[other].partitions.get(leader.group)
                reply = await node.links.send(other, VISIBLE_ENDS, asked, timeout=5)
                assert reply.ends == [0 if is_led else -1, -1, -1]

    run(test)


def test_a_request_for_too_many_ends_is_refused_and_a_broker_asks_in_several(tmp_path, monkeypatch):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            with pytest.raises(RemoteError, match=f"{GROUPS_MAX + 1} partitions are asked for, at most {GROUPS_MAX}"):
                await cluster[1].links.send(2, VISIBLE_ENDS, VisibleEndsRequest(["g"] * (GROUPS_MAX + 1)), timeout=5)
            monkeypatch.setattr("cluster.visible_ends.GROUPS_MAX", 2)
            await cluster.create_topic("t", 5, 1, assignment=[[2]] * 5)
            topic = cluster[1].controller.topics.get("t")
            groups = [topic.group(number) for number in range(5)]
            assert await cluster[1].visible_ends.read(groups) == dict.fromkeys(groups, 0)

    run(test)


def test_an_answer_of_another_length_and_ends_below_zero_are_unknown(tmp_path, monkeypatch):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 1, assignment=[[2], [2]])
            topic = cluster[1].controller.topics.get("t")
            groups = [topic.group(number) for number in range(2)]
            for told, known in (([7], {}), ([7, 8, 9], {}), ([7, -5], {groups[0]: 7})):
                answer = asyncio.get_running_loop().create_future()
                answer.set_result(VisibleEndsReply(told))
                monkeypatch.setattr(cluster[1].links, "send", lambda *_, answer=answer, **__: answer)
                assert await cluster[1].visible_ends.read(groups) == known
            monkeypatch.undo()

    run(test)
