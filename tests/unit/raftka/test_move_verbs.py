"""Verbs that move partitions, at the admin ports of four nodes: what they do, what they try, and what they refuse."""

import asyncio
from functools import partial

import pytest

from cluster.events import EventKind
from cluster.groups.offsets_topic import OFFSETS_TOPIC
from raftka.broker.health import HealthReader
from raftka.broker.stall_watch import StallWatch
from raftka.health.findings import to_json
from raftka.health.rules import judge
from tests.feature_levels import LEVEL_0
from tests.unit.cluster.cluster_nodes import Cluster, run, until
from tests.unit.cluster.test_moves import Movable, nodes_of, topics, until_held
from tests.unit.raftka.admin_ports import ports_of
from tests.unit.raftka.exposed import exposed_by


def _ports(directory, kind=Movable):
    return ports_of(kind(directory, 4))


async def _created(cluster, **options):
    await cluster.create_topic("t", **options)
    (replicas,) = {tuple(nodes_of(topic.replicas[0])) for topic in topics(cluster)}
    (other,) = {1, 2, 3, 4} - set(replicas) if len(replicas) == 3 else (0,)
    return list(replicas), other


def _moving(topic, partition, replicas):
    return {"topic": topic, "partition": partition, "replicas": replicas}


def test_a_partition_moves_and_events_tell_so_and_a_dry_run_moves_nothing(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            before, other = await _created(ports.cluster, replication_factor=3)
            target = [*before[1:], other]
            wanted = {"moves": [_moving("t", 0, target)]}
            status, body = await ports.ask("/v1/moves", {**wanted, "dry_run": True}, at=2)
            assert (status, body["dry_run"], body["waits_for"]) == (200, True, "")
            answer = {"is_there": False, "error": None, "message": None, "waits_for": ""}
            assert body["partitions"] == [{**_moving("t", 0, target), **answer}]
            assert await ports.moves(at=2) == []
            assert all(topic.move_of(0) is None for topic in topics(ports.cluster))
            status, body = await ports.ask("/v1/moves", wanted, at=3)
            assert (status, body["dry_run"]) == (200, False)
            assert body["waits_for"].startswith("1 partition to be moved")
            # Once more does no harm, whether the move is under way or done.
            assert (await ports.ask("/v1/moves", wanted))[0] == 200
            await until_held(ports.cluster, *target)
            status, body = await ports.ask("/v1/moves", wanted)
            assert (status, body["waits_for"]) == (200, "")
            told = [event for event in ports.cluster[other].events.since(1) if event.partition == "t-0"]
            kinds = [event.kind for event in told if event.kind is not EventKind.LEADER]
            assert kinds == [EventKind.MOVE_BEGUN, EventKind.MOVE_FINISHED]

    run(test)


def test_a_move_to_a_broker_that_is_away_is_listed_with_what_it_waits_for_and_cancelled(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            before, other = await _created(cluster, replication_factor=3)
            at = before[0]
            await cluster.stop(other)
            await until(lambda: not cluster[at].is_alive(other))
            target = [*before[:2], other]
            assert (await ports.ask("/v1/moves", {"moves": [_moving("t", 0, target)]}, at=at))[0] == 200

            async def listed():
                (row,) = await ports.moves(at=at)
                return row

            async with asyncio.timeout(20):
                while (row := await listed())["state"] != "copying" or not row["waits_for"]:
                    await asyncio.sleep(0)
            assert (row["topic"], row["partition"], row["origin"], row["target"]) == ("t", 0, before, target)
            assert (row["learners"], row["voter_sets"], row["lost_voter_sets"]) == ([other], [sorted(before)], [])
            assert row["waits_for"] == f"nodes [{other}] catch up: broker {other} does not answer"
            assert row["away"] == [other]
            # The leader's metrics show the move, and any of the three may lead.
            await until(lambda: any(exposed_by(cluster[node])("raftka_moves", "copying") for node in before))
            exposed = next(each for node in before if (each := exposed_by(cluster[node]))("raftka_moves", "copying"))
            states = {state: exposed("raftka_moves", state) for state in ("preparing", "copying", "joint", "finishing")}
            assert states == {"preparing": 0, "copying": 1, "joint": 0, "finishing": 0}
            assert exposed("raftka_partition_learners", "t", "0") == 1
            assert exposed("raftka_partition_joint", "t", "0") == 0
            cancelled = {"partitions": [{"topic": "t", "partition": 0}]}
            status, body = await ports.ask("/v1/moves/cancel", {**cancelled, "dry_run": True}, at=at)
            assert (status, (await listed())["is_cancelled"]) == (200, False), body
            assert (await ports.ask("/v1/moves/cancel", cancelled, at=at))[0] == 200
            await until(lambda: all(cluster[node].controller.topics.get("t").move_of(0) is None for node in before))
            kinds = [event.kind for event in cluster[at].events.since(1) if event.partition == "t-0"]
            assert kinds[-3:] == [EventKind.MOVE_BEGUN, EventKind.MOVE_CANCELLED, EventKind.MOVE_FINISHED]
            # Now there is nothing to cancel.
            status, body = await ports.ask("/v1/moves/cancel", cancelled, at=at)
            assert (status, body["error"]) == (409, "NO_REASSIGNMENT_IN_PROGRESS")
            status, body = await ports.ask("/v1/moves/cancel", {"all": True}, at=at)
            assert (status, body["partitions"], body["waits_for"]) == (200, [], "")

    run(test)


def test_a_moving_group_whose_voters_cannot_form_a_quorum_is_named_by_every_broker(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            before, other = await _created(cluster, replication_factor=3)
            at, *gone = before
            await cluster.stop(other)
            assert (await ports.ask("/v1/moves", {"moves": [_moving("t", 0, [*before[:2], other])]}, at=at))[0] == 200

            async def row():
                (found,) = await ports.moves(at=at)
                return found

            async with asyncio.timeout(20):
                while (await row())["state"] != "copying":
                    await asyncio.sleep(0)
            assert await _quorum_finding(ports, at) == []
            await cluster.stop(*gone)
            await until(lambda: not any(cluster[at].is_alive(node) for node in gone))
            async with asyncio.timeout(20):
                while (await row())["state"] != "leaderless":
                    await asyncio.sleep(0)
            found = await row()
            assert (found["lost_voter_sets"], found["away"]) == ([sorted(before)], sorted([*gone, other]))
            assert "majority" in found["waits_for"]
            (finding,) = await _quorum_finding(ports, at)
            assert (finding["level"], "t-0" in finding["words"]) == ("problem", True)

    run(test, seconds=60)


def test_a_move_of_a_group_without_a_majority_says_so_and_others_do_not(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            before, _ = await _created(cluster, replication_factor=2)
            at = before[0]
            rest = sorted({1, 2, 3, 4} - {*before})
            wanted = {"moves": [_moving("t", 0, rest)]}
            status, body = await ports.ask("/v1/moves", {**wanted, "dry_run": True}, at=at)
            assert (status, body["partitions"][0]["waits_for"]) == (200, "")
            await cluster.stop(before[1])
            await until(lambda: not cluster[at].is_alive(before[1]))
            voters = ",".join(map(str, sorted(before)))
            until_then = f"a majority of the voters {voters} answers: broker {before[1]} does not"
            for document in ({**wanted, "dry_run": True}, wanted):
                await until(cluster.has_controller)
                status, body = await ports.ask("/v1/moves", document, at=at)
                assert (status, body["partitions"][0]["waits_for"]) == (200, until_then)

    run(test, seconds=60)


def test_a_moving_group_of_which_no_replica_answers_is_named_by_the_others(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            (holder,), _ = await _created(cluster, replication_factor=1)
            target, at, _ = sorted({1, 2, 3, 4} - {holder})
            await cluster.stop(target)
            assert (await ports.ask("/v1/moves", {"moves": [_moving("t", 0, [target])]}, at=at))[0] == 200
            assert await _quorum_finding(ports, at) == []
            await cluster.stop(holder)
            await until(lambda: not cluster[at].is_alive(holder))
            (row,) = await ports.moves(at=at)
            assert (row["state"], row["lost_voter_sets"]) == ("leaderless", [sorted([holder, target])])
            (finding,) = await _quorum_finding(ports, at)
            assert "t-0" in finding["words"]

    run(test, seconds=60)


async def _quorum_finding(ports, at):
    _, body = await ports.ask("/v1/health", at=at)
    node = ports.cluster[at]
    judged = judge(await HealthReader(node, StallWatch(node), lambda: None).read_picture())
    assert {each["what"] for each in body["findings"]} >= {"leaders"}
    return [to_json(each) for each in judged if each.what == "quorum"]


@pytest.mark.parametrize(
    ("moves", "status", "names"),
    [
        ([_moving("nobody", 0, [1])], 404, ["UNKNOWN_TOPIC_OR_PARTITION"]),
        ([_moving("t", 5, [1, 2, 3])], 404, ["UNKNOWN_TOPIC_OR_PARTITION"]),
        ([_moving("t", 0, [1, 1, 2])], 400, ["INVALID_REPLICA_ASSIGNMENT"]),
        ([_moving("t", 0, [1, 2, 9])], 400, ["INVALID_REPLICA_ASSIGNMENT"]),
        ([_moving("t", 0, [])], 400, ["INVALID_REPLICA_ASSIGNMENT"]),
        ([_moving("t", 0, [1, 2])], 400, ["INVALID_REPLICATION_FACTOR"]),
        (
            [_moving("t", 0, [1, 2]), _moving("nobody", 0, [1])],
            400,
            [*("INVALID_REPLICATION_FACTOR",), "UNKNOWN_TOPIC_OR_PARTITION"],
        ),
        ([_moving("t", 0, [1, 2, 3]), _moving("nobody", 0, [1])], 200, [None, "UNKNOWN_TOPIC_OR_PARTITION"]),
    ],
)
@pytest.mark.parametrize("is_dry", [True, False])
def test_what_cannot_move_is_refused_by_the_names_that_kafka_has(tmp_path, moves, status, names, is_dry):
    async def test():
        async with _ports(tmp_path) as ports:
            await _created(ports.cluster, replication_factor=3)
            for at in ports.cluster.nodes:
                found, body = await ports.ask("/v1/moves", {"moves": moves, "dry_run": is_dry}, at=at)
                assert (found, [row["error"] for row in body["partitions"]]) == (status, names)
                if status != 200:
                    assert (body["error"], body["message"]) == (names[0], body["partitions"][0]["message"])

    run(test)


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/v1/moves", {}),
        ("/v1/moves", {"moves": []}),
        ("/v1/moves", {"moves": [{"topic": "t", "partition": -1, "replicas": [1]}]}),
        ("/v1/moves", {"moves": [{"topic": "t", "partition": 0, "replicas": [2**31]}]}),
        ("/v1/moves", {"moves": [{"topic": "t" * 250, "partition": 0, "replicas": [1]}]}),
        ("/v1/moves/cancel", {}),
        ("/v1/moves/cancel", {"all": True, "partitions": [{"topic": "t", "partition": 0}]}),
        ("/v1/topics/t/replication", {}),
        ("/v1/topics/t/replication", {"replication_factor": "3"}),
    ],
)
def test_a_request_that_says_too_little_or_too_much_is_refused(tmp_path, path, document):
    async def test():
        async with _ports(tmp_path) as ports:
            status, body = await ports.ask(path, document)
            assert (status, body["error"]) == (400, "INVALID_REQUEST")

    run(test)


def test_below_the_level_of_the_feature_every_verb_names_it(tmp_path):
    async def test():
        async with _ports(tmp_path, partial(Cluster, features=LEVEL_0)) as ports:
            await ports.cluster.create_topic("t", replication_factor=3)
            for path, document in (
                ("/v1/moves", {"moves": [_moving("t", 0, [1, 2, 4])]}),
                ("/v1/moves/cancel", {"partitions": [{"topic": "t", "partition": 0}]}),
                ("/v1/topics/t/replication", {"replication_factor": 1}),
            ):
                for is_dry in (True, False):
                    status, body = await ports.ask(path, {**document, "dry_run": is_dry})
                    assert (status, body["error"]) == (409, "UNSUPPORTED_VERSION")
                    assert "raftka.membership" in body["message"]

    run(test)


def test_the_replicas_of_a_topic_become_fewer_and_more_and_its_leader_stays(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            await _created(cluster, replication_factor=3)
            await until(lambda: cluster.leader_of("t") is not None)
            leader = next(
                number for number, node in cluster.nodes.items() if any(p.is_in_office for p in node.partitions)
            )
            path = "/v1/topics/t/replication"
            status, body = await ports.ask(path, {"replication_factor": 3})
            assert (status, body["partitions"], body["waits_for"]) == (200, [], "")
            status, body = await ports.ask(path, {"replication_factor": 1}, at=leader)
            assert status == 200
            assert [row["replicas"] for row in body["partitions"]] == [[leader]]
            await until_held(cluster, leader)
            status, body = await ports.ask(path, {"replication_factor": 4, "dry_run": True})
            (row,) = body["partitions"]
            assert (status, row["replicas"][0], sorted(row["replicas"])) == (200, leader, [1, 2, 3, 4])
            assert await ports.moves() == []
            assert (await ports.ask(path, {"replication_factor": 3}))[0] == 200
            # It is on its way: asked again, nothing changes.
            status, body = await ports.ask(path, {"replication_factor": 3})
            assert (status, body["partitions"]) == (200, [])
            await until(lambda: all(len(topic.replicas[0]) == 3 for topic in topics(cluster)), seconds=40)
            for count, name, wanted in ((0, "INVALID_REPLICATION_FACTOR", 400), (5, "INVALID_REPLICATION_FACTOR", 400)):
                status, body = await ports.ask(path, {"replication_factor": count})
                assert (status, body["error"]) == (wanted, name)
            status, body = await ports.ask("/v1/topics/nobody/replication", {"replication_factor": 1})
            assert (status, body["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")

    run(test)


def test_an_internal_topic_keeps_as_many_replicas_as_the_brokers_would_add_again(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            await cluster.create_topic(OFFSETS_TOPIC, 2, 3)
            reason = f"{OFFSETS_TOPIC} is an internal topic, and the brokers keep it at 3 replicas"
            for is_dry in (True, False):
                document = {"replication_factor": 1, "dry_run": is_dry}
                status, body = await ports.ask(f"/v1/topics/{OFFSETS_TOPIC}/replication", document)
                assert (status, body["error"]) == (400, "INVALID_REPLICATION_FACTOR")
                assert body["message"].startswith(reason)
                moves = {"moves": [_moving(OFFSETS_TOPIC, 0, [1, 2])], "may_change_count": True, "dry_run": is_dry}
                status, body = await ports.ask("/v1/moves", moves)
                assert (status, body["error"]) == (400, "INVALID_REPLICATION_FACTOR")
                assert body["message"].startswith(reason)
            # Where it is already, nothing changes.
            held = nodes_of(cluster[1].controller.topics.get(OFFSETS_TOPIC).replicas[0])
            status, body = await ports.ask("/v1/moves", {"moves": [_moving(OFFSETS_TOPIC, 0, held)]})
            assert (status, body["partitions"][0]["is_there"], body["waits_for"]) == (200, True, "")
            # A method that a path does not take is refused in JSON, as all else.
            status, body = await ports.ask("/v1/partitions", {})
            assert (status, body["error"]) == (405, "'/v1/partitions' does not take POST: GET, HEAD")
            # More, or others, are taken.
            moves = {"moves": [_moving(OFFSETS_TOPIC, 0, [4, 2, 1])], "dry_run": True}
            assert (await ports.ask("/v1/moves", moves))[0] == 200
            document = {"replication_factor": 4, "dry_run": True}
            assert (await ports.ask(f"/v1/topics/{OFFSETS_TOPIC}/replication", document))[0] == 200

    run(test)
