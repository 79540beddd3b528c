"""RFC 0011: a record per replica and second, whoever leads the topic, and what becomes of a second that is not taken."""

import itertools
import logging
from collections import Counter

import pytest

from cluster.admin_messages import DeleteTopicRequest
from cluster.telemetry.outbox import KEPT_SECONDS
from cluster.telemetry.publisher import INTERVAL
from cluster.telemetry.telemetry_topic import TELEMETRY_TOPIC
from raft.options import RaftOptions
from runtime.workers import Pool
from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.scenarios.telemetry_story import (
    Record,
    leader_of_part,
    part_of_story,
    publisher_of,
    records_of,
    telemetry_story,
    told_in,
    topic_of,
    wait_for_topic,
    write_for,
)
from tests.simulation.world.cluster import TOPIC

_RESERVE = 256 * 1024
# Virtual: an answer and a fsync take milliseconds there.
_SLACK_MS = 20


def _answered(records: list[Record], level: str) -> int:
    return sum(each["replicate"][level]["n"] for each in records if each["replicate"][level] is not None)


def test_every_replica_is_told_of_each_second_wherever_the_topic_is_led() -> None:
    with telemetry_story(1101) as story:
        topic = wait_for_topic(story)
        leader, place = story.leader, part_of_story(story)
        # A figure of the second in which the topic was made may have found a partition without a leader yet.
        failed_at_first = publisher_of(story, leader).counts.batches_failed
        written = write_for(story, 6.0, leader)
        story.run_for(2.5)
        records = told_in(story, place)
        for node_id in story.world.nodes:
            own = records_of(records, node_id)
            assert len(own) >= 7
            assert len({each["boot"] for each in own}) == 1
            for before, after in itertools.pairwise(own):
                assert after["at"] - before["at"] == pytest.approx(1000 * INTERVAL, abs=_SLACK_MS)
                assert after["interval_ms"] == pytest.approx(1000 * INTERVAL, abs=_SLACK_MS)
            last = own[-1]
            assert last["role"] == ("leader" if node_id == leader else "follower")
            assert (last["leader"], last["voters"], last["log_start"]) == (leader, [1, 2, 3], 0)
            assert [last[name] for name in ("dirty", "flushed", "commit", "visible")] == [2 * written] * 4
        led = records_of(records, leader)
        assert _answered(led, "quorum_ack") == written
        assert _answered(led, "leader_ack") == written
        assert led[-1]["in_sync"] == [1, 2, 3]
        assert all(known["flushed"] == 2 * written for known in led[-1]["followers"].values())
        assert sorted(led[-1]["followers"]) == sorted(map(str, story.followers))
        counts = publisher_of(story, leader).counts
        assert (counts.seconds_skipped, counts.batches_failed) == (0, failed_at_first)
        replicas = Counter(
            (each["topic"], each["partition"])
            for number in range(len(topic.replicas))
            for each in told_in(story, number)
        )
        assert set(replicas) == {(TOPIC, 0), *((TELEMETRY_TOPIC, number) for number in range(len(topic.replicas)))}


def test_seconds_in_which_the_topic_had_no_leader_are_told_once_it_has_one() -> None:
    with telemetry_story(1102) as story:
        topic = wait_for_topic(story)
        place = part_of_story(story)
        story.run_for(3.0)
        lost = leader_of_part(story, place)
        assert lost is not None
        if story.leader == lost:
            story.elect_into_office(next(node_id for node_id in story.world.nodes if node_id != lost))
        leader = story.leader
        group = topic.group(place)
        before = publisher_of(story, leader).counts.batches_failed
        story.lose_power(lost)
        written = write_for(story, 8.0, leader)
        story.wait(lambda: story.cluster.leader_of(group) not in (None, lost))
        story.run_for(3.5)
        own = records_of(told_in(story, place), leader)
        assert publisher_of(story, leader).counts.batches_failed > before
        # One whose answer was lost is told again, word for word.
        assert _answered(list({each["at"]: each for each in own}.values()), "quorum_ack") >= written
        for earlier, later in itertools.pairwise(own):
            assert 0 <= later["at"] - earlier["at"] <= 1000 * INTERVAL + _SLACK_MS, "no second is left out"
            assert later["at"] - later["interval_ms"] <= earlier["at"] + _SLACK_MS, "no moment is left out"


def test_a_leader_of_partition_and_topic_that_stands_still_is_missed_in_every_second() -> None:
    with telemetry_story(1109) as story:
        topic = wait_for_topic(story)
        still, place = story.leader, part_of_story(story)
        story.wait(lambda: leader_of_part(story, place) is not None)
        if leader_of_part(story, place) != still:
            story.elect_into_office(leader_of_part(story, place))
            still = story.leader
        story.run_for(2.5)
        begin = story.machine(still).wall_clock.now_ms()
        story.machine(still).pause()
        story.candidates = None
        story.wait(lambda: story.cluster.leader_of(topic.group(place)) not in (None, still))
        story.run_for(6.0)
        records = told_in(story, place)
        others = [node_id for node_id in story.world.nodes if node_id != still]
        for node_id in others:
            times = sorted({each["at"] for each in records_of(records, node_id)})
            assert times[-1] > begin
            assert all(later - earlier <= 1000 * INTERVAL + _SLACK_MS for earlier, later in itertools.pairwise(times))


def test_what_nobody_takes_for_long_goes_into_the_next_record() -> None:
    with telemetry_story(1110, raft=RaftOptions(disk_reserve_bytes=_RESERVE)) as story:
        wait_for_topic(story)
        story.run_for(2.0)
        for machine in story.world.nodes.values():
            machine.disk.capacity = machine.disk.used + _RESERVE // 2
        story.run_for(KEPT_SECONDS + 5.0)
        for machine in story.world.nodes.values():
            machine.disk.capacity = 1 << 40
        story.run_for(4.0)
        own = records_of(told_in(story, part_of_story(story)), story.leader)
        assert max(each["interval_ms"] for each in own) > 1500, "one record tells of more than a second"
        told = sorted((each["at"] - each["interval_ms"], each["at"]) for each in own)
        end = told[0][1]
        for begins, ends in told:
            assert begins <= end + _SLACK_MS, "no moment is left out"
            end = max(end, ends)


def test_a_batch_that_takes_longer_than_its_second_holds_up_no_reading() -> None:
    with telemetry_story(1103) as story:
        wait_for_topic(story)
        story.run_for(2.0)
        # All leaders lead on, for heartbeats are answered; only the disks take nothing.
        for machine in story.world.nodes.values():
            machine.workers.stall(Pool.FSYNC, 2.5)
        story.run_for(6.0)
        assert publisher_of(story, 1).counts.seconds_skipped == 0
        times = sorted({each["at"] for each in records_of(told_in(story, part_of_story(story)), 1)})
        assert len(times) >= 6
        assert all(later - earlier <= 1000 * INTERVAL + _SLACK_MS for earlier, later in itertools.pairwise(times))


def test_a_broker_that_stood_still_leaves_seconds_out_and_says_so_once(caplog) -> None:
    with telemetry_story(1111) as story, caplog.at_level(logging.WARNING, logger="telemetry"):
        wait_for_topic(story)
        for _ in range(2):
            story.run_for(2.0)
            story.machine(1).pause()
            story.run_for(4.0)
            story.machine(1).resume()
        story.run_for(4.0)
        counts = publisher_of(story, 1).counts
        assert counts.seconds_skipped > 3
        assert len([each for each in caplog.records if "longer than its second" in each.message]) == 1
        published = counts.records_published
        story.run_for(3.0)
        assert counts.records_published > published, "it goes on by itself"


def test_a_broker_that_comes_back_is_another_boot_and_its_leader_tells_what_it_was_sent() -> None:
    with telemetry_story(1108) as story:
        wait_for_topic(story)
        leader, gone = story.leader, story.followers[0]
        story.run_for(2.0)
        story.kill(gone)
        written = write_for(story, 3.0, leader)
        story.restart(gone)
        story.candidates = None
        story.run_for(5.0)
        records = told_in(story, part_of_story(story))
        boots = [each["boot"] for each in records_of(records, gone)]
        assert len(set(boots)) == 2
        assert boots == sorted(boots, key=boots.index), "nothing of the first life comes after it"
        last = records_of(records, gone)[-1]
        assert (last["leader"], last["dirty"], last["recovery_bytes"]) == (leader, 2 * written, 0)
        led = records_of(records, leader)
        assert sum(each["recovery_bytes"] for each in led) > 0
        behind = [each["followers"][str(gone)] for each in led if str(gone) in each["followers"]]
        assert max(known["age_ms"] for known in behind) > 1000
        assert behind[-1]["dirty"] == 2 * written


def test_a_leader_that_stood_still_does_not_take_what_comes_too_late() -> None:
    with telemetry_story(1104) as story:
        wait_for_topic(story)
        story.run_for(2.0)
        place = part_of_story(story)
        still = leader_of_part(story, place)
        assert still is not None
        story.machine(still).pause()
        story.run_for(8.0)
        story.machine(still).resume()
        story.run_for(6.0)
        records = told_in(story, place)
        for node_id in story.world.nodes:
            times = [each["at"] for each in records_of(records, node_id)]
            assert times == sorted(set(times))
            assert len(times) > 4


def test_a_topic_that_was_deleted_is_made_again() -> None:
    with telemetry_story(1105) as story:
        first = wait_for_topic(story)
        story.run_for(2.0)
        node = story.cluster.nodes[1]
        request = DeleteTopicRequest(TELEMETRY_TOPIC, "", 5.0)
        story.world.run(story.machine(1), node.admin.delete_topic(request))
        story.wait(lambda: (topic := topic_of(story)) is not None and topic.topic_id != first.topic_id)
        wait_for_topic(story)
        story.run_for(3.0)
        assert records_of(told_in(story, part_of_story(story)), story.leader)


def test_telemetry_is_refused_where_producers_are_because_disks_are_full() -> None:
    with telemetry_story(1106, raft=RaftOptions(disk_reserve_bytes=_RESERVE)) as story:
        wait_for_topic(story)
        story.run_for(2.0)
        for machine in story.world.nodes.values():
            machine.disk.capacity = machine.disk.used + _RESERVE // 2
        story.run_for(3.0)
        counts = {node_id: publisher_of(story, node_id).counts for node_id in story.world.nodes}
        published = {node_id: each.records_published for node_id, each in counts.items()}
        story.run_for(3.0)
        assert {node_id: each.records_published for node_id, each in counts.items()} == published
        for machine in story.world.nodes.values():
            machine.disk.capacity = 1 << 40
        story.run_for(4.0)
        assert all(each.records_published > published[node_id] for node_id, each in counts.items())


def test_without_the_option_there_is_no_topic_and_nothing_is_kept() -> None:
    with Scenario(1107) as story:
        story.run_for(3.0)
        assert topic_of(story) is None
        assert all(node.telemetry is None for node in story.cluster.nodes.values())
        assert all(story.replica(node_id).figures is None for node_id in story.world.nodes)
