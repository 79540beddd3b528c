"""How many replicas a topic gets where nobody says: the brokers that stay count, not the seeds."""

from cluster.commands import AdmitBroker, BrokerRecord, SetBrokerState
from cluster.members_table import BrokerState, MembersTable
from model.ids import DirectoryId, NodeId, Replica
from raft.group_configuration import Revision


def test_brokers_count_from_their_admission_until_they_are_to_leave():
    members = MembersTable(Replica(NodeId(number), DirectoryId(f"d{number}")) for number in (1, 2, 3))
    assert members.lasting_count() == 3, "founders that have yet to register"
    members.apply_admit(AdmitBroker(4, "d4", "h", 1), Revision(0, 10))
    assert members.lasting_count() == 4
    members.apply_set_state(SetBrokerState(1, BrokerState.DRAINING.value), Revision(0, 11))
    assert members.lasting_count() == 4, "it comes back"
    members.apply_set_state(SetBrokerState(1, BrokerState.DECOMMISSIONING.value), Revision(0, 12))
    assert members.lasting_count() == 3
    members.apply_remove(NodeId(1), Revision(0, 13))
    assert members.lasting_count() == 3


def test_where_nothing_is_known_of_admissions_those_count_that_have_registered():
    members = MembersTable()
    members.apply_register(BrokerRecord(1, "d1", "k", 1, "r", 2, "a", 3))
    assert members.lasting_count() == 1
