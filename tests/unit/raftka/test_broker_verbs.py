"""Verbs about brokers, at the admin ports of whole nodes: what they do, what they try, and what they refuse."""

import asyncio
from functools import partial

import pytest

from cluster.errors import InvalidReplicationFactorError
from cluster.events import EventKind
from raftka.broker.readiness import not_ready
from tests.feature_levels import LEVEL_0
from tests.unit.cluster.cluster_nodes import Cluster, run, until
from tests.unit.cluster.test_joins import Growing
from tests.unit.raftka.admin_ports import ports_of


def _growing(directory, kind=Growing, founders=3):
    return ports_of(kind(directory, founders))


async def _ask(ports, node, verb, at=1, **body):
    """Ask for a change until the brokers agree who leads raft0; return (status, body)."""
    await until(ports.cluster.has_controller)
    return await ports.ask(f"/v1/brokers/{node}/{verb}", body, at=at)


async def _row(ports, node, at=1):
    status, rows = await ports.ask("/v1/brokers", at=at)
    assert status == 200
    return next((row for row in rows if row["node_id"] == node), None)


async def _until_told(ports, node, condition, at=1, seconds=40):
    async with asyncio.timeout(seconds):
        while True:
            status, body = await ports.ask(f"/v1/brokers/{node}", at=at)
            if status == 200 and condition(body):
                return body
            await asyncio.sleep(0.05)  # It is asked for over HTTP, and a change of the answer wakes nobody.


def _waits_for_broker(found, node):
    return any(str(node) in each["why"] for each in found["waiting"])


def _kinds(node, since=1):
    named = {EventKind.BROKER_JOINED, EventKind.BROKER_STATE, EventKind.BROKER_RETIRED, EventKind.BROKER_REMOVED}
    return [event.kind for event in node.events.since(since) if event.kind in named]


def test_every_broker_has_a_row_with_what_it_holds_leads_and_is(tmp_path):
    async def test():
        async with _growing(tmp_path) as ports:
            cluster = ports.cluster
            await cluster.create_topic("t", 3, 3)
            four = await cluster.join(4)
            status, rows = await ports.ask("/v1/brokers")
            assert status == 200
            assert [row["node_id"] for row in rows] == [1, 2, 3, 4]
            assert [row["raft0"] for row in rows] == ["voter", "voter", "voter", "learner"]
            assert [row["replicas"] for row in rows] == [3, 3, 3, 0]
            assert sum(row["led"] for row in rows) == 3
            last = rows[-1]
            assert last["directory_id"] == four.replica.directory_id
            assert last["epoch"] > rows[0]["epoch"] == [0, 1]
            assert (last["state"], last["directory_retired"], last["features"]["raftka.membership"]) == (
                "active",
                False,
                1,
            )
            assert _kinds(cluster[1]) == [EventKind.BROKER_JOINED]

    run(test, seconds=60)


def test_a_drained_broker_leads_nothing_but_what_nobody_else_holds_and_names_it(tmp_path):
    async def test():
        async with _growing(tmp_path) as ports:
            cluster = ports.cluster
            await cluster.create_topic("t", 6, 3)
            await cluster.create_topic("alone", 1, assignment=[[2]])
            status, body = await _ask(ports, 2, "drain", dry_run=True)
            assert (status, body["only_here"], body["state"]) == (200, ["alone-0"], "active")
            status, body = await _ask(ports, 2, "drain")
            assert (status, body["state"], body["only_here"]) == (200, "draining", ["alone-0"])
            with pytest.raises(InvalidReplicationFactorError, match=r"2 brokers of 3 .*: broker 2 is draining; add"):
                await cluster.create_topic("wide", 1, 3)
            told = await _until_told(ports, 2, lambda found: not found["waits_for"])
            assert (told["led"], told["replicas"]) == (1, 7)
            # Once more does no harm.
            assert (await _ask(ports, 2, "drain", at=3))[0] == 200
            # A move to it is refused, by Kafka's name for a broker that may not be named (39).
            moves = {"moves": [{"topic": "alone", "partition": 0, "replicas": [1]}]}
            assert (await ports.ask("/v1/moves", moves))[0] == 200
            await _until_told(ports, 2, lambda found: found["replicas"] == 6)
            back = {"moves": [{"topic": "alone", "partition": 0, "replicas": [2]}]}
            status, body = await ports.ask("/v1/moves", back)
            assert (status, body["error"]) == (400, "INVALID_REPLICA_ASSIGNMENT")
            assert "draining" in body["message"]
            status, body = await _ask(ports, 2, "recommission")
            assert (status, body["error"]) == (409, "BROKER_IN_USE")
            assert "raftka broker undrain 2" in body["message"]
            assert (await _ask(ports, 2, "undrain"))[1]["state"] == "active"
            await until(lambda: len(_kinds(cluster[3])) == 2)
            assert set(_kinds(cluster[3])) == {EventKind.BROKER_STATE}

    run(test, seconds=90)


def test_a_broker_is_emptied_and_removed_and_its_readiness_and_that_of_others_follow(tmp_path):
    async def test():
        async with _growing(tmp_path) as ports:
            cluster = ports.cluster
            await cluster.create_topic("t", 3, 3)
            for is_dry in (True, False):
                status, body = await _ask(ports, 3, "decommission", dry_run=is_dry)
                assert (status, body["error"]) == (400, "INVALID_REPLICATION_FACTOR")
                assert ": t;" in body["message"]
            await cluster.join(4)
            status, body = await _ask(ports, 3, "decommission", dry_run=True)
            assert (status, body["state"], body["replicas"], body["waits_for"]) == (200, "active", 3, "")
            status, body = await _ask(ports, 3, "remove")
            assert (status, body["error"]) == (409, "BROKER_IN_USE")
            assert "raftka broker decommission 3" in body["message"]
            status, body = await _ask(ports, 3, "decommission")
            assert (status, body["state"], body["vote_to_move"]) == (200, "decommissioning", True)
            assert "raft0 to get another voter" in body["waits_for"]
            for verb, words in (("drain", "leads nothing already"), ("undrain", "raftka broker recommission 3")):
                status, body = await _ask(ports, 3, verb)
                assert (status, words in body["message"]) == (409, True)
            await _until_told(ports, 3, lambda found: not found["waits_for"] and not found["replicas"], seconds=60)
            told = [event.text for event in cluster[4].events.since(1) if event.kind is EventKind.RAFT0_VOTERS]
            assert told == ["is to get the voters 1,2,4, and has 1,2,3", "has the voters 1,2,4, and had 1,2,3"]
            status, body = await _ask(ports, 3, "remove", dry_run=True)
            assert (status, body["state"]) == (200, "decommissioning")
            assert (await _ask(ports, 3, "remove"))[0] == 200
            assert await _row(ports, 3) is None
            await until(lambda: cluster[4].controller.members.member(3) is None)
            # Nobody speaks with it any more, so it knows no leader.
            await cluster.stop(3)
            # Who is gone is asked for again without harm; anything else of it is refused.
            assert (await _ask(ports, 3, "remove"))[0] == 200
            # Whoever was never in the cluster cannot have been removed.
            for is_dry in (True, False):
                status, body = await _ask(ports, 99, "remove", dry_run=is_dry)
                assert (status, body["error"]) == (404, "BROKER_ID_NOT_REGISTERED")
                assert body["message"] == "broker 99 is not in the cluster"
            status, body = await _ask(ports, 3, "drain")
            assert (status, body["error"]) == (404, "BROKER_ID_NOT_REGISTERED")
            assert _kinds(cluster[1])[-1] is EventKind.BROKER_REMOVED
            await until(lambda: all(not_ready(node) is None for node in cluster.nodes.values()))

    run(test, seconds=120)


def test_a_decommission_that_cannot_go_on_says_what_it_waits_for_and_is_taken_back(tmp_path):
    async def test():
        async with _growing(tmp_path) as ports:
            cluster = ports.cluster
            await cluster.create_topic("t", 1, 3)
            await cluster.join(4)
            await cluster.stop(4)
            assert (await _ask(ports, 3, "decommission"))[0] == 200
            told = await _until_told(ports, 3, lambda found: _waits_for_broker(found, 4), seconds=30)
            assert [each["partition"] for each in told["waiting"]] == ["t-0"]
            assert "1 replica to move (0 on the way)" in told["waits_for"]
            assert (await _ask(ports, 3, "recommission"))[1]["state"] == "active"
            assert (await _ask(ports, 3, "recommission", dry_run=True))[1]["state"] == "active"

    run(test, seconds=90)


def test_a_lost_disk_is_replaced_and_the_verb_says_what_it_waits_for(tmp_path):
    async def test():
        async with _growing(tmp_path) as ports:
            cluster = ports.cluster
            await cluster.create_topic("t", 1, 3)
            old = cluster[3].replica.directory_id
            for at in (1, 2):
                for is_dry in (True, False):
                    status, body = await _ask(ports, 3, "retire-directory", at=at, dry_run=is_dry)
                    assert (status, body["error"]) == (409, "BROKER_IN_USE")
                    assert f"broker {at} sees its link work" in body["message"]
            await cluster.stop(3)
            cluster.wipe(3)
            await until(lambda: not any(node.is_alive(3) for node in cluster.nodes.values()))
            status, body = await _ask(ports, 3, "retire-directory", directory_id="f" * 32)
            assert (status, body["error"]) == (404, "BROKER_ID_NOT_REGISTERED")
            status, body = await _ask(ports, 3, "retire-directory", dry_run=True)
            assert (status, body["directory_id"], body["directory_retired"]) == (200, old, False)
            status, body = await _ask(ports, 3, "retire-directory", directory_id=old)
            assert (status, body["directory_retired"], body["without_majority"]) == (200, True, [])
            assert "broker 3 to join with an empty data.dir" in body["waits_for"]
            assert "t-0 for broker 3 to join" in body["waits_for"]
            # Once more does no harm. A broker whose directory is retired does not count, so the others are ready.
            assert (await _ask(ports, 3, "retire-directory", at=2, directory_id=old))[0] == 200
            await until(lambda: not_ready(cluster[1]) is None)
            three = await cluster.join(3)
            told = await _until_told(ports, 3, lambda found: not found["waits_for"], seconds=60)
            assert (told["directory_id"], told["replicas"]) == (three.replica.directory_id, 1)
            assert _kinds(cluster[1]) == [EventKind.BROKER_RETIRED, EventKind.BROKER_JOINED]
            # Who repeats the request after a time-out means the first directory, up or down.
            new = three.replica.directory_id
            assert told["replaced"] == old
            for is_up in (True, False):
                if not is_up:
                    await cluster.stop(3)
                    await until(lambda: not any(node.is_alive(3) for node in cluster.nodes.values()))
                for is_dry in (True, False):
                    status, body = await _ask(ports, 3, "retire-directory", dry_run=is_dry)
                    assert (status, body["error"]) == (409, "DIRECTORY_REPLACED")
                    assert f"raftka broker replace 3 --directory {new}" in body["message"]
                status, body = await _ask(ports, 3, "retire-directory", directory_id=old)
                assert (status, body["directory_retired"]) == (200, False)
            assert not (await _row(ports, 3))["directory_retired"]
            status, body = await _ask(ports, 3, "retire-directory", directory_id=new)
            assert (status, body["directory_retired"]) == (200, True)
            # Once more does no harm, also without the name.
            assert (await _ask(ports, 3, "retire-directory"))[0] == 200

    run(test, seconds=120)


def test_groups_that_would_wait_for_ever_are_named_first_and_only_accepted_by_name(tmp_path):
    async def test():
        async with _growing(tmp_path, founders=5) as ports:
            cluster = ports.cluster
            await cluster.create_topic("alone", 1, assignment=[[3]])
            await cluster.create_topic("half", 1, assignment=[[1, 2, 3]])
            await cluster.create_topic("well", 1, assignment=[[1, 3, 4]])
            await cluster.stop(2)
            await cluster.stop(3)
            await until(lambda: not any(node.is_alive(away) for node in cluster.nodes.values() for away in (2, 3)))
            # To try it is refused as the change itself.
            status, body = await _ask(ports, 3, "retire-directory", dry_run=True)
            assert (status, body["error"]) == (409, "WITHOUT_MAJORITY")
            assert [each["partition"] for each in body["without_majority"]] == ["alone-0", "half-0"]
            assert "no other replica" in body["without_majority"][0]["why"]
            assert "start broker 2 first" in body["without_majority"][1]["why"]
            status, refused = await _ask(ports, 3, "retire-directory")
            assert (status, refused["error"]) == (409, "WITHOUT_MAJORITY")
            assert refused == body
            status, body = await _ask(ports, 3, "retire-directory", accept_waiting=True, dry_run=True)
            assert (status, body["without_majority"]) == (200, refused["without_majority"])
            assert not (await _row(ports, 3))["directory_retired"]
            status, body = await _ask(ports, 3, "retire-directory", accept_waiting=True)
            assert (status, body["directory_retired"]) == (200, True)

    run(test, seconds=90)


@pytest.mark.parametrize(
    ("path", "document", "status", "error"),
    [
        ("/v1/brokers/9", None, 404, "BROKER_ID_NOT_REGISTERED"),
        ("/v1/brokers/x", None, 400, "INVALID_REQUEST"),
        ("/v1/brokers/-1/drain", {}, 400, "INVALID_REQUEST"),
        ("/v1/brokers/9/drain", {}, 404, "BROKER_ID_NOT_REGISTERED"),
        ("/v1/brokers/9/decommission", {"dry_run": True}, 404, "BROKER_ID_NOT_REGISTERED"),
        ("/v1/brokers/9/retire-directory", {}, 404, "BROKER_ID_NOT_REGISTERED"),
        ("/v1/brokers/1/drain", {"directory_id": "x"}, 400, "INVALID_REQUEST"),
        ("/v1/brokers/1/retire-directory", {"directory_id": 3}, 400, "INVALID_REQUEST"),
    ],
)
def test_a_request_that_names_no_broker_or_too_much_is_refused(tmp_path, path, document, status, error):
    async def test():
        async with _growing(tmp_path, founders=2) as ports:
            found, body = await ports.ask(path, document)
            assert (found, body["error"]) == (status, error)

    run(test)


def test_below_the_level_of_the_feature_every_verb_names_it(tmp_path):
    async def test():
        async with _growing(tmp_path, partial(Cluster, features=LEVEL_0)) as ports:
            for verb in ("drain", "undrain", "decommission", "recommission", "remove"):
                status, body = await _ask(ports, 2, verb)
                assert (status, body["error"]) == (409, "UNSUPPORTED_VERSION")
                assert "raftka.membership" in body["message"]
            await ports.cluster.stop(3)
            await until(lambda: not ports.cluster[1].is_alive(3))
            status, body = await _ask(ports, 3, "retire-directory")
            assert (status, body["error"]) == (409, "UNSUPPORTED_VERSION")

    run(test)
