"""The broker's options: one table of what exists, with types, defaults, bounds and words.

What is not in this table is refused by name: an option that nothing reads would promise something (design of the
configuration: RFC 0001).
"""

import difflib
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["int", "float", "string", "host", "bool", "list"]

_PORT_MAX = 65_535
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_WEEK_MS = 7 * 24 * 3600 * 1000
_MINUTE_MS = 60_000
_GIB = 1024**3
# RFC 1123, with the underscore that container networks use all the same.
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_HOST_NAME_MAX = 253
# Of somebody else's words an error repeats at most so many characters.
_SHOWN_MAX = 100
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
        choices: The only strings allowed, in capitals or not; empty allows all.
        aliases: Other names of choices, in capitals.
        example: A value for the example file where the default is not one.
        is_dynamic: It may also be set while brokers run (RFC 0018).
        other_names: By which it may be set then, beside its key.
    """

    key: str
    kind: Kind
    doc: str
    default: Any = None
    default_text: str = ""
    low: int = 0
    high: int = _INT_MAX
    choices: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    example: str = ""
    is_dynamic: bool = False
    other_names: tuple[str, ...] = ()

    @property
    def attribute(self) -> str:
        """Name of the field of BrokerConfig."""
        return self.key.replace(".", "_")

    @property
    def names_of_choices(self) -> list[list[str]]:
        """The choices, each with its aliases behind it."""
        return [[choice, *(name for name, meant in self.aliases.items() if meant == choice)] for choice in self.choices]

    @property
    def named_choices(self) -> list[str]:
        """The choices, each with its aliases in brackets."""
        return [f"{name} ({', '.join(also)})" if also else name for name, *also in self.names_of_choices]

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return "RAFTKA_" + self.attribute.upper()


def _port(key: str, default: int | None, doc: str, default_text: str = "") -> Option:
    return Option(key=key, kind="int", default=default, default_text=default_text, doc=doc, high=_PORT_MAX)


def _milliseconds(key: str, default: int, doc: str, low: int, high: int, *, is_dynamic: bool = False) -> Option:
    return Option(key=key, kind="int", default=default, doc=doc, low=low, high=high, is_dynamic=is_dynamic)


def _bytes(key: str, default: int, doc: str, low: int, high: int = _GIB, *, is_dynamic: bool = False) -> Option:
    return Option(key=key, kind="int", default=default, doc=doc, low=low, high=high, is_dynamic=is_dynamic)


OPTIONS: tuple[Option, ...] = (
    Option(
        key="node.id",
        kind="int",
        doc="Node id of this broker, unique in the cluster. Required.",
        default_text="none, required",
        example="1",
    ),
    Option(
        key="data.dir",
        kind="string",
        default="./raftka-data",
        doc="Data directory of this broker. A relative path starts at the working directory of the broker. The"
        " directory belongs to one node id of one cluster, permanently.",
    ),
    Option(
        key="data.dir.create",
        kind="bool",
        default=True,
        doc="Create the data directory if it does not exist, but never the directory above it. If false, the broker"
        " refuses to start without its directory, so it never begins anew while a disk is not mounted. In a file the"
        " key needs quotes, because data.dir is a key, too.",
    ),
    Option(key="kafka.address", kind="host", default="127.0.0.1", doc="Listen address for Kafka clients."),
    _port("kafka.port", 9092, "Listen port for Kafka clients; 0 picks a free port."),
    Option(
        key="kafka.advertised.address",
        kind="host",
        default_text="kafka.address",
        doc="Host name that the broker advertises to clients.",
        example="127.0.0.1",
    ),
    _port("kafka.advertised.port", None, "Port that the broker advertises to clients.", "kafka.port"),
    Option(
        key="rpc.address",
        kind="host",
        default="127.0.0.1",
        doc="Listen address for other brokers, and source address of connections to them.",
    ),
    _port("rpc.port", 33145, "Listen port for other brokers."),
    Option(key="admin.address", kind="host", default="127.0.0.1", doc="Listen address of the HTTP admin port."),
    _port("admin.port", 9644, "Listen port of the HTTP admin port."),
    Option(
        key="admin.allowed.hosts",
        kind="list",
        default=(),
        doc="Host names, without port, that the admin port accepts in a request's Host header, besides loopback,"
        " its own addresses and admin.address. The port refuses other hosts, so that no web page can reach it"
        " through a DNS name that the page's author controls.",
        example='["broker-1.example.com"]',
    ),
    Option(
        key="admin.remote.changes.enable",
        kind="bool",
        default=False,
        doc="Take changes of the cluster at the admin port from other machines, too. The port has no login: whoever"
        " reaches it may then move partitions. Without it, only this machine may.",
    ),
    Option(
        key="seeds",
        kind="list",
        default=(),
        doc="Brokers as ID@HOST:PORT of their rpc listeners. The brokers that found a cluster name all of them,"
        " themselves included, each the same list. A broker that is not in its own list founds nothing, and asks these"
        " to let it join. Once it is in a cluster, a broker knows the others by the cluster, and seeds are only whom to"
        " ask: any of them will do. Empty: it founds a cluster of one broker.",
        example='["1@10.0.0.1:33145", "2@10.0.0.2:33145", "3@10.0.0.3:33145"]',
    ),
    Option(
        key="cluster.secret.file",
        kind="string",
        default_text="none",
        doc="File with the shared secret that authenticates brokers to each other, at least 16 bytes. A relative"
        " path starts at the working directory of the broker. Required where"
        " seeds name another broker, and for a cluster of one broker that others are to join.",
        example="/etc/raftka/secret",
    ),
    Option(
        key="insecure",
        kind="bool",
        default=False,
        doc="Allow listeners on addresses other than loopback. Connections are not encrypted, and clients are not"
        " authenticated.",
    ),
    Option(
        key="num.partitions",
        kind="int",
        default=1,
        low=1,
        high=10_000,
        doc="Partitions of a new topic, if its creator sets none.",
        is_dynamic=True,
    ),
    Option(
        key="default.replication.factor",
        kind="int",
        default_text="3, or as many as there are brokers",
        low=1,
        high=1_000,
        doc="Replicas of a new topic, if its creator sets none.",
        example="3",
        is_dynamic=True,
    ),
    Option(
        key="auto.create.topics.enable",
        kind="bool",
        default=True,
        doc="Create a topic when a client asks for its metadata, unless the client forbids that.",
        is_dynamic=True,
    ),
    Option(
        key="min.insync.replicas",
        kind="int",
        default=1,
        low=1,
        high=1_000,
        doc="Topic default: acks=all waits for this many replicas, and always for a majority.",
        is_dynamic=True,
    ),
    _bytes(
        "message.max.bytes",
        1_048_588,
        "Topic default: largest record batch that a producer may send.",
        0,
        64 * 1024 * 1024,
        is_dynamic=True,
    ),
    Option(
        key="list.offsets.linearizable",
        kind="bool",
        default=True,
        doc="Topic default: a majority confirms the leader before it tells the latest offset, or one by timestamp. If"
        " false, the leader answers alone, as in Kafka: one that was deposed and does not know it yet may tell an"
        " older state.",
        is_dynamic=True,
    ),
    Option(
        key="broker.replicas.max",
        kind="int",
        default=2_500,
        low=1,
        high=100_000,
        doc="Most replicas on one broker. A request that would create or extend a topic beyond it is refused."
        " Each replica costs heartbeats: an idle broker with 2,500 used a fifth of a core in one measurement."
        " With too many, elections follow each other and no partition has a leader.",
        is_dynamic=True,
    ),
    _milliseconds(
        "raft.heartbeat.interval.ms", 150, "Interval of a leader's heartbeats to each other broker.", 10, _MINUTE_MS
    ),
    _milliseconds(
        "raft.election.timeout.ms",
        1_500,
        "A broker that hears nothing from a partition's leader for 1 to 1.5 times this long starts an election.",
        50,
        10 * _MINUTE_MS,
    ),
    _milliseconds(
        "raft.flush.interval.ms",
        100,
        "Entries that no writer waits for are fsynced after this long.",
        1,
        10 * _MINUTE_MS,
        is_dynamic=True,
    ),
    _bytes(
        "raft.flush.bytes",
        256 * 1024,
        "Entries that no writer waits for are fsynced once they reach this size.",
        4096,
        is_dynamic=True,
    ),
    _milliseconds(
        "raft.flush.stall.timeout.ms",
        3000,
        "If an append, fsync or kvstore sync takes longer, the leader transfers leadership or steps down if"
        " the other replicas can go on without it. Its broker takes no new leadership until a probe write"
        " succeeds.",
        100,
        10 * _MINUTE_MS,
    ),
    _bytes(
        "raft.batcher.bytes",
        1024 * 1024,
        "Bytes of produce requests that one partition buffers before they are in the log; producers wait above it.",
        64 * 1024,
    ),
    _bytes(
        "raft.batcher.node.max.bytes",
        64 * 1024 * 1024,
        "Bytes of produce requests that all partitions of this broker buffer. One partition gets at most 1/8"
        " of it, and 1/8 is reserved for writes that no producer sends.",
        1024 * 1024,
    ),
    _bytes(
        "raft.append.buffer.node.max.bytes",
        128 * 1024 * 1024,
        "Bytes of append requests that all followers of this broker buffer before they are in their logs. A"
        " follower without room accepts nothing until it has room. One partition gets at most 1/8 of it, and"
        " 1/8 is reserved for internal topics.",
        1024 * 1024,
    ),
    _bytes(
        "raft.unreplicated.max.bytes",
        16 * 1024 * 1024,
        "Producers of a partition wait while its leader has this many bytes that no majority has written.",
        64 * 1024,
        is_dynamic=True,
    ),
    _bytes(
        "raft.unflushed.max.bytes",
        32 * 1024 * 1024,
        "Producers of a partition wait while its leader has this many bytes that are not fsynced. A follower"
        " with this many bytes accepts no more.",
        64 * 1024,
        is_dynamic=True,
    ),
    Option(
        key="replica.lag.time.max.ms",
        kind="int",
        default=10_000,
        low=100,
        high=10 * _MINUTE_MS,
        doc="A replica is out of sync once it has lacked an entry for so long since that became the first uncommitted"
        " one. Below twice raft.heartbeat.interval.ms, replicas that work are out of sync between two heartbeats.",
        other_names=("replication.max.time.lag.millis",),
        is_dynamic=True,
    ),
    _bytes(
        "leader.replication.throttled.rate",
        _LONG_MAX,
        "Bytes per second that this broker sends to replicas that are not in sync, of partitions that name it in"
        " their topic's leader.replication.throttled.replicas. `kafka-reassign-partitions --throttle` sets it. 0 sends"
        " nothing.",
        0,
        _LONG_MAX,
        is_dynamic=True,
    ),
    _bytes(
        "follower.replication.throttled.rate",
        _LONG_MAX,
        "Bytes per second that all leaders together send to replicas of this broker that are not in sync, if"
        " follower.replication.throttled.replicas of their topic names them. 0 stops them.",
        0,
        _LONG_MAX,
        is_dynamic=True,
    ),
    _bytes(
        "replication.learner.bytes.per.second",
        32 * 1024 * 1024,
        "Bytes per second that this broker sends to new replicas, those of moves and of replaced disks, so that clients"
        " have disks and links to themselves. It does not hold where one of the rates above does, nor where producers"
        " write so much that a new replica does not come nearer at it.",
        64 * 1024,
        _LONG_MAX,
        is_dynamic=True,
    ),
    _bytes(
        "read.cache.bytes",
        -1,
        "Memory for what partitions that this broker leads have written lately, beside their newest entries. Consumers"
        " that are not far behind read it without the disk. -1 is an eighth of the memory of the machine or of its"
        " control group, at most 1 GiB. 0 keeps nothing.",
        -1,
        1024 * _GIB,
    ),
    _bytes(
        "disk.reserve.bytes",
        256 * 1024 * 1024,
        "Producers are refused while a majority of a partition's replicas have less free disk space than"
        " this. 0 lets them write until a disk is full.",
        0,
        1024 * _GIB,
        is_dynamic=True,
    ),
    _bytes(
        "log.segment.bytes",
        128 * 1024 * 1024,
        "A segment file is rolled before it exceeds this size.",
        1024 * 1024,
        is_dynamic=True,
    ),
    _milliseconds(
        "log.roll.ms",
        _WEEK_MS,
        "A segment file is rolled when its first entry is older than this.",
        1_000,
        2**62,
        is_dynamic=True,
    ),
    _milliseconds(
        "log.retention.ms",
        _WEEK_MS,
        "Topic default: segments whose records are all older than this are deleted; -1 keeps them.",
        -1,
        _LONG_MAX,
        is_dynamic=True,
    ),
    _bytes(
        "log.retention.bytes",
        -1,
        "Topic default: a partition's oldest closed segments are deleted while the others hold this many"
        " bytes; -1 keeps them.",
        -1,
        _LONG_MAX,
        is_dynamic=True,
    ),
    _milliseconds(
        "log.retention.check.interval.ms",
        10_000,
        "Interval between checks for segments beyond their topic's retention.",
        1,
        _LONG_MAX,
        is_dynamic=True,
    ),
    Option(
        key="log.cleaner.min.cleanable.ratio",
        kind="float",
        default=0.5,
        high=1,
        doc="Topic default: a log is compacted when so large a part of what could be compacted is new since the last"
        " time.",
        is_dynamic=True,
    ),
    _milliseconds(
        "log.cleaner.delete.retention.ms",
        24 * 60 * _MINUTE_MS,
        "Topic default: how long a compacted topic keeps a tombstone after what it deletes was removed.",
        0,
        _LONG_MAX,
        is_dynamic=True,
    ),
    _milliseconds(
        "log.cleaner.min.compaction.lag.ms",
        0,
        "Topic default: a record stays at least so long, also if there is a newer one of its key.",
        0,
        _LONG_MAX,
        is_dynamic=True,
    ),
    _milliseconds(
        "log.cleaner.max.compaction.lag.ms",
        _LONG_MAX,
        "Topic default: a log is compacted after so long at the latest.",
        1,
        _LONG_MAX,
        is_dynamic=True,
    ),
    _milliseconds(
        "log.cleaner.backoff.ms",
        15_000,
        "Interval between checks for logs to compact, while there is none.",
        10,
        24 * 60 * _MINUTE_MS,
    ),
    _bytes(
        "log.cleaner.dedupe.buffer.size",
        64 * 1024 * 1024,
        "Memory for the keys of one pass of compaction, about 200 bytes for each. With more keys a pass ends early, and"
        " the next one goes on.",
        1024 * 1024,
    ),
    _bytes(
        "log.cleaner.io.max.bytes.per.second",
        32 * 1024 * 1024,
        "What a pass of compaction reads and writes in a second at most; 0: as much as it can.",
        0,
        1024 * _GIB,
    ),
    Option(
        key="log.message.timestamp.type",
        kind="string",
        default="CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        doc="Topic default: timestamp of records, the producer's (CreateTime) or the leader's (LogAppendTime).",
        is_dynamic=True,
    ),
    _milliseconds(
        "log.message.timestamp.before.max.ms",
        _LONG_MAX,
        "Topic default: with CreateTime, batches with a timestamp further in the past are refused.",
        0,
        _LONG_MAX,
        is_dynamic=True,
    ),
    _milliseconds(
        "log.message.timestamp.after.max.ms",
        3600 * 1000,
        "Topic default: with CreateTime, batches with a timestamp further in the future are refused.",
        0,
        _LONG_MAX,
        is_dynamic=True,
    ),
    _milliseconds(
        "producer.id.expiration.ms",
        24 * 60 * _MINUTE_MS,
        "A partition may forget an idempotent producer that has written nothing to it for this long, and a"
        " transactional one after an hour at least. Only time in which the broker runs counts.",
        1_000,
        2**62,
        is_dynamic=True,
    ),
    _milliseconds(
        "group.min.session.timeout.ms",
        6_000,
        "Smallest session timeout that a member of a consumer group may request.",
        100,
        _INT_MAX,
        is_dynamic=True,
    ),
    _milliseconds(
        "group.max.session.timeout.ms",
        30 * _MINUTE_MS,
        "Largest session timeout that a member of a consumer group may request.",
        100,
        _INT_MAX,
        is_dynamic=True,
    ),
    _milliseconds(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long an empty group waits for more members before its first generation.",
        0,
        _INT_MAX,
        is_dynamic=True,
    ),
    Option(
        key="group.max.size",
        kind="int",
        default=_INT_MAX,
        low=1,
        doc="Most members of a consumer group; further members are refused.",
        is_dynamic=True,
    ),
    Option(
        key="offsets.retention.minutes",
        kind="int",
        default=7 * 24 * 60,
        low=1,
        doc="Committed offsets of a consumer group are kept this long after its last member leaves.",
        is_dynamic=True,
    ),
    _milliseconds(
        "offsets.retention.check.interval.ms",
        10 * _MINUTE_MS,
        "Interval between checks for committed offsets beyond offsets.retention.minutes.",
        1,
        _LONG_MAX,
        is_dynamic=True,
    ),
    _bytes(
        "offset.metadata.max.bytes", 4096, "Largest metadata text of a committed offset.", 0, 32_767, is_dynamic=True
    ),
    Option(
        key="offsets.topic.num.partitions",
        kind="int",
        default=8,
        low=1,
        high=1_000,
        doc="Partitions of __consumer_offsets. The broker creates the topic on the first request for a consumer"
        " group; the number cannot change later.",
    ),
    _milliseconds(
        "transaction.max.timeout.ms",
        15 * _MINUTE_MS,
        "Longest time that a producer may ask its transactions to stay open; a longer one is refused.",
        1,
        _INT_MAX,
    ),
    _milliseconds(
        "transactional.id.expiration.ms",
        _WEEK_MS,
        "A transactional id without a transaction is forgotten after this time without a request.",
        1,
        _INT_MAX,
    ),
    Option(
        key="transaction.state.log.num.partitions",
        kind="int",
        default=8,
        low=1,
        high=1_000,
        doc="Partitions of __transaction_state. The broker creates the topic on the first request for a transactional"
        " id; the number cannot change later.",
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
        doc="Publish the activity and positions of every replica to __raftka_telemetry each second (RFC 0011).",
    ),
    Option(
        key="unstable.feature.versions.enable",
        kind="bool",
        default=False,
        doc="Offer levels of features that are still being built, for tests: in this version there are none. A later"
        " version may not read what was written at such a level.",
    ),
    Option(
        key="log.level",
        kind="string",
        default="INFO",
        # As `runtime.log_levels` at run time; a test compares them.
        choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
        aliases={"WARN": "WARNING", "FATAL": "CRITICAL"},
        doc="Lowest level of messages that are logged to stderr.",
        is_dynamic=True,
    ),
    Option(
        key="log.format",
        kind="string",
        default="text",
        choices=("text", "json"),
        doc="Form of the log: text, or one JSON object per line, tracebacks included.",
    ),
)

BY_KEY = {option.key: option for option in OPTIONS}
BY_VARIABLE = {option.variable: option for option in OPTIONS}
# Those that may be set while brokers run, by each name.
BY_DYNAMIC_NAME = {
    name: option for option in OPTIONS if option.is_dynamic for name in (option.key, *option.other_names)
}

# Options of Kafka that its tools delete, and that nothing here could follow if they were set: why.
DELETABLE = {
    "replica.alter.log.dirs.io.max.bytes.per.second": "a broker has one data directory, so nothing moves between two",
}


def unknown_key(key: str, source: str, known: Iterable[str] = BY_KEY) -> str:
    """Return the refusal of a name that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else "; `raftka config example` lists what exists"
    return f"{source}: unknown option {key}{hint}"


def dynamic_option(name: str) -> Option:
    """Return the option that a name stands for, if it may be set while brokers run.

    Raises:
        ConfigError: There is none, or it is read only at the start.
    """
    option = BY_DYNAMIC_NAME.get(name)
    if option is not None:
        return option
    shown = name[:_SHOWN_MAX]
    if name in BY_KEY:
        raise ConfigError(f"{shown} is read when a broker starts: set it where the broker is started, and restart it")
    near = difflib.get_close_matches(shown, [*BY_KEY, *BY_DYNAMIC_NAME], n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else "; `raftka cluster config list` shows what brokers have"
    raise ConfigError(f"unknown option {shown}{hint}")


def shown_value(value: Any) -> str:
    """Return a value of an option that is no list as text, as `parse_value` reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_value(option: Option, value: Any, source: str) -> Any:
    """Return a value as its option's type: int, str, bool, or a tuple of str.

    A string is read as the type; any other value must have it already.

    Raises:
        ConfigError: A wrong type, or out of range.
    """

    def refusal(why: str) -> ConfigError:
        return ConfigError(f"{source}: {option.key} = {value!r}: {why}")

    if option.kind in ("int", "float"):
        return (_parse_int if option.kind == "int" else _parse_float)(option, value, refusal)
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
        spelled = value.strip().upper()
        spelled = option.aliases.get(spelled, spelled)
        chosen = next((choice for choice in option.choices if choice.upper() == spelled), None)
        if chosen is None:
            raise refusal(f"must be one of {', '.join(option.named_choices)}")
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


def _parse_float(option: Option, value: Any, refusal: Callable[[str], ConfigError]) -> float:
    number = value
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            raise refusal("must be a number") from None
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise refusal("must be a number")
    # Not a number is in no range either.
    if not option.low <= number <= option.high:
        raise refusal(f"must be from {option.low} to {option.high}")
    return float(number)


def _parse_int(option: Option, value: Any, refusal: Callable[[str], ConfigError]) -> int:
    number = value
    if isinstance(value, str):
        try:
            number = int(value)
        except ValueError:
            raise refusal("must be an integer") from None
    if not isinstance(number, int) or isinstance(number, bool):
        raise refusal("must be an integer")
    if not option.low <= number <= option.high:
        raise refusal(f"must be from {option.low} to {option.high}")
    return number


def _parse_list(value: Any, refusal: Callable[[str], ConfigError]) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(word for word in (part.strip() for part in value.split(",")) if word)
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise refusal("must be a list of strings")


def check_replication_factor(factor: int | None, brokers: int) -> None:
    """Raise ConfigError if a topic would have more replicas by default than there are brokers.

    Seeds are not all brokers, so that only who knows their number can check it.
    """
    if factor is not None and factor > brokers:
        there_are = "is only 1 broker" if brokers == 1 else f"are only {brokers} brokers"
        raise ConfigError(f"default.replication.factor = {factor}: there {there_are}")
