"""What `raftka group` says of groups that are not as they should be."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import JoinGroupRequest, SyncGroupRequest
from tests.process.broker_processes import BrokerCluster, eventually
from tests.process.command_line import RAFTKA, Run, started
from tests.process.kafka_topics import create_topic
from tests.process.wire_socket import WireSocket

pytestmark = pytest.mark.process


@contextmanager
def assigned(cluster: BrokerCluster, group: str, assignment: bytes) -> Iterator[str]:
    """Be the only member of a group, with any bytes for an assignment; yield the member's id."""

    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0" * 10)
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[protocol],
    )

    def joined_at_coordinator() -> tuple[WireSocket, Any] | None:
        for broker in cluster.running:
            client = WireSocket(broker)
            # In version 3 nobody has to come back with the id that is given.
            joined = client.call(ApiKey.JOIN_GROUP, 3, join)
            if not joined.error_code:
                return client, joined
            client.close()
        return None

    client, joined = eventually(f"the coordinator of {group}", joined_at_coordinator)
    with client:
        own = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)
        sync = SyncGroupRequest(
            group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[own]
        )
        assert client.call(ApiKey.SYNC_GROUP, 3, sync).error_code == 0
        yield joined.member_id


def test_a_member_whose_assignment_cannot_be_read_is_named(shared_cluster: BrokerCluster, run: Run) -> None:
    # The topic of the groups comes into being when somebody asks for a coordinator.
    run("group", "describe", "garbage", code=1)
    with assigned(shared_cluster, "garbage", b"\xff\xff\xff") as member:
        told = run("group", "describe", "garbage").stdout
        assert "lag:         -\n" in told
        assert f"with an assignment that cannot be read:\nMEMBER{' ' * (len(member) - 4)}CLIENT" in told
        assert told.splitlines()[-1].startswith(member)
        found = json.loads(run("group", "describe", "garbage", "-f", "json").stdout)
        assert (found["state"], found["lag"]) == ("Stable", None)
        assert [(each["member"], each["partitions"]) for each in found["members"]] == [(member, None)]
        refusal = run("group", "seek", "garbage", "--to", "start", "-t", "any", code=1).stderr
        assert refusal.startswith("raftka: group garbage is in use (Stable, 1 member): stop its consumers first")
        assert "group garbage is not deleted: it is in use" in run("group", "delete", "garbage", code=1).stderr


def test_the_lag_of_a_group_that_has_committed_nothing_is_not_zero(shared_cluster: BrokerCluster, run: Run) -> None:
    create_topic(shared_cluster, "uncommitted", 2)
    describe = ("group", "describe", "hesitant")

    def report() -> dict[str, object] | None:
        if not any(each["group"] == "hesitant" for each in json.loads(run("group", "list", "-f", "json").stdout)):
            return None
        found: dict[str, object] = json.loads(run(*describe, "-f", "json").stdout)
        return found if found["partitions"] else None

    command = [*RAFTKA, "consume", "uncommitted", "-g", "hesitant", "-o", "end"]
    with started(command, RAFTKA_BROKERS=shared_cluster.bootstrap) as member:
        # Nobody is behind where there are no records.
        assert eventually("it has its partitions", report)["lag"] == 0
        member.terminate()
        member.communicate()
    run("produce", "uncommitted", "-p", "1", stdin="one\n")
    with started(command, RAFTKA_BROKERS=shared_cluster.bootstrap) as member:
        assert eventually("it has its partitions", report)["lag"] is None
        assert "lag:         -\n" in run(*describe).stdout
        member.terminate()
        member.communicate()
