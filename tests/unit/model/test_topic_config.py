"""Topic configuration: what is accepted, what is refused and in which words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.config_definition import ConfigType
from model.counted import counted
from model.topic_config import (
    TOPIC_CONFIGS,
    InvalidConfigError,
    TopicConfig,
    check_topic_config,
    keys_of_compaction,
    parse_topic_config,
    resolve_topic_config,
)

MIB = 1024 * 1024
LONG_MAX = 2**63 - 1
_TOMBSTONES = "delete.retention.ms"


def test_nothing_asked_gives_the_defaults():
    assert parse_topic_config({}, 3) == TopicConfig()


def test_every_key_is_taken():
    asked = {
        "segment.bytes": "2000000",
        "segment.ms": "60000",
        "max.message.bytes": "1000",
        "min.insync.replicas": "2",
        "message.timestamp.type": "LogAppendTime",
        "message.timestamp.before.max.ms": "1",
        "message.timestamp.after.max.ms": "2",
        "retention.ms": "3",
        "retention.bytes": "4",
        "write.caching": "TRUE",
        "cleanup.policy": "compact, delete",
        "min.cleanable.dirty.ratio": "1e-1",
        "delete.retention.ms": "5",
        "min.compaction.lag.ms": "6",
        "max.compaction.lag.ms": "7",
        "list.offsets.linearizable": "False",
    }
    assert parse_topic_config(asked, 3) == TopicConfig(
        segment_bytes=2_000_000,
        segment_ms=60_000,
        max_message_bytes=1000,
        min_insync_replicas=2,
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms=1,
        message_timestamp_after_max_ms=2,
        retention_ms=3,
        retention_bytes=4,
        write_caching=True,
        cleanup_policy="compact,delete",
        min_cleanable_dirty_ratio=0.1,
        delete_retention_ms=5,
        min_compaction_lag_ms=6,
        max_compaction_lag_ms=7,
        list_offsets_linearizable=False,
    )


def test_every_definition_has_words_and_a_default_that_it_accepts_itself():
    for key, definition in TOPIC_CONFIGS.items():
        assert definition.key == key
        assert definition.doc.endswith(".")
        assert definition.parse(definition.show(definition.default)) == definition.default
        if definition.kind in (ConfigType.STRING, ConfigType.LIST):
            assert definition.default in definition.choices or (definition.check and definition.accepts)


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
        ("min.insync.replicas", 1, 5),
        ("message.timestamp.before.max.ms", 0, LONG_MAX),
        ("message.timestamp.after.max.ms", 0, LONG_MAX),
        ("retention.ms", -1, LONG_MAX),
        ("retention.bytes", -1, LONG_MAX),
        ("min.cleanable.dirty.ratio", 0, 1),
        ("delete.retention.ms", 0, LONG_MAX),
        ("min.compaction.lag.ms", 0, LONG_MAX),
        ("max.compaction.lag.ms", 1, LONG_MAX),
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


@pytest.mark.parametrize("key", ["", "segment.byte", "segment_bytes", "index.interval.bytes", "Segment.Bytes"])
def test_an_unknown_key_is_refused_by_name(key):
    with pytest.raises(InvalidConfigError, match="unknown or unsupported"):
        parse_topic_config({key: "1"}, 1)


@pytest.mark.parametrize(
    ("key", "today", "later"),
    [
        ("compression.type", "producer", "zstd"),
        ("flush.messages", str(LONG_MAX), "1"),
        ("flush.ms", str(LONG_MAX), "1000"),
        ("compression.gzip.level", "-1", "3"),
        ("remote.storage.enable", "false", "true"),
    ],
)
def test_what_is_not_built_yet_is_accepted_only_as_it_is_today(key, today, later):
    assert parse_topic_config({key: today}, 1) == TopicConfig()
    with pytest.raises(InvalidConfigError, match=rf"{key}.*{today}.* not built yet"):
        parse_topic_config({key: later}, 1)


@pytest.mark.parametrize(
    ("key", "value", "other"),
    [
        ("file.delete.delay.ms", "0", "60000"),
        ("preallocate", "FALSE", "true"),
        ("segment.jitter.ms", "0", "1"),
        ("unclean.leader.election.enable", "false", "true"),
    ],
)
def test_what_is_true_of_every_broker_is_accepted_and_nothing_else(key, value, other):
    assert parse_topic_config({key: value}, 1) == TopicConfig()
    with pytest.raises(InvalidConfigError, match=key):
        parse_topic_config({key: other}, 1)


@pytest.mark.parametrize(
    ("text", "policy", "is_compacted", "is_deleted"),
    [
        ("compact", "compact", True, False),
        ("delete", "delete", False, True),
        ("compact,delete", "compact,delete", True, True),
        (" delete , compact,delete", "delete,compact", True, True),
        ("", "", False, False),
    ],
)
def test_a_policy_is_a_list_of_words(text, policy, is_compacted, is_deleted):
    config = parse_topic_config({"cleanup.policy": text}, 1)
    assert (config.cleanup_policy, config.is_compacted, config.is_deleted) == (policy, is_compacted, is_deleted)


@pytest.mark.parametrize("text", ["compacted", "compact,", "Compact", "compact delete"])
def test_a_word_that_is_no_policy_is_refused_with_the_policies(text):
    with pytest.raises(InvalidConfigError, match=r"cleanup\.policy=.* is none of compact, delete"):
        parse_topic_config({"cleanup.policy": text}, 1)


@pytest.mark.parametrize("value", ["", "half", "0x1", "nan", "inf", "1_0", "1e400", "-0.1", "1.1", "9" * 400])
def test_what_is_no_part_of_a_whole_is_refused(value):
    with pytest.raises(InvalidConfigError, match=r"min\.cleanable\.dirty\.ratio"):
        parse_topic_config({"min.cleanable.dirty.ratio": value}, 1)


def test_a_record_cannot_stay_longer_than_it_may_wait():
    check_topic_config({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"}, 1)
    with pytest.raises(InvalidConfigError, match=r"min\.compaction\.lag\.ms=6 is above max\.compaction\.lag\.ms=5"):
        check_topic_config({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"}, 1)


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ({}, []),
        ({"cleanup.policy": "delete", "retention.ms": "1"}, []),
        ({"cleanup.policy": "compact"}, ["cleanup.policy"]),
        ({"cleanup.policy": ""}, ["cleanup.policy"]),
        # An older version takes the word alone.
        ({"cleanup.policy": "delete,delete"}, ["cleanup.policy"]),
        (
            {"cleanup.policy": "delete", "preallocate": "false", "delete.retention.ms": "1"},
            [_TOMBSTONES, "preallocate"],
        ),
    ],
)
def test_what_an_older_version_would_refuse_needs_the_feature(values, keys):
    assert keys_of_compaction(values) == keys


@pytest.mark.parametrize("value", ["", "createtime", "Whenever"])
def test_a_word_that_is_no_choice_is_refused_with_the_choices(value):
    with pytest.raises(InvalidConfigError, match="only CreateTime or LogAppendTime"):
        parse_topic_config({"message.timestamp.type": value}, 1)


@pytest.mark.parametrize("value", ["", "yes", "1", "truth"])
def test_what_is_neither_true_nor_false_is_refused(value):
    with pytest.raises(InvalidConfigError, match="only true or false"):
        parse_topic_config({"write.caching": value}, 1)


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
def test_min_insync_replicas_goes_up_to_the_replicas_of_the_topic(replicas):
    check_topic_config({"min.insync.replicas": str(replicas)}, replicas)
    with pytest.raises(InvalidConfigError, match=rf"only {counted(replicas, 'replica')}$"):
        check_topic_config({"min.insync.replicas": str(replicas + 1)}, replicas)


def test_what_was_accepted_once_is_read_back_whatever_the_brokers_own_defaults_are():
    defaults = TopicConfig(min_insync_replicas=5)
    assert parse_topic_config({}, 1, defaults) == defaults
    assert resolve_topic_config({"retention.ms": "1"}, defaults) == TopicConfig(min_insync_replicas=5, retention_ms=1)


def test_all_keys_are_shown_with_their_values():
    assert TopicConfig().as_strings() == {
        "segment.bytes": "134217728",
        "segment.ms": "604800000",
        "max.message.bytes": "1048588",
        "min.insync.replicas": "1",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": str(LONG_MAX),
        "message.timestamp.after.max.ms": "3600000",
        "retention.ms": "604800000",
        "retention.bytes": "-1",
        "write.caching": "false",
        "list.offsets.linearizable": "true",
        "leader.replication.throttled.replicas": "",
        "follower.replication.throttled.replicas": "",
        "cleanup.policy": "delete",
        "min.cleanable.dirty.ratio": "0.5",
        "delete.retention.ms": "86400000",
        "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": str(LONG_MAX),
        "compression.type": "producer",
        "compression.gzip.level": "-1",
        "compression.lz4.level": "9",
        "compression.zstd.level": "3",
        "file.delete.delay.ms": "0",
        "local.retention.bytes": "-2",
        "local.retention.ms": "-2",
        "preallocate": "false",
        "remote.log.copy.disable": "false",
        "remote.log.delete.on.disable": "false",
        "remote.storage.enable": "false",
        "segment.jitter.ms": "0",
        "unclean.leader.election.enable": "false",
        "flush.messages": str(LONG_MAX),
        "flush.ms": str(LONG_MAX),
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
