"""RFC 0006: lags are judged from when nothing is late any more that was begun under a fault (seeds 1093, 1134)."""

from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.world.nemesis import Nemesis

_HELD_SECONDS = 6.0


def test_lags_are_looked_at_once_what_a_slow_link_held_has_arrived() -> None:
    with Scenario(382) as story:
        nemesis = Nemesis(story.cluster, story.world.stream("nemesis"), lambda node_id: None)
        looks: list[float] = []
        story.cluster.observer.quiet = looks.append  # type: ignore[method-assign]
        for other in (2, 3):
            story.world.network.slow(1, other, _HELD_SECONDS / story.world.network.link(1, other).base)
        story.run_for(0.2)
        stopped_at = story.world.time
        nemesis.stop()
        held_until = story.world.network.all_arrived_at()
        assert held_until - stopped_at > _HELD_SECONDS / 2, "node 1 has sent heartbeats or requests for votes"
        story.run_for(1.0)
        nemesis.restart_failed()
        story.run_for(held_until - story.world.time + 2.0)
        assert looks
        assert looks[0] >= held_until


def test_lags_are_looked_at_once_what_a_slow_disk_had_begun_has_ended() -> None:
    with Scenario(383) as story:
        nemesis = Nemesis(story.cluster, story.world.stream("nemesis"), lambda node_id: None)
        looks: list[float] = []
        story.cluster.observer.quiet = looks.append  # type: ignore[method-assign]
        machine = story.machine(2)
        machine.disk.slow_factor = 1e5
        story.wait(lambda: machine.workers.all_ended_at() > story.world.time + _HELD_SECONDS)
        nemesis.stop()
        ends_at = machine.workers.all_ended_at()
        story.run_for(1.0)
        nemesis.restart_failed()
        story.run_for(ends_at - story.world.time + 2.0)
        assert looks
        assert looks[0] >= ends_at
