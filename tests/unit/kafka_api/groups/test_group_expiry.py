"""When committed offsets are too old."""

from cluster.groups.records import CommittedOffset, StoredGroup, StoredMember
from kafka_api.groups.expiry import expired_offsets
from kafka_api.groups.subscription import subscribed_topics
from tests.unit.kafka_api.groups.group_calls import SUBSCRIPTION_TO_T

_OFFSETS = {("t", 0): CommittedOffset(1, 0, "", 100), ("u", 0): CommittedOffset(1, 0, "", 200)}


def _group(*subscriptions, kind="consumer", since=0):
    members = tuple(StoredMember(f"m{n}", None, "", "", 0, 0, data, b"") for n, data in enumerate(subscriptions))
    return StoredGroup(kind, 1, None, None, since, members)


def test_without_a_group_the_time_begins_with_the_commit():
    assert expired_offsets(1099, 1000, None, _OFFSETS) == []
    assert expired_offsets(1100, 1000, None, _OFFSETS) == [("t", 0)]
    assert expired_offsets(1200, 1000, None, _OFFSETS) == [("t", 0), ("u", 0)]


def test_without_members_it_begins_when_the_last_one_went_or_with_a_later_commit():
    assert expired_offsets(1150, 1000, _group(since=150), _OFFSETS) == [("t", 0)]
    assert expired_offsets(1149, 1000, _group(since=150), _OFFSETS) == []


def test_what_members_subscribe_to_is_kept():
    assert expired_offsets(9000, 1000, _group(SUBSCRIPTION_TO_T), _OFFSETS) == [("u", 0)]


def test_where_it_is_not_known_what_members_read_nothing_is_deleted():
    assert expired_offsets(9000, 1000, _group(SUBSCRIPTION_TO_T, kind="connect"), _OFFSETS) == []
    assert expired_offsets(9000, 1000, _group(SUBSCRIPTION_TO_T, b"nonsense"), _OFFSETS) == []


def test_a_subscription_that_is_cut_off_names_nothing():
    assert subscribed_topics(SUBSCRIPTION_TO_T) == {"t"}
    for length in range(len(SUBSCRIPTION_TO_T) - 4):
        assert subscribed_topics(SUBSCRIPTION_TO_T[:length]) is None
    assert subscribed_topics(b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x01\xff") is None
    assert subscribed_topics(b"\x00\x01" + b"\x00\x00\x00\x01" + b"\xff\xffab") is None
