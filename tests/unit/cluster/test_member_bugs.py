"""Bugs planted in raft0's tables of brokers and of features, and what finds each."""

import pytest

from cluster import controller_tables
from cluster.commands import AdmitBroker, BrokerRecord, RegisterBroker, RemoveBroker, RetireDirectory, SetFeature
from cluster.controller_tables import ControllerTables
from cluster.errors import BrokerNotAdmittedError, FeatureUpdateError, InvalidReplicaAssignmentError
from cluster.feature_table import FeatureTable
from cluster.members_table import MembersTable
from model.features import MEMBERSHIP, OFFERED
from model.ids import Index, NodeId
from model.topic_config import TopicConfig
from tests.unit.cluster.test_members import Machine, record

_CHECK_LEVEL = FeatureTable.check


def _a_removed_broker_does_not_register():
    machine = Machine()
    machine.apply(AdmitBroker(4, "d4", "r", 1))
    machine.apply(RegisterBroker(record(4)))
    machine.apply(RemoveBroker(4))
    with pytest.raises(BrokerNotAdmittedError, match="retired"):
        machine.apply(RegisterBroker(record(4)))
    assert machine.members.get(NodeId(4)) is None


def _a_retired_directory_gets_no_replica():
    machine = Machine()
    machine.apply(RetireDirectory(3, "d3"))
    assert [each.node_id for each in machine.members.usable()] == [1, 2]


def _a_level_waits_for_every_broker():
    tables = ControllerTables(TopicConfig(), OFFERED)
    older = BrokerRecord(2, "d2", "k", 9092, "r2", 33145, "a", 9644, {})
    for index, broker in enumerate((record(1), older), start=1):
        tables.apply(RegisterBroker(broker), Index(index))
    with pytest.raises(FeatureUpdateError, match="broker 2 has 0"):
        tables.apply(SetFeature(MEMBERSHIP, 1), Index(3))
    assert tables.features.level(MEMBERSHIP) == 0


def _no_topic_is_placed_on_a_removed_broker():
    machine = Machine()
    machine.apply(AdmitBroker(4, "d4", "r", 1))
    machine.apply(RegisterBroker(record(4)))
    machine.apply(RemoveBroker(4))
    with pytest.raises(InvalidReplicaAssignmentError):
        machine.topic(1, 4)
    assert machine.tables.topics.all() == []


def _placements_are_judged_by_the_leader_alone(patch):
    patch.setattr(controller_tables, "check_placed", lambda members, replicas, held=(): None)


def _removed_brokers_register(patch):
    patch.setattr(MembersTable, "check_admitted", lambda members, replica: None)


def _retired_directories_count(patch):
    patch.setattr(MembersTable, "is_retired", lambda members, member: False)


def _one_broker_is_enough(patch):
    patch.setattr(
        *(FeatureTable, "check"),
        lambda features, name, level, highest: _CHECK_LEVEL(features, name, level, dict(list(highest.items())[:1])),
    )


BUGS = {
    "removed broker registers": (_removed_brokers_register, _a_removed_broker_does_not_register),
    "topic on a removed broker": (_placements_are_judged_by_the_leader_alone, _no_topic_is_placed_on_a_removed_broker),
    "retired directory counted": (_retired_directories_count, _a_retired_directory_gets_no_replica),
    "level before all have it": (_one_broker_is_enough, _a_level_waits_for_every_broker),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_tables_hold_what_they_promise(bug):
    BUGS[bug][1]()


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug, monkeypatch):
    plant, holds = BUGS[bug]
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        holds()
