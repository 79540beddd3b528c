"""The cache of fetch sessions: who gets a slot, who is evicted, and that what is counted is what is used."""

import random
import tracemalloc

import pytest

from kafka_api.fetch_sessions import AskedPartition, FetchSessionOptions, FetchSessions
from kafka_api.protocol.codec import decode_request, decode_request_header, encode_request
from kafka_api.protocol.messages import FetchRequest

IDLE = 120.0


def asked(count, topic="t", topic_id="0" * 32):
    return [AskedPartition(topic, topic_id, FetchRequest.FetchPartition(partition=number)) for number in range(count)]


def cache(**options):
    return FetchSessions(FetchSessionOptions(idle_timeout=IDLE, **options), random.Random(7))


def counted(sessions, *alive):
    return sessions.counted_bytes == sum(session.cost for session in alive)


def test_ids_are_positive_and_each_another():
    sessions = cache(sessions_max=500)
    ids = {sessions.create(asked(1), 0.0, by_id=False).session_id for _ in range(500)}
    assert len(ids) == 500
    assert all(0 < each < 2**31 for each in ids)


def test_without_a_slot_that_may_be_taken_there_is_no_session():
    sessions = cache(sessions_max=2)
    first, second = (sessions.create(asked(1), 0.0, by_id=False) for _ in range(2))
    assert sessions.create(asked(9), IDLE - 1, by_id=False) is None
    assert [sessions.get(each.session_id) for each in (first, second)] == [first, second]
    assert counted(sessions, first, second)


def test_the_session_that_was_used_longest_ago_goes_first_when_it_is_idle():
    sessions = cache(sessions_max=2)
    first, second = (sessions.create(asked(5), 0.0, by_id=False) for _ in range(2))
    assert sessions.update(first, [], [], 10.0)
    third = sessions.create(asked(1), IDLE, by_id=False)
    assert third is not None
    assert (sessions.get(first.session_id), sessions.get(second.session_id)) == (first, None)
    assert counted(sessions, first, third)


def test_a_larger_session_takes_the_place_of_the_smallest_one_that_has_had_its_time():
    sessions = cache(sessions_max=3)
    small, smaller, young = (sessions.create(asked(count), 0.0, by_id=False) for count in (3, 2, 1))
    young.created_at = IDLE
    for session in (small, smaller, young):
        assert sessions.update(session, [], [], IDLE)
    assert sessions.create(asked(2), IDLE, by_id=False) is None, "not larger"
    newcomer = sessions.create(asked(4), IDLE, by_id=False)
    assert newcomer is not None
    assert sessions.get(smaller.session_id) is None
    assert len(sessions) == 3
    assert counted(sessions, small, young, newcomer)


def test_nothing_to_remember_is_no_session():
    assert cache().create([], 0.0, by_id=True) is None
    assert cache(sessions_max=0).create(asked(1), 0.0, by_id=True) is None


def test_a_session_has_no_more_partitions_than_one_request_may_make_the_broker_look_at():
    sessions = cache(partitions_max=3)
    assert sessions.create(asked(4), 0.0, by_id=False) is None
    session = sessions.create(asked(2), 0.0, by_id=False)
    assert sessions.update(session, asked(3), [], 1.0)
    assert not sessions.update(session, asked(4), [], 2.0)
    assert (len(sessions), sessions.counted_bytes) == (0, 0)


def test_memory_is_bounded_whatever_the_number_of_sessions():
    sessions = cache(bytes_max=100 * asked(1)[0].cost)
    assert sessions.create(asked(101), 0.0, by_id=False) is None
    first = sessions.create(asked(60), 0.0, by_id=False)
    assert sessions.create(asked(41), 1.0, by_id=False) is None
    second = sessions.create(asked(40), 1.0, by_id=False)
    assert counted(sessions, first, second)
    assert not sessions.update(second, asked(41), [], 2.0), "it grows beyond what is free"
    assert sessions.get(second.session_id) is None
    assert counted(sessions, first)
    assert sessions.update(first, asked(100), [], 3.0)
    assert counted(sessions, first)
    assert sessions.update(first, [], [("t", number) for number in range(99)], 4.0)
    assert (len(first), counted(sessions, first)) == (1, True)


def test_a_session_that_grows_takes_the_memory_of_idle_ones():
    sessions = cache(bytes_max=100 * asked(1)[0].cost)
    idle, growing = (sessions.create(asked(50), now, by_id=False) for now in (0.0, IDLE))
    assert sessions.update(growing, asked(60), [], IDLE)
    assert sessions.get(idle.session_id) is None
    assert counted(sessions, growing)


def test_epochs_begin_again_with_one():
    session = cache().create(asked(1), 0.0, by_id=True)
    assert session.epoch == 1
    session.epoch = 2**31 - 2
    assert [session.advance(), session.advance(), session.advance()] == [2**31 - 1, 1, 2]


def test_whoever_had_its_turn_goes_to_the_end():
    session = cache().create(asked(3), 0.0, by_id=False)
    first, second, third = session.partitions()
    session.move_to_end(first)
    assert session.partitions() == [second, third, first]
    session.update([], [("t", 1)])
    session.move_to_end(second)
    assert session.partitions() == [third, first]


@pytest.mark.parametrize("name", ["{}", "{:0>249}", "\U0001f600{:0>120}"])
def test_a_session_takes_no_more_memory_than_is_counted_for_it(name):
    request = FetchRequest(
        topics=[
            FetchRequest.FetchTopic(
                topic=name.format(number),
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=number, fetch_offset=2**40 + number, current_leader_epoch=300 + number,
                        last_fetched_epoch=300 + number, log_start_offset=2**40 + number, partition_max_bytes=2**20 + 1,
                    )
                ],
            )
            for number in range(2000)
        ]
    )  # fmt: skip
    written = memoryview(b"".join(encode_request(1, 12, 1, "c", request))[4:])
    sessions = cache()

    def session_of_request():
        decoded = decode_request(1, 12, written, decode_request_header(written).body_position)
        partitions = [AskedPartition(each.topic, each.topic_id, each.partitions[0]) for each in decoded.topics]
        return sessions.create(partitions, 0.0, by_id=False)

    tracemalloc.start()
    session = session_of_request()
    for partition in session.partitions():
        partition.told_high_watermark = partition.fields.fetch_offset + 1
        partition.told_start_offset = partition.fields.fetch_offset - 1
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 * session.cost < used < session.cost
