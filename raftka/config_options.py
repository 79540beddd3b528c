"""The broker's options: one table of what exists, with types, defaults, bounds and words.

What is not in this table is refused by name: an option that nothing reads would promise something (design of the
configuration: RFC 0001).
"""

import difflib
import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["int", "string", "host", "bool", "list"]

_PORT_MAX = 65_535
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_WEEK_MS = 7 * 24 * 3600 * 1000
_MINUTE_MS = 60_000
_GIB = 1024**3
# RFC 1123, with the underscore that container networks use all the same.
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_HOST_NAME_MAX = 253
_SPELLED_BOOLS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class ConfigError(ValueError):
    """A configuration that cannot be used: one line that names the key and where it was set.

    Attributes:
        is_usage: The command line is to blame, not a file or the environment.
    """

    def __init__(self, message: str, *, is_usage: bool = False) -> None:
        super().__init__(message)
        self.is_usage = is_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option.

    Attributes:
        key: Kafka's dotted spelling.
        kind: Type of the value; a host is a string that names a host or is an IP address; a list is a TOML array of
            strings, or one string with commas.
        doc: What it does, in a sentence.
        default: None where there is none, or where it depends on other keys; `default_text` then says on which.
        default_text: A default in words.
        low: Smallest number allowed.
        high: Largest number allowed.
        choices: The only strings allowed; empty allows all.
        example: A value for the example file where the default is not one.
    """

    key: str
    kind: Kind
    doc: str
    default: Any = None
    default_text: str = ""
    low: int = 0
    high: int = _INT_MAX
    choices: tuple[str, ...] = ()
    example: str = ""

    @property
    def attribute(self) -> str:
        """Name of the field of BrokerConfig."""
        return self.key.replace(".", "_")

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return "RAFTKA_" + self.attribute.upper()


def _port(key: str, default: int | None, doc: str, default_text: str = "") -> Option:
    return Option(key=key, kind="int", default=default, default_text=default_text, doc=doc, high=_PORT_MAX)


def _milliseconds(key: str, default: int, doc: str, low: int, high: int) -> Option:
    return Option(key=key, kind="int", default=default, doc=doc, low=low, high=high)


def _bytes(key: str, default: int, doc: str, low: int, high: int = _GIB) -> Option:
    return Option(key=key, kind="int", default=default, doc=doc, low=low, high=high)


OPTIONS: tuple[Option, ...] = (
    Option(
        key="node.id",
        kind="int",
        doc="Number of this broker, unique in the cluster. Required.",
        default_text="none: it has to be set",
        example="1",
    ),
    Option(
        key="data.dir",
        kind="string",
        default="./raftka-data",
        doc="Folder of this broker's data; a relative path begins at the folder in which the broker was started. It"
        " belongs to one node id and one cluster for ever.",
    ),
    Option(key="kafka.address", kind="host", default="127.0.0.1", doc="Where Kafka clients are served."),
    _port("kafka.port", 9092, "... and the port; 0 takes a free one."),
    Option(
        key="kafka.advertised.address",
        kind="host",
        default_text="kafka.address",
        doc="The host that clients are told to connect to.",
        example="127.0.0.1",
    ),
    _port("kafka.advertised.port", None, "The port that clients are told to connect to.", "kafka.port"),
    Option(
        key="rpc.address",
        kind="host",
        default="127.0.0.1",
        doc="Where other brokers are served, and the address that they are dialed from.",
    ),
    _port("rpc.port", 33145, "... and the port."),
    Option(key="admin.address", kind="host", default="127.0.0.1", doc="Where HTTP for operators is served."),
    _port("admin.port", 9644, "... and the port."),
    Option(
        key="admin.allowed.hosts",
        kind="list",
        default=(),
        doc="Host names, without port, by which the admin port may be asked for besides loopback, its own addresses and"
        " admin.address; a request with another Host is refused, so that no web page reaches the port through a name"
        " of its own.",
        example='["broker-1.example.com"]',
    ),
    Option(
        key="seeds",
        kind="list",
        default=(),
        doc="Every broker of the cluster as ID@HOST:PORT of its rpc listener, this one included; the same list on"
        " each. Empty: a cluster of one.",
        example='["1@10.0.0.1:33145", "2@10.0.0.2:33145", "3@10.0.0.3:33145"]',
    ),
    Option(
        key="cluster.secret.file",
        kind="string",
        default_text="none",
        doc="File with the secret by which the brokers know each other, of at least 16 bytes; a relative path begins"
        " at the folder in which the broker was started. Needed with more than one seed.",
        example="/etc/raftka/secret",
    ),
    Option(
        key="insecure",
        kind="bool",
        default=False,
        doc="Allow listeners off loopback. They are neither encrypted nor, for clients, authenticated.",
    ),
    Option(
        key="num.partitions",
        kind="int",
        default=1,
        low=1,
        high=10_000,
        doc="Partitions of a topic whose creator does not say.",
    ),
    Option(
        key="default.replication.factor",
        kind="int",
        default_text="3, or as many as there are brokers",
        low=1,
        high=1_000,
        doc="Replicas of a topic whose creator does not say.",
        example="3",
    ),
    Option(
        key="auto.create.topics.enable",
        kind="bool",
        default=True,
        doc="A client that asks for a topic by a new name creates it, unless it says that it does not want to.",
    ),
    Option(
        key="min.insync.replicas",
        kind="int",
        default=1,
        low=1,
        high=1_000,
        doc="Of topics that do not say: acks=all waits for so many replicas, and always for a majority.",
    ),
    _bytes(
        "message.max.bytes",
        1_048_588,
        "Of topics that do not say: largest record batch that a producer may send.",
        0,
        64 * 1024 * 1024,
    ),
    Option(
        key="broker.replicas.max",
        kind="int",
        default=2_500,
        low=1,
        high=100_000,
        doc="Replicas of one broker: no topic is created, and none grows, where one would have more. Each costs its "
        "heartbeats: a broker at rest with 2,500 took a fifth of a core, seen by hand. With too many, elections follow "
        "each other and nobody leads.",
    ),
    _milliseconds("raft.heartbeat.interval.ms", 150, "How often a leader speaks to each other broker.", 10, _MINUTE_MS),
    _milliseconds(
        "raft.election.timeout.ms",
        1_500,
        "A broker that has not heard a partition's leader for this long, and up to half as long again, stands for"
        " election.",
        50,
        10 * _MINUTE_MS,
    ),
    _milliseconds(
        "raft.flush.interval.ms", 100, "What no writer waits for is fsynced after this long.", 1, 10 * _MINUTE_MS
    ),
    _bytes("raft.flush.bytes", 256 * 1024, "... or as soon as there are so many bytes.", 4096),
    _milliseconds(
        "raft.flush.stall.timeout.ms",
        3000,
        "A leader whose append, fsync or kvstore sync takes longer gives up where others can go on without it; its"
        " broker leads nothing new before a probe write has passed.",
        100,
        10 * _MINUTE_MS,
    ),
    _bytes(
        "raft.batcher.bytes",
        1024 * 1024,
        "Bytes of producers that one partition holds before they are in the log; above it producers wait.",
        64 * 1024,
    ),
    _bytes(
        "raft.batcher.node.max.bytes",
        64 * 1024 * 1024,
        "... and all partitions of this broker. One partition gets at most 1/8 of it, and 1/8 is kept for what no"
        " producer sends.",
        1024 * 1024,
    ),
    _bytes(
        "raft.append.buffer.node.max.bytes",
        128 * 1024 * 1024,
        "Bytes of leaders' requests that all followers of this broker hold before they are in their logs; a follower"
        " that finds no room takes nothing for now. One partition gets at most 1/8 of it, and 1/8 is kept for the"
        " cluster's own topics.",
        1024 * 1024,
    ),
    _bytes(
        "raft.unreplicated.max.bytes",
        16 * 1024 * 1024,
        "Producers of a partition wait while its leader has so many bytes that no majority has written.",
        64 * 1024,
    ),
    _bytes(
        "raft.unflushed.max.bytes",
        32 * 1024 * 1024,
        "Producers of a partition wait while its leader has so many bytes that are not fsynced; a follower with so"
        " many takes no more.",
        64 * 1024,
    ),
    _milliseconds(
        "replica.lag.time.max.ms",
        10_000,
        "A replica is in sync while it held all that was committed within this time.",
        100,
        10 * _MINUTE_MS,
    ),
    _bytes(
        "disk.reserve.bytes",
        256 * 1024 * 1024,
        "Producers are refused while the disks of a majority of a partition's replicas have less free space than this;"
        " 0 lets them write until a disk is full.",
        0,
        1024 * _GIB,
    ),
    _bytes("log.segment.bytes", 128 * 1024 * 1024, "A segment file is rolled before it exceeds this.", 1024 * 1024),
    _milliseconds("log.roll.ms", _WEEK_MS, "... or when its first entry is older than this.", 1_000, 2**62),
    _milliseconds(
        "log.retention.ms",
        _WEEK_MS,
        "Of topics that do not say: closed segments older than this are deleted; -1 keeps them.",
        -1,
        _LONG_MAX,
    ),
    _bytes(
        "log.retention.bytes",
        -1,
        "Of topics that do not say: a partition's oldest closed segments are deleted while the others hold so many"
        " bytes; -1 keeps them.",
        -1,
        _LONG_MAX,
    ),
    _milliseconds(
        "log.retention.check.interval.ms",
        10_000,
        "How often this broker looks for segments that have outlived their topic's retention.",
        1,
        _LONG_MAX,
    ),
    Option(
        key="log.message.timestamp.type",
        kind="string",
        default="CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        doc="Of topics that do not say: whose time records carry, the producer's or the leader's.",
    ),
    _milliseconds(
        "log.message.timestamp.before.max.ms",
        _LONG_MAX,
        "Of topics that do not say: with CreateTime, batches with a timestamp further in the past are refused.",
        0,
        _LONG_MAX,
    ),
    _milliseconds(
        "log.message.timestamp.after.max.ms",
        3600 * 1000,
        "Of topics that do not say: with CreateTime, batches with a timestamp further in the future are refused.",
        0,
        _LONG_MAX,
    ),
    _milliseconds(
        "producer.id.expiration.ms",
        24 * 60 * _MINUTE_MS,
        "An idempotent producer that has written nothing to a partition for this long, in time that the broker has run,"
        " may be forgotten there.",
        1_000,
        2**62,
    ),
    _milliseconds(
        "group.min.session.timeout.ms",
        6_000,
        "A member of a consumer group may not ask to be removed after less silence than this.",
        100,
        _INT_MAX,
    ),
    _milliseconds(
        "group.max.session.timeout.ms",
        30 * _MINUTE_MS,
        "... nor after more than this.",
        100,
        _INT_MAX,
    ),
    _milliseconds(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long an empty group waits for more members to come, before its first generation begins.",
        0,
        _INT_MAX,
    ),
    Option(
        key="group.max.size",
        kind="int",
        default=_INT_MAX,
        low=1,
        doc="Members of one consumer group; one more is refused.",
    ),
    Option(
        key="offsets.retention.minutes",
        kind="int",
        default=7 * 24 * 60,
        low=1,
        doc="Offsets that a consumer group has committed are kept so long after its last member went.",
    ),
    _milliseconds(
        "offsets.retention.check.interval.ms",
        10 * _MINUTE_MS,
        "How often this broker looks for committed offsets that have outlived that.",
        1,
        _LONG_MAX,
    ),
    _bytes("offset.metadata.max.bytes", 4096, "The text that may be committed with an offset.", 0, 32_767),
    Option(
        key="offsets.topic.num.partitions",
        kind="int",
        default=8,
        low=1,
        high=1_000,
        doc="Partitions of __consumer_offsets, which is created when the first consumer group is asked for; they stay.",
    ),
    _bytes(
        "socket.request.max.bytes",
        100 * 1024 * 1024,
        "A client that announces a larger request is disconnected.",
        1024,
        _INT_MAX,
    ),
    Option(
        key="telemetry.enable",
        kind="bool",
        default=False,
        doc="Publish each second what every replica here did, and where it stands, into __raftka_telemetry (RFC 0011).",
    ),
    Option(
        key="log.level",
        kind="string",
        default="INFO",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        doc="How much is logged, to stderr.",
    ),
)

BY_KEY = {option.key: option for option in OPTIONS}
BY_VARIABLE = {option.variable: option for option in OPTIONS}


def unknown_key(key: str, source: str, known: Iterable[str] = BY_KEY) -> str:
    """Return the refusal of a name that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else "; `raftka config example` lists what exists"
    return f"{source}: unknown option {key}{hint}"


def parse_value(option: Option, value: Any, source: str) -> Any:
    """Return a value as its option's type: int, str, bool, or a tuple of str.

    A string is read as the type; any other value must have it already.

    Raises:
        ConfigError: A wrong type, or out of range.
    """

    def refusal(why: str) -> ConfigError:
        return ConfigError(f"{source}: {option.key} = {value!r}: {why}")

    if option.kind == "int":
        return _parse_int(option, value, refusal)
    if option.kind == "bool":
        spelled = value.strip().lower() if isinstance(value, str) else value
        if isinstance(spelled, bool):
            return spelled
        if isinstance(spelled, str) and spelled in _SPELLED_BOOLS:
            return _SPELLED_BOOLS[spelled]
        raise refusal("must be true or false")
    if option.kind == "list":
        return _parse_list(value, refusal)
    if not isinstance(value, str):
        raise refusal("must be a string")
    if not value.strip():
        raise refusal("must not be empty")
    if option.kind == "host" and not is_host(value):
        raise refusal("is neither a host name nor an IP address")
    if option.choices:
        chosen = next((choice for choice in option.choices if choice.upper() == value.strip().upper()), None)
        if chosen is None:
            raise refusal(f"must be one of {', '.join(option.choices)}")
        return chosen
    return value


def is_host(text: str) -> bool:
    """Return whether a text may be a host name (letters, digits, `-`, `_`, dots between) or is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        labels = text.removesuffix(".").split(".")
        return len(text) <= _HOST_NAME_MAX and all(_HOST_LABEL.fullmatch(label) for label in labels)
    return True


def _parse_int(option: Option, value: Any, refusal: Callable[[str], ConfigError]) -> int:
    number = value
    if isinstance(value, str):
        try:
            number = int(value)
        except ValueError:
            raise refusal("must be a whole number") from None
    if not isinstance(number, int) or isinstance(number, bool):
        raise refusal("must be a whole number")
    if not option.low <= number <= option.high:
        raise refusal(f"must be from {option.low} to {option.high}")
    return number


def _parse_list(value: Any, refusal: Callable[[str], ConfigError]) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(word for word in (part.strip() for part in value.split(",")) if word)
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise refusal("must be a list of strings")
