"""RFC 0002 section 3, counterexample 44: a data directory that goes under a running broker."""

import errno

import pytest

import tests.simulation.world.observer
from cluster.admin_messages import CreateTopicRequest
from cluster.data_directory_watch import DataDirectoryWatch, _Seen
from tests.simulation.scenarios.scenario import QUORUM, Scenario
from tests.simulation.world.cluster import DATA_DIR
from tests.simulation.world.sim_disk import Directory, SimFileSystem, _error, _parts

_AWAY = "/away"


async def _create_topic(node) -> None:
    await node.admin.create_topic(CreateTopicRequest("meanwhile", 2, 3, [], {}, False, 10.0))


def _a_directory_goes(*, is_replaced: bool) -> None:
    with Scenario(91) as story:
        leader, [victim, _] = story.leader, story.followers
        before = story.write(leader, QUORUM)
        story.wait(lambda: before.is_answered)
        disk, node = story.machine(victim).disk, story.cluster.nodes[victim]
        disk.move(DATA_DIR, _AWAY)
        if is_replaced:
            disk.make_empty(DATA_DIR)
        story.machine(leader).spawn(_create_topic(story.cluster.nodes[leader]))
        story.run_for(3.0)
        assert disk.names(DATA_DIR) == [], "something was made in its place"
        assert story.cluster.nodes.get(victim) is not node, "it lives on without its directory"
        assert story.counts["brokers that ended without their directory"] == 1
        disk.move(_AWAY, DATA_DIR)
        story.cluster.start(victim)
        story.candidates = None
        story.converge()
        assert story.holds(victim, before)
        assert all(len(list(each.partitions)) == 3 for each in story.cluster.nodes.values())


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_broker_whose_directory_goes_ends_makes_nothing_and_is_back_with_it(is_replaced: bool) -> None:
    _a_directory_goes(is_replaced=is_replaced)


def _mkdir_with_parents(files: SimFileSystem, path: str) -> None:
    directory = files._directory([], path)
    for name in _parts(path):
        below = directory.entries.get(name)
        if below is None:
            below = Directory()
            directory.change({name: below})
            directory.sync()
        if not isinstance(below, Directory):
            raise _error(errno.EEXIST, path)
        directory = below


def test_a_directory_would_be_made_again_if_files_were_found_by_their_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimFileSystem, "hold", lambda files, path: None)
    monkeypatch.setattr(SimFileSystem, "is_in_place", lambda files: True)
    monkeypatch.setattr(SimFileSystem, "mkdir", _mkdir_with_parents)
    monkeypatch.setattr(DataDirectoryWatch, "_compare", lambda watch: _Seen(free_bytes=1 << 30))
    # The first to object would be who looks for the segments of the log under their names.
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="something was made in its place"):
        _a_directory_goes(is_replaced=False)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_broker_without_its_directory_would_live_on_if_nobody_looked(
    monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    monkeypatch.setattr(SimFileSystem, "is_in_place", lambda files: True)
    with pytest.raises(AssertionError, match="it lives on without its directory"):
        _a_directory_goes(is_replaced=is_replaced)
