"""An operator of living runs, without faults: each change of brokers comes to its end, and the tables say so."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import TypeVar

import pytest

from model.features import BROKERS_LEVEL, MEMBERSHIP
from tests.simulation.campaign.plan import Plan
from tests.simulation.campaign.run import _cluster
from tests.simulation.world.cluster import SimCluster
from tests.simulation.world.living_brokers import LivingBrokers
from tests.simulation.world.living_probes import LivingProbes
from tests.simulation.world.living_upgrade import RollingUpgrade
from tests.simulation.world.nemesis import Nemesis
from tests.simulation.world.world import World

T = TypeVar("T")


class _First(Random):
    """Chooses the first of what there is; `drawn` is all that it draws from [0, 1)."""

    def __init__(self, drawn: float = 0.9) -> None:
        super().__init__()
        self._drawn = drawn

    def random(self) -> float:
        return self._drawn

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        return seq[0]


class _Story:
    """A cluster of five brokers, a sixth machine, and an operator; nothing is broken."""

    def __init__(self, world: World, *, is_older: bool = False) -> None:
        made = _cluster(world, plan=Plan(world.seed, living=True))
        self.world = World(world.seed)
        self.cluster = SimCluster(self.world, replace(made.options, is_older=is_older))
        self.cluster.observer.add(LivingProbes(self.cluster.history))
        self.cluster.found()
        self.nemesis = Nemesis(self.cluster, self.world.stream("nemesis"), lambda _: None)
        # Only what it looks at is wanted.
        self.nemesis.kinds = ["nothing"]
        self.nemesis._look_at_leaders()
        self.brokers = LivingBrokers(self.cluster, self.nemesis, 0.0)

    def until(self, goal: Callable[[], object], seconds: float = 60.0) -> None:
        has_come = self.world.run_until(lambda: bool(goal()), self.world.time + seconds)
        self.world.check()
        assert has_come, f"{self.cluster.what_is_missing()}; {dict(self.cluster.history.counts)}"

    def until_counted(self, name: str) -> None:
        self.until(lambda: self.cluster.history.counts[name])

    def until_converged(self) -> None:
        self.until(self.cluster.has_converged)
        self.cluster.observer.at_end()

    def admitted(self) -> list[int]:
        node = self.brokers.newest()
        assert node is not None
        return [int(member.node_id) for member in node.controller.members.admitted()]


@contextmanager
def _story(*, is_older: bool = False) -> Iterator[_Story]:
    with World(5) as drawn:
        story = _Story(drawn, is_older=is_older)
        try:
            yield story
        finally:
            story.world.close()


def test_a_sixth_broker_joins() -> None:
    with _story() as story:
        story.brokers.join(_First())
        story.until_counted("brokers that joined")
        story.until_converged()
        assert story.admitted() == [1, 2, 3, 4, 5, 6]


def test_a_removed_broker_is_refused_and_joins_again_with_an_empty_disk() -> None:
    with _story() as story:
        story.brokers.decommission(_First())
        story.until_counted("brokers removed")
        story.until(lambda: 1 in story.cluster.kept_down)
        story.until_converged()
        assert story.admitted() == [2, 3, 4, 5]
        story.brokers.old_disk_returns(_First())
        story.until_counted("old disks refused")
        for _ in range(2):
            story.brokers.join(_First())
        story.until(lambda: story.cluster.history.counts["brokers that joined"] == 2)
        story.until_converged()
        assert story.admitted() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("drawn", [0.9, 0.1], ids=["after it was stopped", "after a power loss"])
def test_a_disk_is_replaced_and_the_old_one_is_refused(drawn: float) -> None:
    with _story() as story:
        story.brokers.replace_disk(_First(drawn))
        story.until_counted("disks replaced")
        story.until_converged()
        story.brokers.old_disk_returns(_First())
        story.until_counted("old disks refused")
        story.until_converged()
        assert story.admitted() == [1, 2, 3, 4, 5]


def test_a_drained_broker_leads_nothing_until_it_is_undrained() -> None:
    with _story() as story:
        story.brokers.drain(_First())
        story.until_counted("undrain NONE")
        assert story.cluster.history.counts["a draining broker that led nothing"]
        story.until_converged()


def test_a_cluster_of_the_version_before_is_upgraded_and_raised() -> None:
    with _story(is_older=True) as story:
        upgrade = RollingUpgrade(story.cluster, story.nemesis, story.brokers)
        upgrade.begin(Random(1))
        story.until_counted("levels raised")
        story.until_converged()
        levels = [node.controller.features.level(MEMBERSHIP) for node in story.cluster.nodes.values()]
        assert levels == [BROKERS_LEVEL] * 5
