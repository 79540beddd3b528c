"""raft0's tables refuse a placement that came too late: a broker has left between the leader's look and the command."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from cluster.admin_messages import CreatePartitionsRequest
from cluster.commands import (
    AdmitBroker,
    AlterPlacements,
    CreatePartitions,
    CreateTopic,
    PlacementRecord,
    RegisterBroker,
    RemoveBroker,
    ReplicaRecord,
    RetireDirectory,
    SetBrokerState,
)
from cluster.errors import InvalidReplicaAssignmentError
from cluster.placements import AlterPlacementsRequest, Placements, WantedMove, _Room
from model.ids import NodeId
from raft.link_names import LinkNames
from tests.unit.cluster.cluster_nodes import cluster_of, create_request, run, until
from tests.unit.cluster.test_joins import Growing
from tests.unit.cluster.test_members import TOPIC, Machine, record
from tests.unit.kafka_api.wire_client import stuck_disk

OTHER = "b" * 32


def places(*nodes, directories=None):
    return [ReplicaRecord(node, (directories or {}).get(node, f"d{node}")) for node in nodes]


def machine_of_four():
    machine = Machine()
    machine.topic(1, 2)
    machine.apply(AdmitBroker(4, "d4", "r", 1))
    machine.apply(RegisterBroker(record(4)))
    return machine


PLACEMENTS = [
    CreateTopic("late", OTHER, [places(1, 2), places(1, 4)], {}),
    CreatePartitions(TOPIC, 1, [places(4, 1)]),
    AlterPlacements([PlacementRecord(TOPIC, 0, places(1, 4))]),
]
CHANGES = [
    (SetBrokerState(4, "draining"), "broker 4 is draining"),
    (SetBrokerState(4, "decommissioning"), "broker 4 is decommissioning"),
    (RetireDirectory(4, "d4"), "the data directory of broker 4 is retired"),
    (RemoveBroker(4), "broker 4 is not in the cluster"),
]


@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda command: type(command).__name__)
@pytest.mark.parametrize(("change", "words"), CHANGES, ids=lambda each: type(each).__name__)
def test_nothing_is_placed_on_a_broker_that_has_left_meanwhile(placement, change, words):
    machine = machine_of_four()
    machine.apply(change)
    before = b"".join(machine.tables.encode())
    with pytest.raises(
        InvalidReplicaAssignmentError, match=f"{words}.*; the brokers have changed meanwhile: ask again"
    ):
        machine.apply(placement)
    assert b"".join(machine.tables.encode()) == before


@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda command: type(command).__name__)
def test_nothing_is_placed_in_a_directory_that_was_replaced_meanwhile(placement):
    machine = machine_of_four()
    for change in (RetireDirectory(4, "d4"), AdmitBroker(4, "new", "r", 1)):
        machine.apply(change)
        with pytest.raises(InvalidReplicaAssignmentError):
            machine.apply(placement)
    machine.apply(RegisterBroker(record(4, "new")))
    with pytest.raises(InvalidReplicaAssignmentError, match="broker 4 has another data directory by now"):
        machine.apply(placement)


@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda command: type(command).__name__)
def test_what_is_placed_on_active_brokers_is_taken(placement):
    machine_of_four().apply(placement)


def test_a_broker_that_holds_a_partition_may_keep_it_though_it_gets_nothing_new():
    machine = machine_of_four()
    machine.apply(SetBrokerState(2, "draining"))
    machine.apply(AlterPlacements([PlacementRecord(TOPIC, 0, places(2, 4))]))
    machine.apply(SetBrokerState(2, "decommissioning"))
    machine.apply(AlterPlacements([PlacementRecord(TOPIC, 0, places(4, 2, 1))]))
    # What was asked for before waits for the lost disk's node, and keeps its name until then.
    machine.apply(RetireDirectory(4, "d4"))
    machine.apply(AlterPlacements([PlacementRecord(TOPIC, 0, places(4, 1))]))
    machine.apply(AlterPlacements([PlacementRecord(TOPIC, 0, None)]))


def test_a_node_that_has_joined_anew_gets_what_it_held_unless_its_new_directory_is_lost_too():
    machine = machine_of_four()
    machine.apply(AlterPlacements([PlacementRecord(TOPIC, 0, places(1, 4))]))
    machine.apply(RetireDirectory(4, "d4"))
    machine.apply(AdmitBroker(4, "e4", "r", 1))
    machine.apply(RegisterBroker(record(4, "e4")))
    moved = AlterPlacements([PlacementRecord(TOPIC, 0, places(1, 4, directories={4: "e4"}))])
    machine.apply(RetireDirectory(4, "e4"))
    with pytest.raises(InvalidReplicaAssignmentError, match="the data directory of broker 4 is retired"):
        machine.apply(moved)


def test_the_leader_refuses_a_move_to_a_directory_that_was_lost_as_the_tables_do():
    """The partition was to be in the node's first directory, so that the node still holds it by its number."""
    machine = machine_of_four()
    machine.apply(AlterPlacements([PlacementRecord(TOPIC, 0, places(1, 4))]))
    machine.apply(RetireDirectory(4, "d4"))
    machine.apply(AdmitBroker(4, "e4", "r", 1))
    machine.apply(RegisterBroker(record(4, "e4")))
    machine.apply(RetireDirectory(4, "e4"))
    controller = SimpleNamespace(members=machine.members, topics=machine.tables.topics)
    admin = SimpleNamespace(serve=lambda *_: None, replicas_max=lambda: 10)
    placements = Placements(controller, admin, LinkNames())
    room, directories = _Room(controller.topics, 10), {NodeId(1): "d1", NodeId(4): "e4"}
    with pytest.raises(InvalidReplicaAssignmentError, match="the data directory of broker 4 is retired"):
        placements._checked(WantedMove("t", 0, [4, 1]), room, directories, may_change_count=True)


def test_below_the_level_a_topic_is_placed_as_older_versions_have_placed_it():
    machine = Machine(level=0)
    machine.apply(CreateTopic("old", TOPIC, [places(7, 8)], {}))
    machine.apply(CreatePartitions(TOPIC, 1, [places(9, 1)]))
    assert machine.tables.topics.replica_count(NodeId(9)) == 1


@asynccontextmanager
async def overtaken(directory, *kinds):
    """Yield raft0's leader, another node, and the broker whose decommission precedes each command of these kinds.

    The decommission is not applied when raft0's leader looks at its tables. The broker that leaves does not lead raft0:
    a leader that leaves hands its office over in the middle of the test.
    """
    cluster = Growing(directory, 3)
    try:
        await cluster.start()
        await until(cluster.has_controller)
        controller = cluster.controller.controller
        asked, leaving = (node for node in cluster.nodes.values() if node is not cluster.controller)
        leaves, propose = leaving.options.node_id, controller.propose

        async def propose_behind(command, deadline):
            if isinstance(command, kinds):
                await propose(SetBrokerState(leaves, "decommissioning"), deadline)
            return await propose(command, deadline)

        controller.propose = propose_behind
        yield controller, asked, leaves
    finally:
        await cluster.stop()


def brokers_of(topic):
    return {replica.node_id for replicas in topic.replicas for replica in replicas}


def test_who_asks_for_a_broker_is_told_that_it_has_left_meanwhile(tmp_path):
    async def test():
        async with overtaken(tmp_path, CreateTopic, CreatePartitions) as (controller, asked, leaves):
            request = create_request("t", assignment=[[1, 2, 3]])
            with pytest.raises(InvalidReplicaAssignmentError, match=f"broker {leaves} is decommissioning"):
                await asked.admin.create_topic(request)
            assert controller.topics.get("t") is None

    run(test)


def test_other_brokers_are_chosen_for_who_asks_for_none(tmp_path):
    async def test():
        async with overtaken(tmp_path, CreateTopic, CreatePartitions) as (controller, asked, leaves):
            reply = await asked.admin.create_topic(create_request("t", 6, 2))
            assert (reply.partitions, reply.replication_factor) == (6, 2)
            await until(lambda: controller.topics.get("t") is not None)
            assert brokers_of(controller.topics.get("t")) == {1, 2, 3} - {leaves}
            await controller.propose(SetBrokerState(leaves, "active"), asyncio.get_running_loop().time() + 10)
            await asked.admin.create_partitions(CreatePartitionsRequest("t", 12, [], False, 10.0))
            topic = controller.topics.get("t")
            assert len(topic.replicas) == 12
            assert brokers_of(topic) == {1, 2, 3} - {leaves}

    run(test)


def moves_of(*targets):
    return AlterPlacementsRequest([WantedMove("t", number, [node]) for number, node in enumerate(targets)], False, 10.0)


def refused_by(reply):
    return [(each.partition, each.error) for each in reply.refused]


def test_a_partition_whose_new_broker_leaves_meanwhile_does_not_keep_the_others(tmp_path):
    async def test():
        async with overtaken(tmp_path, AlterPlacements) as (controller, asked, leaves):
            leads, stays = controller.consensus.state.node_id, asked.options.node_id
            await asked.admin.create_topic(create_request("t", assignment=[[leads], [leads]]))
            reply = await asked.placements.alter(moves_of(leaves, stays))
            assert refused_by(reply) == [(0, "InvalidReplicaAssignmentError")]
            assert reply.refused[0].message == f"broker {leaves} is decommissioning"
            assert reply.moved == 1
            topic = controller.topics.get("t")
            assert 0 not in topic.placements
            assert stays in {replica.node_id for replica in topic.holders(1)}

    run(test)


def test_if_no_partition_is_left_to_move_nothing_is_proposed_again(tmp_path):
    async def test():
        async with overtaken(tmp_path, AlterPlacements) as (controller, asked, leaves):
            leads = controller.consensus.state.node_id
            await asked.admin.create_topic(create_request("t", assignment=[[leads]]))
            reply = await asked.placements.alter(moves_of(leaves))
            assert (refused_by(reply), reply.moved) == ([(0, "InvalidReplicaAssignmentError")], 0)

    run(test)


def test_a_decommission_that_lies_in_the_log_counts_before_partitions_move(tmp_path):
    """It took too long for whoever proposed it, and is not committed when the request comes."""

    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            node, deadline = cluster[1], asyncio.get_running_loop().time() + 20
            controller, propose, moves = node.controller, node.controller.propose, []
            for number in (2, 3):
                await propose(AdmitBroker(number, f"d{number}", "r", 1), deadline)
                await propose(RegisterBroker(record(number)), deadline)
            await cluster.create_topic("t", assignment=[[1], [1]])

            async def counted(command, deadline):
                if isinstance(command, AlterPlacements) and command.of_raft0 is None:
                    moves.append(command)
                return await propose(command, deadline)

            controller.propose = counted
            async with stuck_disk(SimpleNamespace(node=node)):
                late = asyncio.create_task(propose(SetBrokerState(2, "decommissioning"), deadline))
                await until(lambda: controller.consensus.log.dirty_index > controller.applied_index)
                asked = asyncio.create_task(node.placements.alter(moves_of(2, 3)))
                await until(controller.admission.locked)
            await late
            reply = await asked
            assert (refused_by(reply), reply.moved) == ([(0, "InvalidReplicaAssignmentError")], 1)
            assert len(moves) == 1

    run(test)


def test_nothing_gets_more_replicas_than_brokers_stay_though_one_that_leaves_has_one(tmp_path):
    """Seed 51525: the broker kept its replica, and there was nowhere to put that."""

    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            node, deadline = cluster[1], asyncio.get_running_loop().time() + 20
            for number in (2, 3):
                await node.controller.propose(AdmitBroker(number, f"d{number}", "r", 1), deadline)
                await node.controller.propose(RegisterBroker(record(number)), deadline)
            held = places(1, 2, directories={1: node.replica.directory_id})
            await node.controller.propose(CreateTopic("t", OTHER, [held], {}), deadline)
            await node.controller.propose(SetBrokerState(2, "decommissioning"), deadline)
            wanted = [WantedMove("t", 0, [1, 3, 2])]
            reply = await node.placements.alter(AlterPlacementsRequest(wanted, True, 10.0))
            assert refused_by(reply) == [(0, "InvalidReplicationFactorError")]
            assert "2 brokers stay" in reply.refused[0].message
            wanted = [WantedMove("t", 0, [2, 1])]
            reply = await node.placements.alter(AlterPlacementsRequest(wanted, True, 10.0))
            assert (reply.refused, reply.moved) == ((), 1)

    run(test)
