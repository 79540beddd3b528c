"""Where the broker's configuration comes from and what is refused."""

import base64
import json
import os
import re
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from cluster.errors import StartupError
from model.config_definition import ConfigType
from model.topic_config import TOPIC_CONFIGS, TopicConfig
from raftka.broker.application import kafka_options, node_options, topic_defaults
from raftka.broker.described_options import broker_configs
from raftka.config import BrokerConfig, ConfigError, load_config, parse_address, render_example
from raftka.config_descriptor import config_descriptor, read_config
from raftka.config_options import BY_DYNAMIC_NAME, BY_KEY, OPTIONS
from runtime.log_levels import KAFKA_NAMES, LEVELS, check_level

SEEDS = "1@10.0.0.1:33145,2@10.0.0.2:33145"


def write(folder: Path, text: str) -> Path:
    path = folder / "broker.toml"
    path.write_text(text)
    return path


def test_only_the_node_id_has_to_be_set() -> None:
    config = load_config({"node.id": "1"})
    assert (config.node_id, config.kafka_port, config.rpc_port, config.admin_port) == (1, 9092, 33145, 9644)
    assert config.seeds == ()
    assert (config.kafka_advertised_address, config.kafka_advertised_port) == ("127.0.0.1", 9092)


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "node.id = 1\nkafka.port = 1001\nadmin.port = 1002\nrpc.port = 1003\n")
    environment = {"RAFTKA_KAFKA_PORT": "2001", "RAFTKA_ADMIN_PORT": "2002", "HOME": "/nowhere"}
    config = load_config({"kafka.port": "3001"}, environment, file)
    assert (config.kafka_port, config.admin_port, config.rpc_port) == (3001, 2002, 1003)


def test_a_table_spells_the_same_keys_as_dots_do(tmp_path: Path) -> None:
    config = load_config(file=write(tmp_path, "node.id = 1\n[kafka]\nport = 4000\n"))
    assert config.kafka_port == 4000


def test_the_configuration_survives_the_way_to_the_broker_process() -> None:
    config = load_config(
        {"node.id": "2", "seeds": SEEDS, "cluster.secret.file": "/etc/secret", "insecure": "true", "log.level": "debug"}
    )
    assert config.log_level == "DEBUG"
    assert [seed.node_id for seed in config.seeds] == [1, 2]
    assert BrokerConfig.from_json(config.to_json(), "here") == config


@pytest.mark.parametrize("name", [*LEVELS, *KAFKA_NAMES, "warn", " Fatal "])
def test_a_log_level_has_the_same_names_as_at_run_time(name: str) -> None:
    assert load_config({"node.id": "1", "log.level": name}).log_level == check_level(name)
    option = BY_KEY["log.level"]
    assert (option.choices, option.aliases) == (LEVELS, KAFKA_NAMES)


def test_every_option_is_a_field_of_the_configuration() -> None:
    assert {option.attribute for option in OPTIONS} == set(BrokerConfig.__dataclass_fields__)


def test_the_example_loads_and_says_nothing_but_the_defaults(tmp_path: Path) -> None:
    assert load_config(file=write(tmp_path, render_example())) == load_config({"node.id": 1})


def test_the_example_still_loads_with_any_line_uncommented(tmp_path: Path) -> None:
    for option in OPTIONS:
        example = render_example()
        text = example.replace(f"# {option.key} = ", f"{option.key} = ")
        text = text.replace(f'# "{option.key}" = ', f'"{option.key}" = ')
        assert option.key == "node.id" or text != example
        # What only makes sense together with other brokers.
        if option.key not in {"seeds", "default.replication.factor"}:
            assert load_config(file=write(tmp_path, text)).node_id == 1


@pytest.mark.parametrize(
    "text",
    ['data.dir = "d"\n"data.dir.create" = false', "data.dir.create = false", "[data.dir]\ncreate = false"],
)
def test_a_key_that_extends_another_one_is_read(tmp_path: Path, text: str) -> None:
    assert load_config({"node.id": 1}, file=write(tmp_path, text)).data_dir_create is False


def test_a_key_that_extends_another_one_without_quotes_is_told_how_to_write_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"not TOML: .*; in a file, put data\.dir\.create in quotes"):
        load_config({"node.id": 1}, file=write(tmp_path, 'data.dir = "d"\ndata.dir.create = false'))
    with pytest.raises(ConfigError, match="must be a string"):
        load_config({"node.id": 1}, file=write(tmp_path, "data.dir.crate = false"))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({}, "node.id is not set: use --node-id, RAFTKA_NODE_ID or a configuration file"),
        ({"node.id": "one"}, "must be an integer"),
        ({"node.id": True}, "must be an integer"),
        ({"node.id": -1}, "must be from 0 to"),
        ({"node.id": 1, "kafka.port": 65_536}, "kafka.port = 65536: must be from 0 to 65535"),
        ({"node.id": 1, "insecure": "maybe"}, "must be true or false"),
        ({"node.id": 1, "log.level": "LOUD"}, "one of DEBUG, INFO, WARNING (WARN), ERROR, CRITICAL (FATAL)"),
        ({"node.id": 1, "data.dir": " "}, "must not be empty"),
        ({"node.id": 1, "seeds": [1]}, "must be a list of strings"),
        (
            {"node.id": 1, "admin.allowed.hosts": "ops,broker-1:9644"},
            "'broker-1:9644' is neither a host name nor an IP",
        ),
        ({"node.id": 1, "kafka.prot": 1}, "unknown option kafka.prot; did you mean kafka.port?"),
        ({"node.id": 1, "seeds": "10.0.0.1:33145"}, "is not ID@HOST:PORT"),
        ({"node.id": 3, "seeds": "1@10.0.0.1:33145"}, "cluster.secret.file is not set"),
        ({"node.id": 1, "seeds": SEEDS}, "cluster.secret.file is not set"),
        ({"node.id": 1, "seeds": "1@a:1,1@b:1", "cluster.secret.file": "s"}, "a node id is named twice"),
        ({"node.id": 1, "seeds": "1@a:1,2@a:1", "cluster.secret.file": "s"}, "an address is named twice"),
        ({"node.id": 1, "default.replication.factor": 3}, "there is only 1 broker"),
        ({"node.id": 1, "rpc.address": "192.0.2.1"}, "rpc.address = 192.0.2.1 is reachable from elsewhere"),
        ({"node.id": 1, "kafka.address": "0.0.0.0", "insecure": True}, "set kafka.advertised.address"),
        (
            {"node.id": 1, "kafka.advertised.address": "0.0.0.0"},
            "kafka.advertised.address = 0.0.0.0 is no address to connect to",
        ),
        ({"node.id": 1, "kafka.advertised.address": "::"}, "kafka.advertised.address = :: is no address"),
        ({"node.id": 1, "kafka.advertised.address": "no such host"}, "is neither a host name nor an IP address"),
        ({"node.id": 1, "kafka.address": "-flag"}, "is neither a host name nor an IP address"),
        ({"node.id": 1, "rpc.address": "a..b"}, "is neither a host name nor an IP address"),
        ({"node.id": 1, "seeds": "1@no such host:33145"}, "is not ID@HOST:PORT"),
        ({"node.id": 1, "kafka.port": 9644}, "kafka.port and admin.port are both 9644, on 127.0.0.1"),
        ({"node.id": 1, "rpc.port": 9092}, "kafka.port and rpc.port are both 9092"),
        (
            {
                "node.id": 1,
                "rpc.address": "127.0.0.2",
                "rpc.port": 9644,
                "admin.address": "0.0.0.0",
                "insecure": True,
            },
            "rpc.port and admin.port are both 9644",
        ),
        ({"node.id": 1, "raft.heartbeat.interval.ms": 1500}, "must be below raft.election.timeout.ms"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_config(flags)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_listeners_off_loopback_are_allowed_by_insecure() -> None:
    flags = {"node.id": 1, "kafka.address": "0.0.0.0", "kafka.advertised.address": "192.0.2.7", "insecure": True}
    config = load_config(flags)
    assert (config.kafka_address, config.kafka_advertised_address) == ("0.0.0.0", "192.0.2.7")


def test_listeners_may_share_a_port_number_where_they_are_not_in_each_others_way() -> None:
    assert load_config({"node.id": 1, "rpc.address": "127.0.0.2", "rpc.port": 9092}).rpc_port == 9092
    assert load_config({"node.id": 1, "kafka.port": 0, "admin.port": 0}).admin_port == 0


@pytest.mark.parametrize("host", ["localhost", "broker-1.example.org", "broker_1", "192.0.2.7", "2001:db8::1", "a.b."])
def test_a_host_name_or_an_address_may_be_advertised(host: str) -> None:
    assert load_config({"node.id": 1, "kafka.advertised.address": host}).kafka_advertised_address == host


@pytest.mark.parametrize(
    ("secret", "words"),
    [(b"\n", "is empty"), (b"short\n", "has 5 bytes; at least 16 are needed (head -c 32 /dev/urandom")],
)
def test_a_secret_that_could_be_guessed_is_refused(tmp_path: Path, secret: bytes, words: str) -> None:
    file = tmp_path / "secret"
    file.touch(0o600)
    file.write_bytes(secret)
    with pytest.raises(StartupError, match=re.escape(words)):
        node_options(load_config({"node.id": 1, "cluster.secret.file": str(file)}))


def test_a_misspelled_variable_is_refused_and_the_command_lines_own_is_not() -> None:
    with pytest.raises(ConfigError, match="did you mean RAFTKA_KAFKA_PORT"):
        load_config({"node.id": 1}, {"RAFTKA_KAFKA_PROT": "1"})
    load_config({"node.id": 1}, {"RAFTKA_BROKERS": "127.0.0.1:9092"})


@pytest.mark.parametrize("text", ["node.id = ", "node.id = 1\nnode.id = 2\n"])
def test_a_file_that_is_not_toml_is_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"broker\.toml: not TOML"):
        load_config(file=write(tmp_path, text))


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml: cannot be read: No such file"):
        load_config(file=tmp_path / "missing.toml")


def test_who_is_to_blame_is_told_for_the_exit_code(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as by_flag:
        load_config({"node.id": "x"})
    with pytest.raises(ConfigError) as by_file:
        load_config(file=write(tmp_path, 'node.id = "x"\n'))
    assert by_flag.value.is_usage
    assert not by_file.value.is_usage


@pytest.mark.parametrize("text", ["[]", "{", json.dumps({"node.id": 1, "nonsense": 2})])
def test_a_broken_hand_over_to_the_broker_process_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--config-fd"):
        read_config(config_descriptor(text), 1)


def is_configuration(descriptor: int) -> bool:
    """Whether it is open on such a file; its number alone proves nothing, because another thread may have it next."""
    try:
        return "memfd:raftka-config" in os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return False


def test_a_configuration_travels_by_descriptor_whatever_its_size_and_is_read_once() -> None:
    hosts = [f"host-{number:05}.example" for number in range(10_000)]
    config = load_config({"node.id": 3, "admin.allowed.hosts": hosts})
    descriptor = config_descriptor(config.to_json())
    assert is_configuration(descriptor)
    assert read_config(descriptor, 3) == config
    assert not is_configuration(descriptor)


def test_the_configuration_of_another_node_is_refused() -> None:
    with pytest.raises(ConfigError, match="--node-id 4: the configuration of --config-fd is that of node 3"):
        read_config(config_descriptor(load_config({"node.id": 3}).to_json()), 4)


def test_a_descriptor_that_is_not_open_is_refused_by_number() -> None:
    descriptor = config_descriptor("")
    os.close(descriptor)
    with pytest.raises(
        ConfigError, match=f"--config-fd {descriptor}: cannot be read: Bad file descriptor; `raftka start`"
    ):
        read_config(descriptor, 1)


@pytest.mark.parametrize(
    ("text", "address"), [("localhost:1", ("localhost", 1)), ("[::1]:9092", ("::1", 9092)), ("h:65535", ("h", 65535))]
)
def test_addresses_are_split(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


def test_a_list_of_addresses_is_not_mistaken_for_ipv6() -> None:
    with pytest.raises(ValueError, match="one address is wanted"):
        parse_address("127.0.0.1:9644,127.0.0.1:9645")


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":1", "host:0", "host:65536", "host:1x", "::1:9092", "host:²", "a b:1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_address(text)


def test_the_defaults_of_topics_are_those_of_the_topic_table() -> None:
    assert topic_defaults(load_config({"node.id": 1})) == TopicConfig()
    for definition in TOPIC_CONFIGS.values():
        if definition.broker_key:
            option = BY_KEY[definition.broker_key]
            assert option.default == definition.default
            assert option.choices == definition.choices
            if not definition.choices:
                assert definition.low <= option.low <= option.high <= definition.high


def test_the_defaults_of_topics_can_be_set() -> None:
    flags = {
        "node.id": 1,
        "log.segment.bytes": "2000000",
        "log.roll.ms": "1001",
        "message.max.bytes": "1002",
        "min.insync.replicas": "3",
        "log.message.timestamp.type": "logappendtime",
        "log.message.timestamp.before.max.ms": "1004",
        "log.message.timestamp.after.max.ms": "1005",
        "log.retention.ms": "-1",
        "log.retention.bytes": "1007",
    }
    assert node_options(load_config(flags)).topic_defaults == TopicConfig(
        segment_bytes=2_000_000,
        segment_ms=1001,
        max_message_bytes=1002,
        min_insync_replicas=3,
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms=1004,
        message_timestamp_after_max_ms=1005,
        retention_ms=-1,
        retention_bytes=1007,
    )


# Where each option ends up; unlike any default. What these parts do with it is their own tests' matter.
@pytest.mark.parametrize(
    ("key", "value", "path", "found"),
    [
        ("raft.heartbeat.interval.ms", 71, "raft.heartbeat_interval", 0.071),
        ("raft.election.timeout.ms", 5002, "raft.election_timeout", 5.002),
        ("raft.election.timeout.ms", 5002, "raft.election_jitter", 2.501),
        ("raft.flush.interval.ms", 73, "raft.flush_interval", 0.073),
        ("raft.flush.bytes", 70_004, "raft.flush_bytes", 70_004),
        ("raft.flush.stall.timeout.ms", 7005, "raft.stall_timeout", 7.005),
        ("raft.batcher.bytes", 700_006, "raft.batcher_bytes", 700_006),
        ("raft.batcher.node.max.bytes", 70_000_007, "raft.node_batcher_bytes", 70_000_007),
        ("raft.append.buffer.node.max.bytes", 70_000_008, "raft.node_append_buffer_bytes", 70_000_008),
        ("raft.unreplicated.max.bytes", 7_000_008, "raft.unreplicated_bytes", 7_000_008),
        ("raft.unflushed.max.bytes", 7_000_009, "raft.unflushed_bytes", 7_000_009),
        ("replica.lag.time.max.ms", 7010, "raft.replica_lag_max", 7.010),
        ("disk.reserve.bytes", 7_000_011, "raft.disk_reserve_bytes", 7_000_011),
        ("log.retention.check.interval.ms", 7012, "retention_check_interval", 7.012),
        ("producer.id.expiration.ms", 7_000_013, "producers.expiration_ms", 7_000_013),
        ("rpc.address", "127.0.0.14", "rpc_host", "127.0.0.14"),
        ("rpc.port", 7015, "rpc_port", 7015),
        ("data.dir", "/elsewhere", "data_dir", "/elsewhere"),
    ],
)
def test_an_option_reaches_the_part_that_it_governs(key: str, value: object, path: str, found: object) -> None:
    options = node_options(load_config({"node.id": 1, key: value}))
    assert attrgetter(path)(options) == pytest.approx(found)
    assert attrgetter(path)(node_options(load_config({"node.id": 1}))) != pytest.approx(found)


def test_options_reach_the_listener_of_clients() -> None:
    flags = {"socket.request.max.bytes": 2_000_001, "num.partitions": 7, "default.replication.factor": 1}
    options = kafka_options(load_config({"node.id": 1, "seeds": SEEDS, "cluster.secret.file": "s", **flags}), 10, 2)
    assert (options.request_bytes_max, options.num_partitions) == (2_000_001, 7)
    assert (options.default_replication_factor, options.connections_max) == (1, 10)


@pytest.mark.parametrize(
    ("key", "value", "attribute", "found"),
    [
        ("group.min.session.timeout.ms", 7001, "min_session_timeout_ms", 7001),
        ("group.max.session.timeout.ms", 70_002, "max_session_timeout_ms", 70_002),
        ("group.initial.rebalance.delay.ms", 73, "initial_rebalance_delay_ms", 73),
        ("group.max.size", 74, "max_size", 74),
        ("offsets.retention.minutes", 5, "offsets_retention_ms", 300_000),
        ("offsets.retention.check.interval.ms", 76, "retention_check_interval_ms", 76),
        ("offset.metadata.max.bytes", 77, "offset_metadata_bytes_max", 77),
        ("offsets.topic.num.partitions", 78, "topic_partitions", 78),
    ],
)
def test_an_option_reaches_the_consumer_groups(key: str, value: int, attribute: str, found: int) -> None:
    assert getattr(kafka_options(load_config({"node.id": 1, key: value}), 10, 1).groups, attribute) == found
    assert getattr(kafka_options(load_config({"node.id": 1}), 10, 1).groups, attribute) != found


@pytest.mark.parametrize(
    ("key", "value", "attribute"),
    [
        ("transaction.max.timeout.ms", 5001, "max_timeout_ms"),
        ("transactional.id.expiration.ms", 5002, "id_expiration_ms"),
        ("transaction.state.log.num.partitions", 3, "topic_partitions"),
    ],
)
def test_an_option_reaches_the_transactions(key: str, value: int, attribute: str) -> None:
    assert getattr(kafka_options(load_config({"node.id": 1, key: value}), 10, 1).transactions, attribute) == value
    assert getattr(kafka_options(load_config({"node.id": 1}), 10, 1).transactions, attribute) != value


def test_session_timeouts_have_room_between_their_bounds() -> None:
    flags = {"node.id": 1, "group.min.session.timeout.ms": 9000, "group.max.session.timeout.ms": 8000}
    with pytest.raises(ConfigError, match=r"must not be above"):
        load_config(flags)


def test_topics_are_created_on_demand_unless_it_is_forbidden() -> None:
    assert kafka_options(load_config({"node.id": 1}), 10, 1).auto_create_topics
    assert not kafka_options(
        load_config({"node.id": 1, "auto.create.topics.enable": "false"}), 10, 1
    ).auto_create_topics


def test_a_topic_has_three_replicas_unless_there_are_fewer_brokers_or_its_creator_says_so(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(base64.b64encode(bytes(range(32))))
    secret.chmod(0o600)
    for brokers, factor in ((1, 1), (2, 2), (3, 3), (5, 3)):
        seeds = ",".join(f"{number}@127.0.0.{number}:33145" for number in range(1, brokers + 1))
        flags = {"node.id": 1, "seeds": seeds, "cluster.secret.file": str(secret)}
        told = {each.key: each.value for each in broker_configs(load_config(flags), brokers)}
        # With the second one a majority of the replicas answers acks=all.
        assert (told["default.replication.factor"], told["min.insync.replicas"]) == (str(factor), "1")


def test_every_option_is_described_with_its_value_and_where_it_comes_from() -> None:
    config = load_config(
        {
            "node.id": 1,
            "seeds": "1@[::1]:33145",
            "log.retention.ms": "5",
            "insecure": True,
            "admin.allowed.hosts": "a.example, b.example",
        }
    )
    told = {each.key: each for each in broker_configs(config, 1)}
    assert told.keys() == {*BY_KEY, "admin.advertised.listener"}
    assert all(each.doc for each in told.values())
    assert {key for key, each in told.items() if not each.is_read_only} == {
        each.key for each in BY_DYNAMIC_NAME.values()
    }
    shown = {key: (each.value, each.source.name) for key, each in told.items()}
    assert shown["log.retention.ms"] == ("5", "STATIC_BROKER_CONFIG")
    assert shown["log.retention.bytes"] == ("-1", "DEFAULT_CONFIG")
    assert shown["seeds"] == ("1@[::1]:33145", "STATIC_BROKER_CONFIG")
    assert shown["admin.allowed.hosts"] == ("a.example,b.example", "STATIC_BROKER_CONFIG")
    assert shown["insecure"] == ("true", "STATIC_BROKER_CONFIG")
    assert shown["cluster.secret.file"] == (None, "DEFAULT_CONFIG")
    assert shown["default.replication.factor"] == ("1", "DEFAULT_CONFIG")
    assert told["log.retention.ms"].kind is ConfigType.LONG
    assert told["kafka.port"].kind is ConfigType.INT


@pytest.mark.parametrize(
    ("flags", "listener"),
    [
        ({}, "http://127.0.0.1:9644"),
        ({"admin.address": "::1", "admin.port": 1}, "http://[::1]:1"),
        (
            {"admin.address": "0.0.0.0", "insecure": True, "kafka.advertised.address": "broker-1.example.org"},
            "http://broker-1.example.org:9644",
        ),
    ],
)
def test_the_admin_port_is_found_in_the_description(flags: dict[str, Any], listener: str) -> None:
    told = {each.key: each.value for each in broker_configs(load_config({"node.id": 1, **flags}), 1)}
    assert told["admin.advertised.listener"] == listener


@pytest.mark.parametrize("key", ["kafka.address", "rpc.address", "admin.address"])
@pytest.mark.parametrize("address", ["192.0.2.1", "broker-1.example.org", "2001:db8::1"])
def test_each_listener_off_loopback_needs_insecure(key: str, address: str) -> None:
    with pytest.raises(ConfigError, match=rf"{re.escape(key)} = {re.escape(address)} is reachable.*--insecure"):
        load_config({"node.id": 1, key: address})
    load_config({"node.id": 1, key: address, "insecure": True})
