"""The broker's configuration: flag over environment over file over default.

The file is TOML with Kafka's dotted keys (`kafka.port = 9092`; a table `[kafka]` with `port` is the same key); the
environment spells a key RAFTKA_KAFKA_PORT. Everything is checked here, before a broker process exists.
"""

import ipaddress
import itertools
import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from raftka.config_options import (
    BY_KEY,
    BY_VARIABLE,
    OPTIONS,
    ConfigError,
    Option,
    check_replication_factor,
    is_host,
    parse_value,
    unknown_key,
)
from raftka.error_text import short_reason_of

__all__ = ["BrokerConfig", "ConfigError", "SeedAddress", "load_config", "parse_address", "render_example"]

# Variables of the command line's own, which are no broker options.
_CLIENT_VARIABLES = frozenset(
    {
        *("RAFTKA_BROKERS", "RAFTKA_PIPELINES", "RAFTKA_PIPELINE_DIR", "RAFTKA_JAR_CACHE", "RAFTKA_JAR_REPOSITORIES"),
        *("RAFTKA_NEED_SPARK", "RAFTKA_NEED_CLIENTS"),
    }
)


# Keys that extend another key: TOML takes them beside it only in quotes.
_EXTENDING = frozenset(key for key in BY_KEY if any(key.startswith(f"{other}.") for other in BY_KEY))


class SeedAddress(NamedTuple):
    """One broker of the cluster and where its rpc listener is."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One broker's configuration, complete and checked; `config_options.OPTIONS` says what each field means.

    Attributes:
        default_replication_factor: None: 3, or as many as there are brokers.
        seeds: In the order given; empty for a cluster of one. A broker that is not among them founds nothing.
        cluster_secret_file: None only for a cluster of one that nobody can join.
    """

    node_id: int
    data_dir: str
    data_dir_create: bool
    kafka_address: str
    kafka_port: int
    kafka_advertised_address: str
    kafka_advertised_port: int
    rpc_address: str
    rpc_port: int
    admin_address: str
    admin_port: int
    admin_allowed_hosts: tuple[str, ...]
    admin_remote_changes_enable: bool
    seeds: tuple[SeedAddress, ...]
    cluster_secret_file: str | None
    insecure: bool
    num_partitions: int
    default_replication_factor: int | None
    auto_create_topics_enable: bool
    min_insync_replicas: int
    message_max_bytes: int
    list_offsets_linearizable: bool
    broker_replicas_max: int
    raft_heartbeat_interval_ms: int
    raft_election_timeout_ms: int
    raft_flush_interval_ms: int
    raft_flush_bytes: int
    raft_flush_stall_timeout_ms: int
    raft_batcher_bytes: int
    raft_batcher_node_max_bytes: int
    raft_append_buffer_node_max_bytes: int
    raft_unreplicated_max_bytes: int
    raft_unflushed_max_bytes: int
    replica_lag_time_max_ms: int
    leader_replication_throttled_rate: int
    replication_learner_bytes_per_second: int
    follower_replication_throttled_rate: int
    read_cache_bytes: int
    disk_reserve_bytes: int
    log_segment_bytes: int
    log_roll_ms: int
    log_retention_ms: int
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_max_bytes_per_second: int
    producer_id_expiration_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int
    offsets_topic_num_partitions: int
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_state_log_num_partitions: int
    socket_request_max_bytes: int
    telemetry_enable: bool
    unstable_feature_versions_enable: bool
    log_level: str
    log_format: str

    @property
    def asks_others(self) -> bool:
        """Whether other brokers are named, to found a cluster with or to be let into theirs."""
        return any(seed.node_id != self.node_id for seed in self.seeds)

    @property
    def has_links(self) -> bool:
        """Whether the broker listens for other brokers: there are some, or some may join."""
        return self.asks_others or self.cluster_secret_file is not None

    def to_json(self) -> str:
        """Return every key with its resolved value, as `from_json` reads it."""
        values = {option.key: getattr(self, option.attribute) for option in OPTIONS}
        values["seeds"] = [f"{seed.node_id}@{_join(seed.host, seed.port)}" for seed in self.seeds]
        return json.dumps({key: value for key, value in values.items() if value is not None}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str, source: str) -> "BrokerConfig":
        """Return the configuration that `to_json` wrote; errors name `source`, from where the text comes.

        Raises:
            ConfigError: Not such a text, or its values do not fit together.
        """
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"{source}: {error}") from None
        if not isinstance(values, dict):
            raise ConfigError(f"{source}: must be an object of keys and values")
        return _assemble({key: (value, source) for key, value in values.items()})


def load_config(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: str | os.PathLike[str] | None = None,
) -> BrokerConfig:
    """Return the configuration of a broker.

    Args:
        flags: Dotted key -> value (a string or the option's type), from the command line.
        environment: Where RAFTKA_* variables are looked up; None: nowhere.
        file: A TOML file; None: no file.

    Raises:
        ConfigError: An unknown key, a bad value, values that do not fit together, or an unreadable file.
    """
    found: dict[str, tuple[Any, str]] = {}
    if file is not None:
        found.update({key: (value, f"{file}") for key, value in _read_file(file)})
    for name, value in sorted((environment or {}).items()):
        if name.startswith("RAFTKA_") and name not in _CLIENT_VARIABLES:
            if name not in BY_VARIABLE:
                raise ConfigError(unknown_key(name, "environment", BY_VARIABLE))
            found[BY_VARIABLE[name].key] = (value, f"environment variable {name}")
    for key, value in (flags or {}).items():
        if key not in BY_KEY:
            raise ConfigError(unknown_key(key, "command line"), is_usage=True)
        found[key] = (value, "command line")
    return _assemble(found)


def _read_file(file: str | os.PathLike[str]) -> Iterator[tuple[str, Any]]:
    # Imported here: no help needs it, and few commands.
    import tomllib

    try:
        with open(file, "rb") as stream:
            document = tomllib.load(stream)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {short_reason_of(error)}") from None
    except tomllib.TOMLDecodeError as error:
        # The words of tomllib where a key extends one that has a value.
        overlap = "overwrite a value" in str(error)
        hint = f"; in a file, put {', '.join(sorted(_EXTENDING))} in quotes" if overlap else ""
        raise ConfigError(f"{file}: not TOML: {error}{hint}") from None
    yield from _flattened(document, "")


def _flattened(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and (key not in BY_KEY or {f"{key}.{each}" for each in value} <= _EXTENDING):
            yield from _flattened(value, f"{key}.")
        else:
            yield key, value


def _assemble(found: Mapping[str, tuple[Any, str]]) -> BrokerConfig:
    """Check every value and all of them together; `found` maps keys to (value, where it comes from)."""
    values: dict[str, Any] = {option.key: option.default for option in OPTIONS}
    for key, (value, source) in found.items():
        if key not in BY_KEY:
            raise ConfigError(unknown_key(key, source))
        try:
            values[key] = parse_value(BY_KEY[key], value, source)
        except ConfigError as error:
            raise ConfigError(str(error), is_usage=source == "command line") from None
    if values["node.id"] is None:
        raise ConfigError("node.id is not set: use --node-id, RAFTKA_NODE_ID or a configuration file", is_usage=True)
    values["seeds"] = tuple(_parse_seed(text) for text in values["seeds"])
    for host in values["admin.allowed.hosts"]:
        if not is_host(host):
            raise ConfigError(f"admin.allowed.hosts: {host!r} is neither a host name nor an IP address (without port)")
    values["kafka.advertised.address"] = _advertised(values)
    if values["kafka.advertised.port"] is None:
        values["kafka.advertised.port"] = values["kafka.port"]
    config = BrokerConfig(**{option.attribute: values[option.key] for option in OPTIONS})
    _check_cluster(config)
    _check_listeners(config)
    if not config.has_links:
        # Nobody can join it.
        check_replication_factor(config.default_replication_factor, 1)
    for _, why in misfits(config):
        raise ConfigError(why)
    if config.raft_heartbeat_interval_ms >= config.raft_election_timeout_ms:
        raise ConfigError(
            f"raft.heartbeat.interval.ms = {config.raft_heartbeat_interval_ms} must be below"
            f" raft.election.timeout.ms = {config.raft_election_timeout_ms}"
        )
    return config


def _parse_seed(text: str) -> SeedAddress:
    node, at, address = text.partition("@")
    if not at or not node.isascii() or not node.isdigit():
        raise ConfigError(f"seeds: {text!r} is not ID@HOST:PORT")
    try:
        host, port = parse_address(address)
    except ValueError:
        raise ConfigError(f"seeds: {text!r} is not ID@HOST:PORT") from None
    return SeedAddress(int(node), host, port)


def parse_address(text: str) -> tuple[str, int]:
    """Split HOST:PORT; an IPv6 host stands in brackets.

    Raises:
        ValueError: Something else, or a port that is not from 1 to 65535.
    """
    if "," in text:
        raise ValueError(f"{text!r} is not HOST:PORT: one address is wanted, not a list")
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address needs brackets, as in [::1]:9092")
    if not is_host(host) or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65_535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _advertised(values: Mapping[str, Any]) -> str:
    """Return the host that clients are told, if it is one that they can connect to."""
    key = "kafka.address" if values["kafka.advertised.address"] is None else "kafka.advertised.address"
    address = str(values[key])
    if _is_wildcard(address):
        hint = " to the host that clients can reach" if key == "kafka.advertised.address" else ""
        raise ConfigError(f"{key} = {address} is no address to connect to: set kafka.advertised.address{hint}")
    return address


def _is_wildcard(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def _check_cluster(config: BrokerConfig) -> None:
    seeds = config.seeds
    if seeds:
        ids = [seed.node_id for seed in seeds]
        if len(set(ids)) < len(ids):
            raise ConfigError(f"seeds: a node id is named twice: {', '.join(map(str, ids))}")
        if len({(seed.host, seed.port) for seed in seeds}) < len(seeds):
            raise ConfigError("seeds: an address is named twice")
    if config.asks_others and config.cluster_secret_file is None:
        raise ConfigError(
            "cluster.secret.file is not set: brokers of a cluster prove by it that they belong together"
            " (head -c 32 /dev/urandom | base64 > FILE, the same on every broker)"
        )


def misfits(config: BrokerConfig) -> Iterator[tuple[Collection[str], str]]:
    """Yield the keys whose values do not fit together, and why; of those that may be set while brokers run."""
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
        yield (
            {"group.min.session.timeout.ms", "group.max.session.timeout.ms"},
            (
                f"group.min.session.timeout.ms = {config.group_min_session_timeout_ms} must not be above"
                f" group.max.session.timeout.ms = {config.group_max_session_timeout_ms}"
            ),
        )


def _check_listeners(config: BrokerConfig) -> None:
    for key, address in (
        ("kafka.address", config.kafka_address),
        ("rpc.address", config.rpc_address),
        ("admin.address", config.admin_address),
    ):
        if not config.insecure and not _is_loopback(address):
            raise ConfigError(
                f"{key} = {address} is reachable from elsewhere, without encryption or login:"
                " set insecure = true (--insecure) if the network is your own"
            )
    listeners = (
        ("kafka", config.kafka_address, config.kafka_port),
        ("rpc", config.rpc_address, config.rpc_port),
        ("admin", config.admin_address, config.admin_port),
    )
    for (name, address, port), (other, other_address, other_port) in itertools.combinations(listeners, 2):
        if port == other_port != 0 and _may_collide(address, other_address):
            raise ConfigError(
                f"{name}.port and {other}.port are both {port}, on {address}: each listener needs a port of its own"
            )


def _may_collide(address: str, other: str) -> bool:
    """Return whether two listeners with the same port are in each other's way; a wildcard takes every address."""
    return address == other or _is_wildcard(address) or _is_wildcard(other)


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def render_example() -> str:
    """Return a commented TOML file with every option; only what is required is not commented out."""
    head = (
        "# A Raftka broker. Each key can also be set as an environment variable (kafka.port: RAFTKA_KAFKA_PORT)\n"
        "# and on the command line (--kafka-port 9092), which win over this file. A relative path is relative to the\n"
        "# folder in which the broker is started, wherever the path was set."
    )
    blocks = [head, *(_render_option(option) for option in OPTIONS)]
    return "\n\n".join(blocks) + "\n"


def _render_option(option: Option) -> str:
    facts = []
    if option.kind == "float" or (option.kind == "int" and option.low != 0):
        facts.append(f"from {option.low} to {option.high}")
    if option.choices:
        facts.append("one of " + ", ".join(option.named_choices))
    if option.default_text:
        facts.append(f"default: {option.default_text}")
    lines = [f"# {option.doc}" + (f" ({'; '.join(facts)})" if facts else "")]
    mark = "" if option.key == "node.id" else "# "
    key = f'"{option.key}"' if option.key in _EXTENDING else option.key
    lines.append(f"{mark}{key} = {_example_value(option)}")
    return "\n".join(lines)


def _example_value(option: Option) -> str:
    if option.default is None or option.example:
        if option.kind in ("string", "host"):
            return json.dumps(option.example)
        return option.example or "9092"
    if option.kind == "bool":
        return "true" if option.default else "false"
    return json.dumps(option.default) if option.kind in ("string", "host") else str(option.default)
