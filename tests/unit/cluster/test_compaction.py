"""The node's passes: which partition is due, what one that fails leads to, and what waits."""

import asyncio
from dataclasses import dataclass, field

import pytest

from cluster.compaction import CompactionOptions, Compactor
from cluster.compaction_rule import NO_MAX_LAG, CompactionPolicy, dirty_ratio, is_due
from cluster.deletes_bounds import DeletesBounds
from runtime.child import ChildError
from storage.cleaned_output import CLEANED_SUFFIX
from storage.errors import CorruptLogError
from storage.log_compaction import CleaningFacts
from storage.segment_cleaning import CleaningRequest, CleaningResult, clean
from tests.engine import consensus_of
from tests.simulation.scenarios.compacted_story import KEYS, SEGMENT_BYTES, put, table
from tests.simulation.scenarios.scenario import Scenario

POLICY = CompactionPolicy(0.5, 1000, 0, NO_MAX_LAG, is_deleted=False, segment_bytes=1 << 20)


@pytest.mark.parametrize(
    ("facts", "policy", "due"),
    [
        (CleaningFacts(100, 50, 900, 0), POLICY, True),
        (CleaningFacts(100, 49, 900, 0), POLICY, False),
        (CleaningFacts(100, 30, 900, 20), POLICY, True),
        (CleaningFacts(0, 0, 0, 0), POLICY, False),
        # A ratio of 0 asks for a pass whenever there is something to do, and not for passes without end.
        (CleaningFacts(100, 0, 0, 0), POLICY._replace(min_dirty_ratio=0.0), False),
        (CleaningFacts(100, 1, 900, 0), POLICY._replace(min_dirty_ratio=0.0), True),
        (CleaningFacts(100, 1, 900, 0), POLICY._replace(max_lag_ms=100), True),
        (CleaningFacts(100, 1, 901, 0), POLICY._replace(max_lag_ms=100), False),
        (CleaningFacts(100, 0, 0, 1), POLICY._replace(max_lag_ms=100), False),
    ],
)
def test_a_partition_is_due_by_its_dirty_part_or_by_its_age(
    facts: CleaningFacts, policy: CompactionPolicy, due: bool
) -> None:
    assert is_due(facts, policy, now_ms=1000) == due
    assert 0 <= dirty_ratio(facts) <= 1


@dataclass
class StoryCleaner:
    """Passes that take a virtual second; the next ones end with these errors once they have written all."""

    story: Scenario
    node_id: int
    errors: list[Exception] = field(default_factory=list)
    passes: int = 0

    async def clean(self, request: CleaningRequest) -> CleaningResult:
        self.passes += 1
        await asyncio.sleep(1.0)
        result = clean(self.story.machine(self.node_id).environment.files, request)
        if self.errors:
            raise self.errors.pop(0)
        return result


class Node:
    """The compactor of one node of a story."""

    def __init__(self, story: Scenario, node_id: int, *errors: Exception, spare_bytes: int = 1 << 30) -> None:
        self.cleaner = StoryCleaner(story, node_id, list(errors))
        self.spare_bytes = spare_bytes
        self.policy: CompactionPolicy | None = POLICY
        machine = story.machine(node_id)
        partition = story.cluster.partition(node_id, story.group)
        assert partition is not None
        self.partition = partition
        self.partitions = [partition]
        self.compactor = Compactor(
            self.partitions,
            lambda _: self.policy,
            self.cleaner,
            machine.environment.wall_clock,
            lambda: self.spare_bytes,
            CompactionOptions(),
        )
        machine.loop.post(self.compactor.start)

    @property
    def clean_index(self) -> int:
        return int(consensus_of(self.partition).clean_index)


def written(story: Scenario, rounds: int = 4, producer: int = 8) -> None:
    """Overwrite all keys so often that segments are closed, and wait until the state is durable."""
    leader = story.leader
    for number in range(3 * rounds):
        value, sequence = b"%03d" % number * 300, -1 if producer < 0 else number
        put(story, leader, KEYS[number % 3], value, producer=producer, sequence=sequence)
    for node_id in story.world.nodes:
        log = story.replica(node_id).log
        story.wait(lambda log=log: log.snapshot_index >= log.closed_index > 6)


def test_each_replica_is_cleaned_and_none_again_without_need() -> None:
    with Scenario(71, segment_bytes=SEGMENT_BYTES) as story:
        nodes = [Node(story, node_id) for node_id in story.world.nodes]
        written(story)
        story.wait(lambda: all(node.clean_index > 6 for node in nodes), 60.0)
        tables = [table(story, node_id) for node_id in story.world.nodes]
        assert tables[0] == tables[1] == tables[2]
        made = [node.cleaner.passes for node in nodes]
        story.run_for(120.0)
        assert [node.cleaner.passes for node in nodes] == made
        story.converge()


def test_a_log_without_idempotent_producers_is_cleaned_too() -> None:
    with Scenario(79, segment_bytes=SEGMENT_BYTES) as story:
        nodes = [Node(story, node_id) for node_id in story.world.nodes]
        # They leave no state that a start would have to replay.
        written(story, producer=-1)
        story.wait(lambda: all(node.clean_index > 6 for node in nodes), 60.0)
        story.converge()


@pytest.mark.parametrize("what", ["policy", "room"])
def test_nothing_is_cleaned_without_a_policy_or_without_room(what: str) -> None:
    with Scenario(72, segment_bytes=SEGMENT_BYTES) as story:
        node = Node(story, story.leader)
        if what == "policy":
            node.policy = None
        else:
            node.spare_bytes = 1000
        written(story)
        story.run_for(60.0)
        assert node.cleaner.passes == 0
        node.policy, node.spare_bytes = POLICY, 1 << 30
        story.wait(lambda: node.clean_index > 6, 60.0)


def test_a_pass_that_fails_comes_again_after_a_minute() -> None:
    with Scenario(73, segment_bytes=SEGMENT_BYTES) as story:
        node = Node(story, story.leader, ChildError("it was killed"), OSError(28, "no space left"))
        written(story)
        story.wait(lambda: node.cleaner.passes == 1, 60.0)
        story.run_for(55.0)
        assert node.cleaner.passes == 1
        story.wait(lambda: node.clean_index > 6, 200.0)
        assert node.cleaner.passes == 3
        assert not node.compactor.is_suspended(story.group)


def test_a_pass_under_which_the_disk_fills_up_comes_again_and_producers_go_on() -> None:
    with Scenario(84, segment_bytes=SEGMENT_BYTES) as story:
        node, disk = Node(story, story.leader), story.machine(story.leader).disk
        capacity, make = disk.capacity, node.cleaner.clean

        async def clean_without_room(request: CleaningRequest) -> CleaningResult:
            # Others have taken the room since the look; what the pass writes first still has some.
            if node.cleaner.passes == 0:
                disk.capacity = disk.used + 2000
            return await make(request)

        node.cleaner.clean = clean_without_room  # type: ignore[method-assign]
        written(story)
        story.wait(lambda: node.compactor.counts.failures == 1, 60.0)
        # The pass has met the end of the disk, and its outputs are gone: the disk has as much room as before.
        assert disk.counts["full"] == 1
        story.wait(lambda: disk.capacity - disk.used > 1000)
        for number in range(2):
            assert put(story, story.leader, KEYS[0], b"small", producer=9, sequence=number).result is not None
        disk.capacity = capacity
        story.run_for(50.0)
        assert node.cleaner.passes == 1
        story.wait(lambda: node.clean_index > 6, 60.0)
        assert (node.cleaner.passes, node.compactor.counts.failures) == (2, 1)
        story.converge()


def test_a_partition_whose_passes_fail_three_times_is_suspended() -> None:
    with Scenario(74, segment_bytes=SEGMENT_BYTES) as story:
        node = Node(story, story.leader, *[ChildError("it was killed")] * 3)
        written(story)
        story.wait(lambda: node.compactor.is_suspended(story.group), 300.0)
        story.run_for(300.0)
        assert (node.cleaner.passes, node.clean_index) == (3, 0)
        assert node.compactor.suspended() == [node.partition]
        assert (node.compactor.counts.passes, node.compactor.counts.failures) == (0, 3)
        # A full disk has its room again.
        files, log = story.machine(story.leader).environment.files, story.replica(story.leader).log
        names = files.listdir(log._segments[0].path.rpartition("/")[0])
        assert not [name for name in names if name.endswith(CLEANED_SUFFIX)]
        # Whoever reads and writes notices nothing.
        put(story, story.leader, KEYS[0], b"next", producer=9, sequence=0)
        story.converge()


def test_a_tombstone_is_seen_to_be_held_by_members_until_they_are_clean() -> None:
    with Scenario(76, segment_bytes=SEGMENT_BYTES) as story:
        leader, followers = story.leader, story.followers
        machine, client = story.machine(leader), story.cluster.nodes[leader].groups._node.client
        machine.loop.post(DeletesBounds(client, lambda: [story.replica(leader)]).start)
        put(story, leader, b"gone", b"old", producer=7, sequence=0)
        put(story, leader, b"gone", None, producer=7, sequence=1)
        first = Node(story, leader)
        second = Node(story, followers[0])
        written(story)
        story.wait(lambda: first.clean_index > 6 and second.clean_index > 6, 60.0)
        story.run_for(60.0)
        (seen,) = first.compactor.seen()
        assert seen.facts.held_bytes == first.compactor.held_bytes(story.group) > 0
        assert seen.holders == (followers[1],)
        assert seen.held_since is not None
        began = seen.held_since
        story.run_for(30.0)
        assert first.compactor.seen()[0].held_since == began
        # Only the leader knows who holds it.
        assert second.compactor.seen()[0].holders == ()
        Node(story, followers[1])
        story.wait(lambda: first.compactor.seen()[0].held_since is None, 120.0)
        assert story.replica(leader).deletes_to > 6
        # One small tombstone is not worth a pass: the next one takes it along.
        assert first.compactor.seen()[0].facts.removable_bytes > 0


def test_a_pass_is_given_up_if_the_policy_changes_meanwhile() -> None:
    with Scenario(77, segment_bytes=SEGMENT_BYTES) as story:
        node = Node(story, story.leader)
        written(story)
        story.wait(lambda: node.cleaner.passes == 1, 60.0)
        node.policy = None
        story.run_for(30.0)
        assert (node.cleaner.passes, node.clean_index) == (1, 0)
        assert (node.compactor.counts.passes, node.compactor.counts.failures) == (0, 0)
        files, log = story.machine(story.leader).environment.files, story.replica(story.leader).log
        names = files.listdir(log._segments[0].path.rpartition("/")[0])
        assert not [name for name in names if name.endswith(CLEANED_SUFFIX)]
        node.policy = POLICY
        story.wait(lambda: node.clean_index > 6, 60.0)


def test_a_pass_over_a_replica_that_leaves_meanwhile_has_not_failed() -> None:
    with Scenario(78, segment_bytes=SEGMENT_BYTES) as story:
        node = Node(story, story.leader, ChildError("its files are gone"))
        written(story)
        story.wait(lambda: node.cleaner.passes == 1, 60.0)
        node.partitions.clear()
        story.run_for(10.0)
        assert (node.cleaner.errors, node.compactor.counts.failures) == ([], 0)


def test_damage_that_a_pass_finds_is_what_a_read_finds() -> None:
    with Scenario(75, segment_bytes=SEGMENT_BYTES) as story:
        leader = story.leader
        path = str(story.replica(leader).log._segments[0].path)
        Node(story, leader, CorruptLogError("it is damaged", path))
        written(story)
        # The replica is opened anew, without what is damaged.
        before = story.replica(leader)
        story.wait(lambda: story.cluster.consensus(leader, story.group) not in (None, before), 60.0)
