"""`POST /v1/partitions/elect-preferred` at three nodes' admin ports: who would lead, who leads then, and why not."""

import pytest

from model.ids import NodeId
from raft.errors import TransferRefusedError
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import Cluster, can_take_over, run, until
from tests.unit.raftka.admin_ports import ports_of

ELECT = "/v1/partitions/elect-preferred"
FIRST = {"partitions": [{"topic": "t", "partition": 0}]}


async def _led_elsewhere(cluster):
    """Create t-0 and let its last replica lead; return (preferred, leader), once all nodes know the in-sync set."""
    await cluster.create_topic("t", replication_factor=3)
    replicas = [int(replica.node_id) for replica in cluster[1].controller.topics.get("t").replicas[0]]
    preferred, leader = replicas[0], replicas[-1]
    consensus = consensus_of(cluster.leader_of("t"))
    if consensus.state.node_id != leader:
        await until(lambda: can_take_over(consensus, leader))
        await consensus.transfer.run(NodeId(leader))
    await _all_know(cluster, leader, in_sync=3)
    return preferred, leader


async def _all_know(cluster, leader, in_sync):
    group = cluster[1].controller.topics.get("t").group(0)

    def known():
        found = [node.leadership.leader_of(group) for node in cluster.nodes.values()]
        return all(each is not None and each.node_id == leader and len(each.in_sync) == in_sync for each in found)

    await until(known)


def _row(preferred, before, leader, error=None, message=None):
    told = {"topic": "t", "partition": 0, "preferred": preferred, "leader_before": before, "leader": leader}
    return {**told, "error": error, "message": message}


def test_the_preferred_replica_leads_then_and_in_a_dry_run_would(tmp_path):
    async def test():
        async with ports_of(Cluster(tmp_path, 3)) as ports:
            cluster = ports.cluster
            preferred, leader = await _led_elsewhere(cluster)
            would = {"dry_run": True, "waits_for": "", "partitions": [_row(preferred, leader, preferred)]}
            for at in cluster.nodes:
                for asked in (FIRST, {"all": True}):
                    assert await ports.ask(ELECT, {**asked, "dry_run": True}, at=at) == (200, would)
            assert consensus_of(cluster.leader_of("t")).state.node_id == leader
            status, body = await ports.ask(ELECT, FIRST, at=leader)
            assert (status, body["partitions"]) == (200, [_row(preferred, leader, preferred)])
            await _all_know(cluster, preferred, in_sync=3)
            term = cluster.leader_of("t").leader_epoch
            # Once more does no harm.
            for at in cluster.nodes:
                status, body = await ports.ask(ELECT, FIRST, at=at)
                assert (status, body["waits_for"]) == (200, "")
                assert body["partitions"] == [_row(preferred, preferred, preferred)]
                for is_dry in (True, False):
                    status, body = await ports.ask(ELECT, {"all": True, "dry_run": is_dry}, at=at)
                    assert (status, body["partitions"]) == (200, [])
            assert cluster.leader_of("t").leader_epoch == term

    run(test)


def test_a_preferred_replica_that_is_away_is_refused_in_a_dry_run_as_well(tmp_path):
    async def test():
        async with ports_of(Cluster(tmp_path, 3)) as ports:
            cluster = ports.cluster
            preferred, leader = await _led_elsewhere(cluster)
            await cluster.stop(preferred)
            await until(lambda: not any(node.is_alive(preferred) for node in cluster.nodes.values()))
            why = f"the preferred replica, on node {preferred}, is not in sync"
            refused = _row(preferred, leader, leader, "PREFERRED_LEADER_NOT_AVAILABLE", why)
            for is_dry in (True, False):
                for asked in (FIRST, {"all": True}):
                    status, body = await ports.ask(ELECT, {**asked, "dry_run": is_dry}, at=leader)
                    assert (status, body["error"], body["message"]) == (409, refused["error"], why)
                    assert body["partitions"] == [refused]
                both = {"partitions": [*FIRST["partitions"], {"topic": "t", "partition": 7}]}
                status, body = await ports.ask(ELECT, {**both, "dry_run": is_dry}, at=leader)
                assert [row["error"] for row in body["partitions"]] == [
                    "PREFERRED_LEADER_NOT_AVAILABLE",
                    "UNKNOWN_TOPIC_OR_PARTITION",
                ]

    run(test)


def test_a_dry_run_tells_what_the_leader_itself_would_refuse(tmp_path, monkeypatch):
    def refuse(_):
        raise TransferRefusedError("it lacks 7 entries and is being recovered")

    async def test():
        async with ports_of(Cluster(tmp_path, 3)) as ports:
            cluster = ports.cluster
            preferred, leader = await _led_elsewhere(cluster)
            # The news of who is in sync does not tell it.
            monkeypatch.setattr(consensus_of(cluster.leader_of("t")).transfer, "_check_near", refuse)
            third = next(node for node in cluster.nodes if node not in (preferred, leader))
            for at in (leader, third):
                for is_dry in (True, False):
                    status, body = await ports.ask(ELECT, {**FIRST, "dry_run": is_dry}, at=at)
                    assert (status, body["error"]) == (409, "PREFERRED_LEADER_NOT_AVAILABLE")
                    assert body["message"] == "it lacks 7 entries and is being recovered"

    run(test)


@pytest.mark.parametrize(
    "document",
    [{}, {"all": True, **FIRST}, {"partitions": [{"topic": "t", "partition": -1}]}, {"all": True, "target": 1}],
)
def test_a_request_that_says_too_little_or_too_much_is_refused(tmp_path, document):
    async def test():
        async with ports_of(Cluster(tmp_path, 3)) as ports:
            status, body = await ports.ask(ELECT, document)
            assert (status, body["error"]) == (400, "INVALID_REQUEST")

    run(test)
