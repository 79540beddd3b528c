"""Groups of which a majority of a voter set is lost for good: they wait, are named, and nothing guesses for them."""

import asyncio
from types import SimpleNamespace

from kafka_api.handlers.cluster_view import partition_view
from model.ids import RAFT0
from raft.membership_steps import FORCE
from raft.reconfiguration_stm import Reconfiguration
from raftka.broker.health import HealthReader
from raftka.broker.stall_watch import StallWatch
from raftka.health.findings import to_json
from raftka.health.move_rules import FORCE as DOCTORS_FORCE
from raftka.health.rules import judge
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.cluster.test_joins import Growing
from tests.unit.raftka.admin_ports import ports_of
from tests.unit.raftka.exposed import exposed_by
from tests.unit.raftka.test_move_verbs import _moving


def _ports(directory):
    return ports_of(Growing(directory, 3))


async def _named(ports, condition, at=1, seconds=30):
    """Return the only move once it is as expected; it is asked for over HTTP, and a change of it wakes nobody."""
    async with asyncio.timeout(seconds):
        while True:
            moves = await ports.moves(at=at)
            if len(moves) == 1 and condition(moves[0]):
                return moves[0]
            await asyncio.sleep(0.05)


async def _findings(ports, at=1, what="quorum"):
    node = ports.cluster[at]
    judged = judge(await HealthReader(node, StallWatch(node), lambda: None).read_picture())
    return [to_json(each) for each in judged if each.what == what]


def _configuration(node, topic="t"):
    group = node.controller.topics.get(topic).group(0)
    return node.groups.get(group).configuration


async def _die_before_the_joint_commits(ports, monkeypatch):
    """Move t-0 from broker 1 to 3, and stop broker 3 when broker 1 is about to append the joint configuration."""
    cluster = ports.cluster
    about_to, go_on = asyncio.Event(), asyncio.Event()
    append = Reconfiguration._append

    async def held(self, configuration):
        if configuration.is_joint:
            about_to.set()
            await go_on.wait()
        await append(self, configuration)

    monkeypatch.setattr(Reconfiguration, "_append", held)
    await cluster.create_topic("t", 1, assignment=[[1]])
    assert (await ports.ask("/v1/moves", {"moves": [_moving("t", 0, [3])]}))[0] == 200
    async with asyncio.timeout(20):
        await about_to.wait()
    await cluster.stop(3)
    await until(lambda: not any(node.is_alive(3) for node in cluster.nodes.values()))
    go_on.set()
    return await _named(ports, lambda row: row["state"] == "leaderless" and len(row["voter_sets"]) == 2)


def test_a_group_whose_new_voters_died_before_the_joint_could_commit_waits_and_goes_on_with_them(tmp_path, monkeypatch):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            row = await _die_before_the_joint_commits(ports, monkeypatch)
            # `raftka cluster health` prints these rows.
            assert (row["voter_sets"], row["lost_voter_sets"], row["away"]) == ([[1], [3]], [[3]], [3])
            assert row["waits_for"] == "a majority of the voters 3 answers: broker 3 does not"
            exposed = exposed_by(cluster[1])
            assert exposed("raftka_partition_joint", "t", "0") == 1
            assert exposed("raftka_feature_level", "raftka.membership") == 1
            # The doctor, at every broker.
            for at in (1, 2):
                (finding,) = await _findings(ports, at)
                assert (finding["level"], "t-0" in finding["words"]) == ("problem", True)
                assert finding["cure"].startswith("start broker 3; ")
                assert "decides nothing by itself" in finding["cure"]
            # `raftka broker replace` names it first, and refuses.
            for document in ({"dry_run": True}, {}):
                await until(cluster.has_controller)
                status, body = await ports.ask("/v1/brokers/3/retire-directory", document)
                assert (status, [each["partition"] for each in body["without_majority"]]) == (409, ["t-0"])
            assert body["error"] == "WITHOUT_MAJORITY"
            assert body["without_majority"][0]["why"] == "no majority of the voters 3 answers: broker 3 does not"
            _, body = await ports.ask("/v1/brokers/1/decommission", {})
            wait = "its move, which waits until a majority of the voters 3 answers: broker 3 does not"
            assert body["waiting"] == [{"partition": "t-0", "why": wait}]
            assert f"1 waits: t-0 for {wait}" in body["waits_for"]
            assert (await ports.ask("/v1/brokers/1/recommission", {}))[0] == 200
            # A cancellation needs the new voters as well: nothing is guessed.
            for document in ({"dry_run": True}, {}):
                status, body = await ports.ask("/v1/moves/cancel", {"all": True, **document})
                assert (status, [each["waits_for"] for each in body["partitions"]]) == (200, [row["waits_for"]])
            status, body = await ports.ask("/v1/moves", {"moves": [_moving("t", 0, [2])], "dry_run": True})
            assert (status, body["partitions"][0]["waits_for"]) == (200, row["waits_for"])
            await _named(ports, lambda row: row["is_cancelled"] and row["lost_voter_sets"] == [[3]])
            assert _configuration(cluster[1]).is_joint
            await cluster.start(3)
            await until(lambda: not any(node.controller.topics.is_moving for node in cluster.nodes.values()))
            assert [each.node_id for each in cluster[1].controller.topics.get("t").replicas[0]] == [1]
            assert await _findings(ports) == []

    run(test, seconds=90)


def test_a_group_whose_new_voter_lost_its_disk_is_still_named_when_its_broker_runs_with_a_new_one(
    tmp_path, monkeypatch
):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            await _die_before_the_joint_commits(ports, monkeypatch)
            await until(cluster.has_controller)
            status, body = await ports.ask("/v1/brokers/3/retire-directory", {"accept_waiting": True})
            assert (status, body["directory_retired"]) == (200, True)
            cluster.wipe(3)
            await cluster.join(3)
            await until(lambda: cluster[1].is_alive(3))
            row = await _named(ports, lambda row: row["lost_voter_sets"] == [[3]])
            # Broker 3 answers, and has another directory than the one that is to agree.
            assert row["away"] == []
            assert row["waits_for"] == (
                "a majority of the voters 3 answers: the data directory that broker 3 voted with is retired"
            )
            (finding,) = await _findings(ports)
            assert "data directory that broker 3 voted with is retired" in finding["cause"]
            assert "start broker" not in finding["cure"]
            assert "decides nothing by itself" in finding["cure"]
            assert _configuration(cluster[1]).is_joint

    run(test, seconds=90)


def test_brokers_and_the_doctor_say_with_the_same_words_for_what_a_group_waits():
    assert DOCTORS_FORCE == FORCE


def test_a_partition_whose_only_directory_is_retired_is_named_before_and_after_its_broker_is_back(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            topic_id = await cluster.create_topic("alone", 1, assignment=[[3]])
            await cluster.create_topic("well", 1, 3)
            await cluster.produce("alone", b"lost")
            await cluster.stop(3)
            await until(lambda: not any(node.is_alive(3) for node in cluster.nodes.values()))
            await until(cluster.has_controller)
            assert (await ports.ask("/v1/brokers/3/retire-directory", {"accept_waiting": True}))[0] == 200
            await _is_named_everywhere(ports, "alone-0", (1, 2), [3])
            cluster.wipe(3)
            await cluster.join(3)
            await until(lambda: all(node.is_alive(3) for node in cluster.nodes.values()))
            # Broker 3 answers, and brings nothing of it back. Whoever has heard of it as the leader believes it no more.
            group = cluster[1].controller.topics.get("alone").group(0)
            assert [node.leadership.leader_of(group) for node in cluster.nodes.values()] == [None] * 3
            await _is_named_everywhere(ports, "alone-0", (1, 2, 3), [3])
            await until(lambda: cluster.has_leaders("well"))
            # What an operator can do.
            await until(cluster.has_controller)
            await cluster.delete_topic(topic_id)
            await until(lambda: all(node.controller.topics.get("alone") is None for node in cluster.nodes.values()))
            assert await _findings(ports) == []
            assert (await ports.ask("/v1/moves"))[1]["cannot_move"] == []

    run(test, seconds=90)


def test_a_partition_that_lost_where_it_was_moved_to_is_named_with_that_when_it_is_moved_again(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            await cluster.create_topic("alone", 1, assignment=[[1]])
            assert (await ports.ask("/v1/moves", {"moves": [_moving("alone", 0, [3])]}))[0] == 200
            await until(lambda: not any(node.controller.topics.is_moving for node in cluster.nodes.values()))
            await cluster.stop(3)
            await until(lambda: not any(node.is_alive(3) for node in cluster.nodes.values()))
            await until(cluster.has_controller)
            assert (await ports.ask("/v1/brokers/3/retire-directory", {"accept_waiting": True}))[0] == 200
            # To ask again is no mistake, and changes nothing.
            assert (await ports.ask("/v1/brokers/3/retire-directory", {}))[0] == 200
            cluster.wipe(3)
            await cluster.join(3)
            await until(lambda: all(node.is_alive(3) for node in cluster.nodes.values()))
            assert (await ports.ask("/v1/moves", {"moves": [_moving("alone", 0, [2])]}))[0] == 200
            # Its new replica begins with the voters that the partition was created on, and broker 1 answers.
            await _named(ports, lambda row: row["lost_voter_sets"] == [[3]])
            (finding,) = await _findings(ports)
            assert "directory that broker 3 voted with is retired" in finding["cause"]
            # Broker 2 has nothing of it, so its disk may be given up.
            raft0 = cluster[1].groups.get(RAFT0)
            await until(lambda: raft0.configuration.is_voter(cluster[3].replica) and not raft0.configuration.is_joint)
            await cluster.stop(2)
            await until(lambda: not any(node.is_alive(2) for node in cluster.nodes.values()))
            await until(cluster.has_controller)
            status, answer = await ports.ask("/v1/brokers/2/retire-directory", {"dry_run": True})
            assert (status, answer.get("without_majority")) == (200, []), answer

    run(test, seconds=90)


def test_a_partition_of_which_one_directory_of_three_is_left_is_named(tmp_path):
    async def test():
        async with ports_of(Growing(tmp_path, 5)) as ports:
            cluster = ports.cluster
            await cluster.create_topic("most", 1, assignment=[[1, 4, 5]])
            await cluster.stop(4)
            await cluster.stop(5)
            await until(lambda: not any(node.is_alive(away) for node in cluster.nodes.values() for away in (4, 5)))
            # With one of them a majority is left, which brokers can bring back.
            await until(cluster.has_controller)
            assert (await ports.ask("/v1/brokers/5/retire-directory", {"accept_waiting": True}))[0] == 200
            async with asyncio.timeout(20):
                while (await _findings(ports, what="leaders"))[0]["level"] != "problem":
                    await asyncio.sleep(0.05)  # Broker 1 led it, and steps down: no task of the test waits for that.
            (finding,) = await _findings(ports, what="leaders")
            assert "(they are on 1, 4)" in finding["cure"]
            assert await _findings(ports) == []
            await until(cluster.has_controller)
            assert (await ports.ask("/v1/brokers/4/retire-directory", {"accept_waiting": True}))[0] == 200
            await _is_named_everywhere(ports, "most-0", (1, 2, 3), [4, 5])

    run(test, seconds=90)


async def _is_named_everywhere(ports, name, brokers, retired):
    """Each broker, its doctor and its admin port name a partition that can be neither led nor moved."""
    topic, _, number = name.rpartition("-")
    for at in brokers:
        node = ports.cluster[at]
        await until(lambda node=node: len(node.controller.members.retired) >= len(retired))
        assert (
            partition_view(SimpleNamespace(node=node), node.controller.topics.get(topic), int(number)).leader_id == -1
        )
        (finding,) = await _findings(ports, at)
        assert (finding["level"], name in finding["words"]) == ("problem", True)
        assert all(f"directory that broker {each} voted with is retired" in finding["cause"] for each in retired)
        assert FORCE in finding["cure"]
        assert f"raftka topic delete {topic}" in finding["cure"]
        # To bring brokers back would not help. Another partition may have an election just now, and is named there.
        assert not any(name in each["words"] for each in await _findings(ports, at, "leaders"))
    (row,) = (await ports.ask("/v1/moves", at=brokers[0]))[1]["cannot_move"]
    assert (f"{row['topic']}-{row['partition']}", row["retired"]) == (name, retired)
    # `raftka broker replace` tells what the broker waits for.
    status, told = await ports.ask(f"/v1/brokers/{retired[-1]}", at=brokers[0])
    assert status == 200
    assert {"partition": name, "why": FORCE} in told["waiting"]
    assert FORCE in told["waits_for"]
