"""RFC 0022, section 7: a compacted log that starts in the middle of a batch, and a follower that ends right before it."""

import pytest

from model.ids import Index
from tests.simulation.scenarios.compacted_story import KEYS, SEGMENT_BYTES, compact, put, table
from tests.simulation.scenarios.scenario import QUORUM, Scenario


def _start_amid_a_batch(story: Scenario) -> Index:
    """Write a batch and more, delete the batch's first records, and make a pass; return the index of the batch."""
    leader = story.leader
    log, machine, partition = (
        story.replica(leader).log,
        story.machine(leader),
        story.cluster.partition(leader, story.group),
    )
    assert partition is not None
    first, index = log.next_offset, Index(log.dirty_index + 1)
    batch = story.write(leader, QUORUM, records=4)
    story.wait(lambda: batch.result is not None)
    for number in range(12):
        put(story, leader, KEYS[number % 3], b"new" * 300, producer=8, sequence=number)
    story.world.run(machine, partition.delete_records(first + 2, machine.loop.time() + 30.0))
    assert (log.start.index, log.start.base_offset, log.start.offset) == (index, first, first + 2)
    story.wait(lambda: log.snapshot_index >= log.closed_index > 8)
    assert compact(story, leader) > index
    return index


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_follower_that_lacks_the_batch_in_which_a_compacted_log_starts_takes_its_leaders_state(
    is_killed: bool,
) -> None:
    """Seed 60867: the state comes before the batch, and the start that comes with it is behind the follower's end."""
    with Scenario(70, segment_bytes=SEGMENT_BYTES) as story:
        leader, other, away = story.leader, *story.followers
        for number in range(2):
            put(story, leader, KEYS[number], b"old" * 300, producer=7, sequence=number)
        log = story.replica(leader).log
        story.wait(lambda: story.replica(away).state.commit_index == log.dirty_index)
        story.connect([leader, other])
        if is_killed:
            story.kill(away)
        index = _start_amid_a_batch(story)
        # It has the entry before the batch, and nothing behind that.
        assert len(story.log(away)) == index - 1
        assert log.compacted_index >= index
        if is_killed:
            story.restart(away)
        installed = story.counts["snapshots installed"]
        story.heal()
        story.wait(lambda: story.replica(away).log.dirty_index == log.dirty_index)
        assert story.counts["snapshots installed"] > installed
        assert story.replica(away).log.start == log.start
        # What has no key goes by a pass, and the other follower has made none.
        assert table(story, away) == table(story, leader) == {key: table(story, other)[key] for key in KEYS}
        # It goes on, and knows the producer of whose batches some are gone.
        story.elect_into_office(away)
        again = put(story, away, KEYS[2], b"new" * 300, producer=8, sequence=11)
        assert again.result is not None, again.error
        following = put(story, away, KEYS[0], b"next", producer=8, sequence=12)
        assert following.result is not None, following.error
        assert following.result.base_offset > again.result.base_offset
        story.converge()
