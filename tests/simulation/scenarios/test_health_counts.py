"""W8 of the metrics: what brokers count of partitions and of the cluster, and which broker does."""

import pytest

from cluster.health_counts import ClusterCounts, HealthCounts, LedCounts
from runtime.workers import Pool
from tests.simulation.known_bugs.table import plant
from tests.simulation.scenarios.scenario import QUORUM, Scenario
from tests.simulation.world.world import SimulationError


async def _asked(health: HealthCounts) -> tuple[LedCounts, ClusterCounts | None]:
    return health.led(), health.cluster()


def _counted(story: Scenario, node_id: int) -> tuple[LedCounts, ClusterCounts | None]:
    node = story.cluster.nodes[node_id]
    return story.world.run(story.machine(node_id), _asked(node.health))


def _cluster_counts(story: Scenario) -> list[ClusterCounts]:
    """Return what is counted of the cluster, by whichever brokers do."""
    counted = [_counted(story, node_id)[1] for node_id in story.cluster.nodes]
    return [each for each in counted if each is not None]


def test_a_partition_counts_as_led_from_its_office_on() -> None:
    with Scenario(350) as story:
        first, second = story.leader, story.followers[0]
        story.wait(lambda: _counted(story, first)[0] == LedCounts(1, 0, 0, 0))
        story.elect(second)
        assert story.replica(second).state.is_leader
        assert _counted(story, second)[0].partitions_led == 0
        story.wait(lambda: story.replica(second).is_in_office)
        story.wait(lambda: _counted(story, second)[0] == LedCounts(1, 0, 0, 0))
        assert _counted(story, first)[0].partitions_led == 0
        story.converge()


def test_one_broker_counts_the_cluster_and_calls_a_partition_offline_until_somebody_leads_it() -> None:
    with Scenario(351) as story:
        story.wait(lambda: _cluster_counts(story) == [ClusterCounts(3, 3, 0)])
        leader = story.leader
        # Nobody stands: the partition stays without a leader.
        story.kill(leader)
        story.wait(lambda: _cluster_counts(story) == [ClusterCounts(3, 2, 1)])
        story.candidates = None
        story.wait(lambda: _cluster_counts(story) == [ClusterCounts(3, 2, 0)])
        story.converge()
        story.wait(lambda: _cluster_counts(story) == [ClusterCounts(3, 3, 0)])


def test_a_broker_that_is_cut_off_counts_no_partition_as_offline() -> None:
    with Scenario(352) as story:
        lonely = next(node_id for node_id in story.world.nodes if _counted(story, node_id)[1] is None)
        story.connect([lonely], [node_id for node_id in story.world.nodes if node_id != lonely])
        story.run_for(5.0)
        assert _counted(story, lonely)[1] is None
        story.converge()


def test_every_broker_would_call_partitions_offline_if_it_spoke_for_the_cluster(monkeypatch) -> None:
    plant(monkeypatch, "every_broker_counts_offline_partitions")
    with pytest.raises(SimulationError, match="an invariant is broken"), Scenario(352, kafka=True) as story:
        story.run_for(1.0)


def test_a_partition_with_a_dead_follower_is_under_replicated_and_beyond_its_min_insync_replicas() -> None:
    with Scenario(353, topic_configs={"min.insync.replicas": "3"}) as story:
        leader = story.leader
        story.kill(story.followers[0])
        story.wait(lambda: _counted(story, leader)[0] == LedCounts(1, 1, 1, 0), 60)
        story.converge()
        story.wait(lambda: _counted(story, story.leader)[0] == LedCounts(1, 0, 0, 0))


def test_a_partition_whose_followers_fsync_nothing_is_stalled_after_10_s_and_not_before() -> None:
    with Scenario(354) as story:
        leader = story.leader
        for node_id in story.followers:
            story.machine(node_id).workers.stall(Pool.FSYNC)
        story.write(leader, QUORUM)
        story.run_for(0.5)
        assert _counted(story, leader)[0].stalled == 0
        story.run_for(9.0)
        assert _counted(story, leader)[0].stalled == 0
        story.run_for(1.5)
        assert (story.leader, _counted(story, leader)[0].stalled) == (leader, 1)
        for node_id in story.followers:
            story.machine(node_id).workers.mend()
        story.wait(lambda: _counted(story, story.leader)[0].stalled == 0)
        story.converge()
