"""Tunables of one node's groups; seconds and bytes. Defaults follow RFC 0003."""

from dataclasses import dataclass

from raft.token_bucket import UNLIMITED
from runtime.byte_budget import ReservedBudget
from storage.snapshot_file import STATE_BYTES_MAX
from storage.verified_ranges import RANGE_BYTES_MIN

# Heartbeats of a group at rest are left out in all ticks but each n-th, n up to this.
_REST_EVERY_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftOptions:
    """Every wait and bound of the raft package.

    Attributes:
        heartbeat_interval: How often a leader speaks to each peer node.
        election_timeout: A follower that has heard no leader for this long plus a draw stands for election.
        election_jitter: The draw is uniform in [0, election_jitter).
        reset_jitter: After a reset link to the leader the wait is only a draw in [0, reset_jitter).
        split_vote_backoff: After a split vote the next try waits between this and twice this.
        longest_log_wait: How much longer a candidate waits for voters whose log may be longer.
        vote_timeout: How long one round of (pre-)votes may take.
        append_timeout: How long the leader waits for the answer to an append.
        heartbeat_timeout: How long the leader waits for the answer to a heartbeat.
        flush_interval: Unflushed bytes of any level are fsynced after this.
        stall_timeout: An append, fsync or kvstore sync that takes longer hangs: a leader gives up where others can go
            on without it, and its node does not stand for election before a probe write has passed.
        flush_bytes: ... or as soon as there are this many.
        batcher_bytes: Bytes of producers' batches that one group holds before they are in the log.
        node_batcher_bytes: The same over all groups of a node. A group holds at most 1/8 of it, and 1/8 is kept for
            what is not a producer's: barriers, configurations, commands, internal topics (counterexample 12).
        unreplicated_bytes: Producers of a group wait while its leader has so many bytes that no majority has written
            (counterexample 11).
        unflushed_bytes: ... or so many that are not fsynced; a follower with so many answers BUSY.
        disk_reserve_bytes: Producers are refused unless a majority of a group's disks has more free bytes than this.
        disk_check_interval: How often a node looks at its free bytes.
        follower_window: Append requests in flight to one follower of one group.
        append_chunk_bytes: How much one request carries that makes up for rounds a full window has left out.
        recovery_chunk_bytes: How much one recovery request carries (one larger entry goes alone).
        leader_throttled_rate: Bytes per second that this node sends to followers that are far behind, of groups whose
            configuration names it as a throttled leader (RFC 0004).
        follower_throttled_rate: The same of what it is sent, while it is a throttled follower.
        learner_rate: Bytes per second that this node sends to learners that are far behind, where none of these two
            bounds them.
        append_buffer_requests: Requests a follower queues per group before it answers BUSY.
        node_append_buffer_bytes: Bytes of such requests over all groups of a node. A group holds at most 1/8 of it, and
            1/8 is kept for internal groups.
        replica_lag_max: A voter is out of sync once it has lacked an entry for this long since that entry became the
            first that was not committed.
        snapshot_entries: A replica's state is saved after so many committed entries: a start after a crash notes at
            most about so many, and holds some 400 bytes for each of an idempotent producer.
        state_bytes_max: A state with more bytes is not saved, and not sent to a follower: the log keeps its entries.
        state_step_entries: Entries noted or settled in the state of a replica before other tasks run.
        tail_cache_bytes: The newest entries of all logs of a node that are kept in memory.
        read_cache_bytes: Older entries of the logs that serve readers, of all logs of a node; 0: none.
        read_ahead_bytes: What is read from files before it is asked for, over all logs of a node.
        verified_entries: Large entries, over all logs of a node, of which is remembered that a read from the files has
            found them whole, and where: they leave by sendfile next time. 0: all are read and checked each time.
        range_bytes_min: Which payloads are large.
        aborted_rows_bytes: Rows of aborted transactions that were read from index files, over all logs of a node.
        open_segments: Segment files of all logs that are open together; those of closed segments come and go.
        keeps_figures: Each replica notes how long its calls and fsyncs take, for whoever takes these figures.
    """

    heartbeat_interval: float = 0.150
    election_timeout: float = 1.500
    election_jitter: float = 0.750
    reset_jitter: float = 0.150
    split_vote_backoff: float = 0.150
    longest_log_wait: float = 0.150
    vote_timeout: float = 1.000
    append_timeout: float = 5.000
    heartbeat_timeout: float = 3.000
    flush_interval: float = 0.100
    stall_timeout: float = 3.000
    flush_bytes: int = 256 * 1024
    batcher_bytes: int = 1024 * 1024
    node_batcher_bytes: int = 64 * 1024 * 1024
    unreplicated_bytes: int = 16 * 1024 * 1024
    unflushed_bytes: int = 32 * 1024 * 1024
    disk_reserve_bytes: int = 256 * 1024 * 1024
    disk_check_interval: float = 1.000
    follower_window: int = 16
    append_chunk_bytes: int = 1024 * 1024
    recovery_chunk_bytes: int = 512 * 1024
    leader_throttled_rate: int = UNLIMITED
    follower_throttled_rate: int = UNLIMITED
    learner_rate: int = UNLIMITED
    append_buffer_requests: int = 256
    node_append_buffer_bytes: int = 128 * 1024 * 1024
    replica_lag_max: float = 10.000
    snapshot_entries: int = 20_000
    state_bytes_max: int = STATE_BYTES_MAX
    state_step_entries: int = 256
    tail_cache_bytes: int = 64 * 1024 * 1024
    read_cache_bytes: int = 0
    read_ahead_bytes: int = 32 * 1024 * 1024
    verified_entries: int = 256 * 1024
    range_bytes_min: int = RANGE_BYTES_MIN
    aborted_rows_bytes: int = 16 * 1024 * 1024
    open_segments: int = 4096
    keeps_figures: bool = False

    @property
    def rest_every(self) -> int:
        """At every how many ticks a group at rest gets a heartbeat: three times in an election timeout at least, and
        twice in the time after which a replica that has not answered is out of sync, as far as the ticks allow.
        """
        of_election = int(self.election_timeout / (3 * self.heartbeat_interval))
        of_lag = int(self.replica_lag_max / (2 * self.heartbeat_interval))
        return max(1, min(_REST_EVERY_MAX, of_election, of_lag))

    @property
    def rest_interval(self) -> float:
        """Seconds between the heartbeats of a group at rest."""
        return self.rest_every * self.heartbeat_interval

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat_interval < self.election_timeout:
            raise ValueError("raft.heartbeat.interval.ms must be above 0 and below raft.election.timeout.ms")
        for name in (
            *("flush_bytes", "batcher_bytes", "unreplicated_bytes", "unflushed_bytes"),
            *("follower_window", "recovery_chunk_bytes", "snapshot_entries", "state_step_entries"),
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
        if not 0 < self.state_bytes_max <= STATE_BYTES_MAX:
            raise ValueError(f"state_bytes_max must be from 1 to {STATE_BYTES_MAX}")
        if min(self.node_batcher_bytes, self.node_append_buffer_bytes) < ReservedBudget.PARTS:
            raise ValueError("node_batcher_bytes and node_append_buffer_bytes must be at least 8")
        if min(self.leader_throttled_rate, self.follower_throttled_rate) < 0:
            raise ValueError("a throttled rate must be at least 0")
        if self.learner_rate <= 0:
            raise ValueError("learner_rate must be above 0")
        if self.disk_reserve_bytes < 0 or self.read_cache_bytes < 0:
            raise ValueError("disk_reserve_bytes and read_cache_bytes must be at least 0")
