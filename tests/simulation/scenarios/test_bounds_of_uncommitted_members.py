"""RFC 0022, section 4: a leader whose newest configuration is not committed, and a member that it has dropped there."""

from cluster.placements import AlterPlacementsRequest, WantedMove
from tests.feature_levels import LIVING
from tests.simulation.scenarios.compacted_story import KEYS, SEGMENT_BYTES, ask, compact, put
from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.world.cluster import TOPIC


def _a_leader_is_cut_off_while_it_drops_an_unclean_member() -> None:
    with Scenario(72, features=LIVING, segment_bytes=SEGMENT_BYTES) as story:
        leader, other, unclean = story.leader, *story.followers
        for number, key in enumerate(KEYS[:2]):
            put(story, leader, key, b"old" * 300, producer=7, sequence=number)
        put(story, leader, KEYS[0], None, producer=8, sequence=0)
        for number in range(12):
            put(story, leader, KEYS[1 + number % 2], b"new" * 400, producer=8, sequence=1 + number)
        for node_id in (leader, other):
            log = story.replica(node_id).log
            story.wait(lambda log=log: log.snapshot_index >= log.closed_index > 8)
            assert compact(story, node_id) >= 4
        ask(story)
        ask(story)
        consensus = story.replica(leader)
        assert consensus.deletes_to == 0
        wanted = AlterPlacementsRequest([WantedMove(TOPIC, 0, [leader, other])], True, 5.0)
        story.machine(leader).spawn(story.cluster.nodes[leader].placements.alter(wanted))
        state = consensus.state
        story.wait(lambda: unclean not in state.configuration.node_ids)
        story.connect([other, unclean])
        assert state.is_leader
        assert not state.configurations.is_committed
        # As `ask_for_clean_indexes` does before it sends a question.
        consensus.raise_deletes_bound()
        for _ in range(2):
            compact(story, leader)
        # `DeletedRecordsAreGone` has looked at the swaps.
        assert consensus.deletes_to == 0


def test_a_dropped_member_counts_until_the_configuration_without_it_is_committed() -> None:
    _a_leader_is_cut_off_while_it_drops_an_unclean_member()
