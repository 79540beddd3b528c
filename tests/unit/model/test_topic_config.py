"""Topic configuration: what is accepted, what is refused and in which words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.topic_config import InvalidConfigError, TopicConfig, parse_topic_config

MIB = 1024 * 1024


def test_nothing_asked_gives_the_defaults():
    assert parse_topic_config({}, 3) == TopicConfig()


def test_every_key_is_taken():
    asked = {
        "segment.bytes": "2000000",
        "segment.ms": "60000",
        "max.message.bytes": "1000",
        "min.insync.replicas": "2",
    }
    assert parse_topic_config(asked, 3) == TopicConfig(
        segment_bytes=2_000_000, segment_ms=60_000, max_message_bytes=1000, min_insync_replicas=2
    )


def test_what_is_left_open_comes_from_the_given_defaults():
    defaults = TopicConfig(segment_bytes=MIB, segment_ms=5000)
    config = parse_topic_config({"segment.ms": "7000"}, 1, defaults)
    assert (config.segment_bytes, config.segment_ms) == (MIB, 7000)


def test_null_stands_for_the_default():
    defaults = TopicConfig(segment_bytes=MIB)
    assert parse_topic_config({"segment.bytes": None, "cleanup.policy": None}, 1, defaults) == defaults


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("segment.bytes", MIB, 2**31 - 1),
        ("segment.ms", 1000, 2**63 - 1),
        ("max.message.bytes", 0, 64 * MIB),
        ("min.insync.replicas", 1, 3),
    ],
)
def test_the_bounds_themselves_are_accepted_and_one_beyond_is_not(key, low, high):
    for value in (low, high):
        assert str(value) in parse_topic_config({key: str(value)}, 5).as_strings()[key]
    for value in (low - 1, high + 1):
        with pytest.raises(InvalidConfigError, match=key):
            parse_topic_config({key: str(value)}, 5)


@pytest.mark.parametrize("value", ["", "ten", "1.5", "0x10", "1e6", "None", "--1", "1_000", "\u0661", " 1", "9" * 20])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(InvalidConfigError, match="not a whole number"):
        parse_topic_config({"segment.bytes": value}, 1)


@pytest.mark.parametrize("key", ["", "segment.byte", "segment_bytes", "flush.messages", "Segment.Bytes"])
def test_an_unknown_key_is_refused_by_name(key):
    with pytest.raises(InvalidConfigError, match="unknown or unsupported"):
        parse_topic_config({key: "1"}, 1)


@pytest.mark.parametrize(
    ("key", "today", "later"),
    [
        ("cleanup.policy", "delete", "compact"),
        ("compression.type", "producer", "zstd"),
        ("message.timestamp.type", "CreateTime", "LogAppendTime"),
        ("retention.ms", "-1", "604800000"),
        ("retention.bytes", "-1", "1000"),
    ],
)
def test_what_is_not_built_yet_is_accepted_only_as_it_is_today(key, today, later):
    assert parse_topic_config({key: today}, 1) == TopicConfig()
    with pytest.raises(InvalidConfigError, match=f"only {today} is supported; .* not built yet"):
        parse_topic_config({key: later}, 1)


@pytest.mark.parametrize(("replicas", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_min_insync_replicas_goes_up_to_the_majority(replicas, majority):
    assert parse_topic_config({"min.insync.replicas": str(majority)}, replicas).min_insync_replicas == majority
    with pytest.raises(InvalidConfigError, match=f"at most {majority}"):
        parse_topic_config({"min.insync.replicas": str(majority + 1)}, replicas)


def test_all_keys_are_shown_with_their_values():
    assert TopicConfig().as_strings() == {
        "segment.bytes": "134217728",
        "segment.ms": "604800000",
        "max.message.bytes": "1048588",
        "min.insync.replicas": "1",
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }


def test_what_is_shown_is_accepted_again():
    config = parse_topic_config({"segment.ms": "123456"}, 3)
    assert parse_topic_config(config.as_strings(), 3) == config


@pytest.mark.parametrize(
    "asked",
    [
        {"k" * 40_000: "1"},
        {"segment.bytes": "9" * 40_000},
        {"segment.ms": "\0" * 40_000},
        {"retention.ms": "x" * 40_000},
    ],
)
def test_a_refusal_is_short_enough_for_any_response(asked):
    with pytest.raises(InvalidConfigError) as refused:
        parse_topic_config(asked, 1)
    assert len(str(refused.value).encode()) < 2000


@given(
    st.dictionaries(st.sampled_from([*TopicConfig().as_strings(), "other"]), st.text(max_size=30)), st.integers(1, 9)
)
def test_hostile_values_meet_the_named_error_or_a_valid_configuration(asked, replicas):
    try:
        config = parse_topic_config(asked, replicas)
    except InvalidConfigError:
        return
    assert parse_topic_config(config.as_strings(), replicas) == config
