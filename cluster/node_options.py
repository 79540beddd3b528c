"""The options of a node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cluster.compaction import CompactionOptions
from cluster.founding_words import Seed
from cluster.producer_table import ProducerOptions
from cluster.state_bounds import StateOptions
from model.features import OFFERED, LevelRange
from model.ids import NodeId
from model.topic_config import TopicConfig
from raft.options import RaftOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """What one node is told.

    Attributes:
        node_id: Unique in the cluster.
        data_dir: This node's alone; locked by the caller.
        rpc_host, rpc_port: Where links bind, and from where they dial; port 0 takes a free one (tests).
        seeds: The brokers that found the cluster; after that, brokers to ask, of any number. Empty: a cluster of one.
        secret: The cluster secret; needed for more than one seed.
        topic_defaults: Configuration of topics that do not say.
        producers: How long, and how many, idempotent producers each partition remembers.
        state: How large the tables of raft0 and of consumer groups may become.
        raft0_segment_bytes: Size of a segment of raft0's log, and how much of it is kept behind its newest.
        compaction: How passes of log compaction are made.
        retention_check_interval: How often leaders look for what has outlived its retention, seconds.
        replicas_max: Replicas of one broker, beyond which no topic is created and none grows.
        telemetry: Publish each second what every replica here did (RFC 0011).
        features: The levels of features that this node can work at (RFC 0018).
        idle_probe_interval: How often a link over which nothing comes is asked for a sign of life, seconds (RFC 0016);
            0.0: never, so that a broker that stands still is lost only for those that wait for its answers.
    """

    node_id: NodeId
    data_dir: str
    rpc_host: str
    rpc_port: int
    seeds: Sequence[Seed] = ()
    secret: bytes | None = field(default=None, repr=False)
    raft: RaftOptions = field(default_factory=RaftOptions)
    topic_defaults: TopicConfig = field(default_factory=TopicConfig)
    producers: ProducerOptions = field(default_factory=ProducerOptions)
    state: StateOptions = field(default_factory=StateOptions)
    raft0_segment_bytes: int = 16 * 1024 * 1024
    compaction: CompactionOptions = field(default_factory=CompactionOptions)
    retention_check_interval: float = 300.0
    replicas_max: int = 2_500
    telemetry: bool = False
    features: Mapping[str, LevelRange] = field(default_factory=lambda: OFFERED)
    idle_probe_interval: float = 0.0

    @property
    def has_links(self) -> bool:
        """Whether it listens for other brokers: there are some, or some may join."""
        return len(self.seeds) > 1 or self.secret is not None
