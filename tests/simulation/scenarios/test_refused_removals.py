"""RFC 0001 section 5: a deleted topic leaves nothing behind, also where the disk refuses at first (seed 12221)."""

import pytest

from cluster.admin_messages import CreateTopicRequest, DeleteTopicRequest
from cluster.controller_backend import ControllerBackend
from model.ids import GroupId
from tests.simulation.scenarios.scenario import Scenario

_NODE = 2


def _directories(story: Scenario) -> set[str]:
    return set(story.cluster._groups_directory(_NODE).entries)


def _created(story: Scenario) -> GroupId:
    node = story.cluster.nodes[_NODE]
    request = CreateTopicRequest("passing", 1, 3, [], {}, False, 5.0)
    story.world.run(story.machine(_NODE), node.admin.create_topic(request))
    story.wait(lambda: node.controller.topics.get("passing") is not None)
    group = node.controller.topics.get("passing").group(0)
    story.wait(lambda: node.partitions.get(group) is not None)
    return group


def _deleted(story: Scenario) -> None:
    node = story.cluster.nodes[_NODE]
    story.world.run(story.machine(_NODE), node.admin.delete_topic(DeleteTopicRequest("passing", "", 5.0)))
    story.wait(lambda: node.controller.topics.get("passing") is None)


def _a_removal_that_the_disk_refuses() -> None:
    with Scenario(381) as story:
        kept = _directories(story)
        group = _created(story)
        story.kill(_NODE)
        for _ in range(10):
            story.machine(_NODE).disk.fail_next("read", path_part=f"{group.replace('/', '-')}/replica.id")
        story.restart(_NODE)
        story.wait(lambda: group in story.cluster.nodes[_NODE].backend.failed)
        _deleted(story)
        story.run_for(1.0)
        assert len(_directories(story)) == len(kept) + 1
        story.machine(_NODE).disk.clear_faults()
        story.run_for(6.0)
        assert _directories(story) == kept
        story.converge()


def test_a_removal_that_the_disk_refuses_is_tried_again() -> None:
    _a_removal_that_the_disk_refuses()


async def _run_once(self: ControllerBackend) -> None:
    """Nothing is tried again unless something changes."""
    while True:
        self._changed.clear()
        await self._reconcile()
        await self._changed.wait()


def test_a_backend_that_tries_once_leaves_it_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControllerBackend, "_run", _run_once)
    with pytest.raises(AssertionError):
        _a_removal_that_the_disk_refuses()
