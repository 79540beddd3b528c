"""What is known of a cluster at one time, as far as rules look at it.

None, an empty text and an empty tuple mean "not known" or "nothing of the kind", as each attribute says. A rule says
nothing about what is not known.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

# The newest entries of a partition are not committed for so long, and nothing was meanwhile: it is stalled.
STALLED_SECONDS = 10.0
# So much later than any producer may ask for, a transaction must have ended: its markers may need a failover.
HANGING_MARGIN_SECONDS = 60.0
# What names the throttled replicas of a topic, and the rates at which a broker copies them.
THROTTLED_KEYS = ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
RATE_KEYS = ("follower.replication.throttled.rate", "leader.replication.throttled.rate")


@dataclass(frozen=True, slots=True)
class BoundFill:
    """How full something is that has a bound; `/v1/bounds` has the same.

    Attributes:
        name: What has the bound, as an operator knows it.
        unit: What is counted.
        used: How much there is.
        maximum: How much there may be; above 0.
        refused: Requests that the bound has refused since the broker's start.
        cure: What an operator may do about it; never empty.
        is_retried: Whether brokers repeat by themselves what was refused: no client notices.
    """

    name: str
    unit: str
    used: int
    maximum: int
    refused: int
    cure: str
    is_retried: bool = False

    @property
    def share(self) -> float:
        """What part of the bound is used; above 1 beyond it."""
        return self.used / self.maximum


@dataclass(frozen=True, slots=True)
class MemberPicture:
    """What raft0's table has of a broker.

    Attributes:
        state: `active`, `draining` or `decommissioning`.
        state_seconds: For how long at least; the one who tells it began to count when it started.
        idle_seconds: For how long at least no replica has left it, if it is to be empty.
        is_retired: Whether its data directory is retired, and it has not joined with another one.
        raft0: `voter` or `learner`.
        replicas: How many it holds, those on their way counted.
    """

    state: str
    state_seconds: float = 0.0
    idle_seconds: float = 0.0
    is_retired: bool = False
    raft0: str = "voter"
    replicas: int = 0


@dataclass(frozen=True, slots=True)
class TransactionPicture:
    """A transaction that is open in a partition, as the partition's leader says.

    Attributes:
        topic, number: The partition.
        producer_id, epoch: Whose it is.
        first_offset: Of its first record; readers at read_committed wait there, or before it.
        open_seconds: For how long at least it has been open.
        max_seconds: For how long any producer may keep one open (transaction.max.timeout.ms).
    """

    topic: str
    number: int
    producer_id: int
    epoch: int
    first_offset: int
    open_seconds: float
    max_seconds: float

    @property
    def hangs(self) -> bool:
        """Whether its coordinator should have ended it, whatever its producer has asked for."""
        return self.open_seconds > self.max_seconds + HANGING_MARGIN_SECONDS


@dataclass(frozen=True, slots=True)
class BrokerPicture:
    """One broker.

    Attributes:
        node_id: At least 0.
        kafka: HOST:PORT for Kafka clients; empty: not known.
        answers: Whether it serves the one who looks: the doctor by its Kafka port, a broker by its link. None: nobody
            has looked.
        hangs: Whether its Kafka port takes connections and answers nothing: the kernel takes them for a process that is
            stopped. Only the doctor looks.
        runs: Whether its admin port answers, so that its process runs. None: nobody has looked, or its address is not
            known.
        is_ready: What it says of itself at `/v1/status/ready`; None: it was not asked, or did not answer.
        not_ready: The reason that it gives for not being ready; empty if there is none.
        cure: The cure that it names beside the reason; empty if it names none.
        admin_error: Why its admin port did not answer, in one line; empty: it did, or was not asked.
        refused: Why another broker refuses its links, in one line; empty: nobody is known to.
        refused_cure: The cure that the other broker names beside that; empty if it names none.
        refused_age: Seconds since the newest such refusal; None: not known.
        version: The installed version of Raftka; empty: not known.
        configs: Its configuration by key; None: not known.
        own_configs: Keys that somebody has set on it alone while it runs: they are meant to differ.
        fills: What has a bound in it.
        disk_spare_bytes: Free bytes above `disk.reserve.bytes`, negative below; None: not known.
        is_disk_short: Whether another broker has heard that its disk is below the reserve.
        clock_offset: Seconds by which the clock here is ahead of its clock; None: not compared.
        events_lost: Events that had no more room in its ring; at least 0.
        events_span: Seconds since the oldest event in its ring; None: there is none, or it is not known.
        features: The highest level of each feature that it can work at, without those at 0; None: not known.
        levels: The level of each feature that is in use, as it knows it; None: not known.
        unleft: Partitions that were moved elsewhere and cannot leave it, with what the disk says.
        member: What raft0's table has of it; None: not known.
        throttles: Those of RATE_KEYS that are set on it while it runs, or on all brokers.
        transactions: Those that have been open for longest in partitions that it leads; only it knows them.
        uncompacted: Its replicas over which it makes no pass of log compaction any more.
        held_deletes: In partitions that it leads, for whom tombstones stay, by node id: of how many partitions, and
            for how many seconds at most.
    """

    node_id: int
    kafka: str = ""
    answers: bool | None = None
    hangs: bool = False
    runs: bool | None = None
    is_ready: bool | None = None
    not_ready: str = ""
    cure: str = ""
    admin_error: str = ""
    refused: str = ""
    refused_cure: str = ""
    refused_age: float | None = None
    version: str = ""
    configs: Mapping[str, str | None] | None = None
    own_configs: frozenset[str] = frozenset()
    fills: tuple[BoundFill, ...] = ()
    disk_spare_bytes: int | None = None
    is_disk_short: bool = False
    clock_offset: float | None = None
    events_lost: int = 0
    events_span: float | None = None
    features: Mapping[str, int] | None = None
    levels: Mapping[str, int] | None = None
    unleft: tuple[tuple[str, str], ...] = ()
    member: MemberPicture | None = None
    throttles: tuple[str, ...] = ()
    transactions: tuple[TransactionPicture, ...] = ()
    uncompacted: tuple[str, ...] = ()
    held_deletes: tuple[tuple[int, int, float], ...] = ()

    @property
    def is_lost(self) -> bool:
        """Whether it does not answer, and its admin port does not say that its process works."""
        return self.answers is False and not self.runs


@dataclass(frozen=True, slots=True)
class PartitionPicture:
    """One partition.

    Attributes:
        topic, number: Its name is `topic-number`.
        leader: Who leads; None while nobody does.
        replicas: The nodes with a replica; at least one. While it is being moved: those that it had before.
        in_sync: Those in sync; not known, and so empty, without a leader.
        min_isr: `min.insync.replicas` of its topic; None: not known.
        is_stalled: Whether its newest entries are not committed for STALLED_SECONDS, as its leader says.
        retired: Nodes whose voting data directory never counts again; empty while it is being moved (MovePicture).
        target: The nodes that it moves to; empty: it is not being moved.
        lagging: The nodes whose replica is not in sync; empty without a leader, who alone knows. Replicas that a move
            adds do not count, nor do those that it drops once all of its target are in sync. Found once, when the
            picture is filled: a broker fills it in short steps, and a rule looks at thousands of partitions in one.
    """

    topic: str
    number: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...] = ()
    min_isr: int | None = None
    is_stalled: bool = False
    retired: tuple[int, ...] = ()
    target: tuple[int, ...] = ()
    lagging: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        lagging = () if self.leader is None else tuple([node for node in self.replicas if node not in self.in_sync])
        if lagging and self.target and all(node in self.in_sync for node in self.target):
            lagging = ()
        object.__setattr__(self, "lagging", lagging)

    @property
    def name(self) -> str:
        """What people call it: `orders-0`."""
        return f"{self.topic}-{self.number}"

    @property
    def is_offline(self) -> bool:
        """Whether it serves neither reads nor writes, because nobody leads it."""
        return self.leader is None

    @property
    def waits_for_force(self) -> bool:
        """Whether retired data directories leave no majority: nobody can be elected, and it cannot be moved."""
        return bool(self.retired) and 2 * len(self.retired) >= len(self.replicas)

    @property
    def refuses_writes(self) -> bool:
        """Whether acks=all is refused: fewer replicas are in sync than `min.insync.replicas` asks for."""
        return (
            not self.is_offline
            and self.min_isr is not None
            and len(self.in_sync) < min(self.min_isr, len(self.replicas))
        )


@dataclass(frozen=True, slots=True)
class MovePicture:
    """A partition that is being moved; `GET /v1/moves` has the same.

    Attributes:
        topic, number: The partition.
        target: Where it moves to.
        is_cancelled: Whether it goes back to where it was.
        state: How far it is, in a word.
        waits_for: Until what it waits, as a sentence; empty: it goes on.
        idle_seconds: For how long nothing has got further; None: not known.
        lost_voter_sets: The voter sets in force of which no majority answers.
        away: The brokers that hold it and do not answer.
        retired: Brokers that answer, and whose data directory in these voter sets never counts again.
        origin: The replicas that it had before; empty: not known.
    """

    topic: str
    number: int
    target: tuple[int, ...]
    is_cancelled: bool = False
    state: str = ""
    waits_for: str = ""
    idle_seconds: float | None = None
    lost_voter_sets: tuple[tuple[int, ...], ...] = ()
    away: tuple[int, ...] = ()
    retired: tuple[int, ...] = ()
    origin: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicPicture:
    """Settings of a topic that risk something.

    Attributes:
        name: Its name.
        min_isr: `min.insync.replicas`; None: not known.
        has_write_caching: Whether acks=all is answered before the fsync.
        has_unclean_elections: Whether a replica that lacks records may be elected (Kafka; Raftka has no such setting).
        throttles: Those of THROTTLED_KEYS that are set on it.
    """

    name: str
    min_isr: int | None = None
    has_write_caching: bool = False
    has_unclean_elections: bool = False
    throttles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One cluster, as one looker sees it.

    Attributes:
        brokers: All that are known of, those that do not answer included.
        controller: Its node id; -1: there is none; None: nobody has looked.
        partitions: All partitions; None: nobody has looked.
        topics: Settings of topics, as far as they are known.
        moves: Partitions that are being moved; None: nobody has looked.
        silent: Addresses (HOST:PORT) that somebody named, where nobody listens and no known broker is.
        hanging: Addresses (HOST:PORT) that somebody named, which take connections and answer nothing, and where no
            known broker is.
        is_raftka: Whether the brokers are Raftka's.
    """

    brokers: tuple[BrokerPicture, ...] = ()
    controller: int | None = None
    partitions: tuple[PartitionPicture, ...] | None = None
    topics: tuple[TopicPicture, ...] = ()
    moves: tuple[MovePicture, ...] | None = ()
    silent: tuple[str, ...] = ()
    hanging: tuple[str, ...] = ()
    is_raftka: bool = True

    @property
    def lost(self) -> tuple[int, ...]:
        """The node ids of lost brokers, in ascending order."""
        return tuple(sorted(each.node_id for each in self.brokers if each.is_lost))
