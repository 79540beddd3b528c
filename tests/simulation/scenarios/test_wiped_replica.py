"""RFC 0001 section 4: a replica is a node together with its directory (counterexample 4)."""

import msgspec
import pytest

import cluster.data_directory_watch
import cluster.node
import tests.simulation.world.observer
from cluster.data_directory import DirectoryRecord, claim_data_directory, read_identity
from cluster.founding import Founding
from cluster.founding_words import ClusterRecord, found
from model.ids import DirectoryId, Replica
from tests.simulation.scenarios.scenario import QUORUM, Scenario
from tests.simulation.world.sim_disk import Directory


def _a_wiped_holder_is_asked_for_its_vote() -> None:
    with Scenario(371) as story:
        leader, [wiped, lagging] = story.leader, story.followers
        story.run_for(0.3)
        story.connect([leader, wiped])
        committed = story.write(leader, QUORUM)
        story.wait(lambda: committed.is_answered)
        assert committed.result is not None
        story.kill(wiped)
        machine, kvstores = story.machine(wiped), story.cluster._kvstores
        was_on_disk, was_in_kvstore = machine.disk.root, kvstores[wiped]
        machine.disk.root, kvstores[wiped] = Directory(), {}
        story.kill(leader)
        story.heal()
        story.candidates = None
        story.cluster.start(wiped)
        story.run_for(8.0)
        assert story.cluster.leader_of(story.group) is None, "who remains lacks what was committed"
        # Its own directory is brought back. Told that it is known by another one, the broker has ended.
        if story.cluster.is_up(wiped):
            story.kill(wiped)
        machine.disk.root, kvstores[wiped] = was_on_disk, was_in_kvstore
        story.converge()
        assert all(story.holds(node_id, committed) for node_id in story.world.nodes)
        assert story.holds(lagging, committed)


def test_a_wiped_disk_does_not_vote_as_the_replica_it_was() -> None:
    _a_wiped_holder_is_asked_for_its_vote()


def _directory_of(node_id: int) -> DirectoryId:
    return DirectoryId(f"{node_id:032}")


async def _claim(*arguments) -> Replica:
    """The disk has an identity, and nobody hears of it."""
    replica = await claim_data_directory(*arguments)
    return Replica(replica.node_id, _directory_of(replica.node_id))


def _read_identity(*arguments) -> DirectoryRecord | None:
    record = read_identity(*arguments)
    return record and msgspec.structs.replace(record, directory_id=_directory_of(record.node_id))


async def _found(founding: Founding) -> ClusterRecord:
    """Whoever has the node ids knows all members: none of them is asked."""
    record = found({node_id: _directory_of(node_id) for node_id in founding._seed_ids()})
    founding._kvstore.put("node/cluster", msgspec.json.encode(record))
    await founding._kvstore.sync()
    founding._cluster = record
    return record


def test_a_committed_entry_is_lost_where_the_node_id_is_the_identity(monkeypatch) -> None:
    monkeypatch.setattr(cluster.node, "claim_data_directory", _claim)
    monkeypatch.setattr(cluster.data_directory_watch, "read_identity", _read_identity)
    monkeypatch.setattr(Founding, "found", _found)
    # The first to object would be the one that sees the empty log: here it is asked what follows from it.
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="lacks what was committed"):
        _a_wiped_holder_is_asked_for_its_vote()
