"""RFC 0008 section 5: what followers collect of snapshots is bounded for the node; what is refused is sent again."""

from tests.simulation.scenarios.scenario import QUORUM, Scenario

_SEGMENT_BYTES = 4096


def test_a_snapshot_for_which_there_is_no_room_is_refused_and_installed_later() -> None:
    with Scenario(11, segment_bytes=_SEGMENT_BYTES) as story:
        leader, _, away = story.leader, *story.followers
        story.connect([node_id for node_id in story.world.nodes if node_id != away])
        story.written(leader, QUORUM, 12, size=900)
        partition = story.cluster.partition(leader, story.group)
        story.wait(lambda: partition.high_watermark >= 12)
        deadline = story.machine(leader).loop.time() + 30.0
        story.world.run(story.machine(leader), partition.delete_records(9, deadline))
        budget = story.replica(away)._context.limits.snapshots
        # Other groups' snapshots are being installed: none of them ends by its age.
        others = [budget.try_begin(budget.limit // 2, float("inf"), lambda: None) for _ in range(2)]
        story.heal()
        story.wait(lambda: budget.refused >= 2)
        assert story.probe(away).snapshots_installed == 0
        for place in others:
            assert place is not None
            budget.end(place)
        story.wait(lambda: story.replica(away).log.start_offset == 9)
        story.converge()
        assert story.probe(away).snapshots_installed == 1
        assert budget.taken == 0
