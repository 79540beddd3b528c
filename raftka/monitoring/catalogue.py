"""The table of all metric families. Collectors, the reference page, the dashboard and the alerts take names from here.

A family that is not in the table cannot be exposed, and one that no broker exposes fails a test (RFC 0017).
"""

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """The types of the Prometheus text format that are used here."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Path(StrEnum):
    """Where families are exposed."""

    BROKER = "/metrics"
    PARTITIONS = "/metrics/partitions"


TOPICS_MAX = 1_000
GROUPS_MAX = 500
# The label of those that come after so many names.
OTHER = "_other"


class Family(NamedTuple):
    """One metric family.

    Attributes:
        name: As a broker exposes it. A counter's ends in `_total`; those of a histogram's samples in `_bucket`,
            `_sum` and `_count`.
        kind: Its type.
        unit: `seconds`, `bytes`, or empty for a plain number.
        help: Its HELP line: what is measured.
        tells: What an operator reads from it, and when to look.
        labels: Names of its labels, in their order.
        series: How many series a broker has of it at most, in words; empty: one.
        path: Where it is exposed.
    """

    name: str
    kind: Kind
    unit: str
    help: str
    tells: str
    labels: tuple[str, ...] = ()
    series: str = ""
    path: Path = Path.BROKER

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names of its samples."""
        if self.kind is Kind.HISTOGRAM:
            return tuple(f"{self.name}_{suffix}" for suffix in ("bucket", "sum", "count"))
        return (self.name,)


_GAUGE, _COUNTER, _HISTOGRAM = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM
_PER_PEER = "one per other broker: at most 30"
_PER_API = "one per API that clients have asked: at most 45"
_PER_TOPIC = f"one per topic: at most {TOPICS_MAX}, later ones add up in `{OTHER}`"
_PER_GROUP = f"one per group that this broker coordinates: at most {GROUPS_MAX}, others add up in `{OTHER}`"
_PER_CALL = "one per level and kind of entry: 10"
_PER_KIND = "one per kind of entry: 5"
_PER_ROLE = "one per role and kind of entry: 10"
_PER_BOUND = "one per bound: 6, one per other broker, two per partition of `__consumer_offsets`, and full ones"
_PER_REPLICA = "one per replica here: at most `broker.replicas.max`"

_BROKER = (
    Family(
        *("raftka_build_info", _GAUGE, "", "Always 1; the labels name the versions of Raftka and of Python."),
        "which brokers run which version during an upgrade",
        ("version", "python"),
    ),
    Family(
        *(
            "raftka_wall_clock_seconds",
            _GAUGE,
            "seconds",
            "The broker's clock (Unix time) when it began to answer.",
        ),
        "compare it with `timestamp()`: a clock that is wrong gives records wrong timestamps",
    ),
    Family(
        *("raftka_controller_active", _GAUGE, "", "1 if this broker leads raft0 in office, otherwise 0."),
        "its sum over all brokers is 1",
    ),
    Family(
        *("raftka_cluster_brokers", _GAUGE, ""),
        "Brokers of the cluster, without those whose directory is retired. Exposed by raft0's leader in office only.",
        "it is absent while raft0 has no leader",
    ),
    Family(
        *("raftka_cluster_brokers_alive", _GAUGE, ""),
        "Brokers to which raft0's leader has a working link, itself included. Exposed by raft0's leader only.",
        "below `raftka_cluster_brokers`: a broker is lost",
    ),
    Family(
        *("raftka_cluster_brokers_by_state", _GAUGE, ""),
        "Brokers by what they may be given. Exposed by raft0's leader only.",
        "`draining`, `decommissioning` or `retired` above 0 for long: somebody has not finished what they began",
        *(("state",), "4: active, draining, decommissioning, retired"),
    ),
    Family(
        *("raftka_cluster_offline_partitions", _GAUGE, ""),
        "Partitions without a leader, or whose leader is lost. Exposed by raft0's leader only.",
        "above 0: clients can neither write nor read these partitions",
    ),
    Family(
        *("raftka_peer_up", _GAUGE, "", "1 if the outgoing link to another broker works, otherwise 0."),
        "0: this broker cannot send to that one",
        *(("node",), _PER_PEER),
    ),
    Family(
        *("raftka_partitions_led", _GAUGE, "", "Partitions that this broker leads in office."),
        "the load is uneven if it differs between brokers",
    ),
    Family(
        *("raftka_under_replicated_partitions", _GAUGE, ""),
        "Partitions led here in office with a replica that is not in sync.",
        "above 0: a replica is lost, or too slow",
    ),
    Family(
        *("raftka_under_min_isr_partitions", _GAUGE, ""),
        "Partitions led here in office with fewer replicas in sync than min.insync.replicas.",
        "above 0: producers with acks=all get NOT_ENOUGH_REPLICAS",
    ),
    Family(
        *("raftka_stalled_partitions", _GAUGE, ""),
        "Partitions whose newest leader is this broker, with an entry that was not committed for 10 s.",
        "above 0: writes wait for replicas. It also counts a partition whose leader has lost its majority",
    ),
    Family(
        *("raftka_failed_replicas", _GAUGE, "", "Replicas here that cannot start, have stopped, or are damaged."),
        "above 0: the log names the file and the cure",
    ),
    Family(
        *("raftka_groups", _GAUGE, "", "Raft groups with a replica here."),
        "the number of replicas, raft0 included",
    ),
)

_MOVES = (
    Family(
        *("raftka_cluster_moves", _GAUGE, ""),
        "Partitions that are being moved to other brokers, or back. Exposed by raft0's leader only.",
        "above 0 for long: `raftka partition moves` says what each waits for",
    ),
    Family(
        *("raftka_moves", _GAUGE, "", "Moves of partitions that are led here, by how far they are."),
        "the sum over brokers below `raftka_cluster_moves`: partitions without a leader are being moved",
        *(("state",), "4: preparing, copying, joint, finishing"),
    ),
    Family(
        *("raftka_move_idle_seconds", _GAUGE, "seconds"),
        "For how long the slowest of these moves has not got further; 0 if there is none.",
        "above 600: it waits for a broker that is away, or for a replica that does not catch up",
    ),
    Family(
        *("raftka_unleft_replicas", _GAUGE, ""),
        "Replicas that were moved elsewhere and that the disk here does not let go.",
        "above 0: the log names the file; the broker tries again",
    ),
    Family(
        *(
            "raftka_feature_level",
            _GAUGE,
            "",
            "The level at which the cluster uses a feature, as this broker knows it.",
        ),
        "below what all brokers have: an upgrade was not finished with `raftka cluster features upgrade`",
        *(("feature",), "one for each feature"),
    ),
)

_TOPICS = (
    Family(
        *("raftka_topic_size_bytes", _GAUGE, "bytes", "Bytes of the logs of all replicas here, by topic."),
        "which topics fill the disk",
        *(("topic",), _PER_TOPIC),
    ),
    Family(
        *("raftka_isr_size_min", _GAUGE, "", "The smallest in-sync set of the partitions led here, by topic."),
        "below `raftka_min_isr_setting`: producers with acks=all are refused",
        *(("topic",), _PER_TOPIC),
    ),
    Family(
        *("raftka_min_isr_setting", _GAUGE, "", "min.insync.replicas of the topics led here."),
        "compare it with `raftka_isr_size_min`",
        *(("topic",), _PER_TOPIC),
    ),
    Family(
        *("raftka_topic_bytes_in_total", _COUNTER, "bytes"),
        "Bytes of batches that producers have written here; at acks=0, that they have sent.",
        "the rate of writes",
        *(("topic",), _PER_TOPIC),
    ),
    Family(
        *("raftka_topic_records_in_total", _COUNTER, "", "Records of these batches."),
        "the rate of writes",
        *(("topic",), _PER_TOPIC),
    ),
    Family(
        *("raftka_topic_bytes_out_total", _COUNTER, "bytes", "Bytes of batches in answers to fetches."),
        "the rate of reads",
        *(("topic",), _PER_TOPIC),
    ),
    Family(
        *("raftka_topic_records_out_total", _COUNTER, "", "Records of these batches."),
        "the rate of reads",
        *(("topic",), _PER_TOPIC),
    ),
)

_CLIENTS = (
    Family(
        *("raftka_kafka_requests_total", _COUNTER, "", "Requests handled, by API and version."),
        "what clients do, and which versions they speak",
        *(("api", "version"), "one per version of an API that was asked: at most 250"),
    ),
    Family(
        *("raftka_kafka_request_seconds", _HISTOGRAM, "seconds"),
        "From the moment a request is taken up until its answer is ready; a Fetch without the wait it asked for.",
        "latency as the broker sees it",
        *(("api",), _PER_API),
    ),
    Family(
        *("raftka_kafka_request_max_seconds", _GAUGE, "seconds", "The longest of these in the last 60 s."),
        "one slow request among many",
        *(("api",), _PER_API),
    ),
    Family(
        *("raftka_kafka_errors_total", _COUNTER, "", "Error codes in answers, by API and code; each is counted."),
        "a retriable code after a leader change is normal; UNKNOWN_SERVER_ERROR never is",
        *(("api", "code"), "one per pair that occurred: at most 1,000"),
    ),
    Family(
        *("raftka_kafka_connections", _GAUGE, "", "Open connections of clients."),
        "near `raftka_kafka_connections_max`: clients are about to be refused",
    ),
    Family(
        *("raftka_kafka_connections_max", _GAUGE, "", "How many connections of clients there may be."),
        "it depends on the limit of open files",
    ),
    Family(
        *("raftka_kafka_connections_refused_total", _COUNTER, ""),
        "Connections that were closed because there were too many.",
        "it rises: clients are refused",
    ),
    Family(
        *("raftka_kafka_fetch_sessions", _GAUGE, "", "Fetch sessions of consumers."),
        "how many consumers use sessions",
    ),
    Family(
        *("raftka_kafka_fetch_session_bytes", _GAUGE, "bytes", "Memory counted for fetch sessions."),
        "what these sessions cost",
    ),
)

_GROUPS = (
    Family(
        *("raftka_group_lag_records", _GAUGE, ""),
        "Records behind the visible ends, over the partitions with a known end. Exposed by the group's coordinator.",
        "it rises: the group reads less than producers write; take `max by (group)`",
        *(("group",), _PER_GROUP),
    ),
    Family(
        *("raftka_group_lag_max_records", _GAUGE, "", "The same in the partition in which it is most."),
        "near the sum: one consumer or one key is slow",
        *(("group",), _PER_GROUP),
    ),
    Family(
        *("raftka_group_lag_unknown_partitions", _GAUGE, ""),
        "Partitions with a committed offset whose end no leader tells; they add nothing to the lag.",
        "above 0: the lag is only a part of the truth",
        *(("group",), _PER_GROUP),
    ),
)

_COMPACTION = (
    Family(
        *("raftka_compaction_passes_total", _COUNTER, "", "Passes of log compaction that have ended well."),
        "with the two below: what compaction does",
    ),
    Family(
        *("raftka_compaction_failures_total", _COUNTER, "", "Passes that have failed."),
        "it rises: the broker's log says why",
    ),
    Family(
        *("raftka_compaction_removed_records_total", _COUNTER, ""),
        "Records and markers that passes have removed from logs of replicas here.",
        "what compaction does",
    ),
    Family(
        *("raftka_compaction_cleaned_bytes_total", _COUNTER, "bytes", "Bytes of segments that passes have read."),
        "what compaction costs the disk",
    ),
    Family(
        *("raftka_compaction_dirty_ratio_max", _GAUGE, ""),
        "The largest part of a compacted log here that a pass could find something in, as of the last look.",
        "above `min.cleanable.dirty.ratio` for long: passes fail, or do not keep up",
    ),
    Family(
        *("raftka_compaction_due_partitions", _GAUGE, "", "Replicas here that wait for a pass, as of the last look."),
        "it grows: passes do not keep up",
    ),
    Family(
        *("raftka_compaction_suspended_partitions", _GAUGE, ""),
        "Replicas here over which no pass is made any more: three in a row have failed.",
        "above 0: `raftka doctor` names them",
    ),
    Family(
        *("raftka_compaction_held_bytes", _GAUGE, "bytes"),
        "Tombstones and markers in partitions led here that are old enough, and stay because of another broker.",
        "it grows: a broker is away, or does not compact",
    ),
    Family(
        *("raftka_compaction_held_partitions", _GAUGE, "", "Partitions led here with such bytes, by that broker."),
        "which broker to look at",
        *(("node",), _PER_PEER),
    ),
)

_TRANSACTIONS = (
    Family(
        *("raftka_open_transactions", _GAUGE, "", "Transactions that are open in partitions led here."),
        "it grows steadily: producers begin more transactions than they end",
    ),
    Family(
        *("raftka_oldest_transaction_seconds", _GAUGE, "seconds"),
        "For how long, at least, the oldest of them has been open: since this broker saw it first. 0 if there is none.",
        "above what producers need: readers at read_committed wait for it",
    ),
    Family(
        *("raftka_hanging_transactions", _GAUGE, ""),
        "Transactions open for a minute longer than transaction.max.timeout.ms, up to 10 of a partition.",
        "above 0: readers at read_committed wait for ever; `raftka doctor` names them",
    ),
    Family(
        *("raftka_stable_offset_lag_max", _GAUGE, ""),
        "The largest distance in offsets from a last stable offset to the high watermark, over partitions led here.",
        "how far readers at read_committed are behind the others",
    ),
    Family(
        *("raftka_stable_offset_lag_partitions", _GAUGE, ""),
        "Partitions led here whose last stable offset is below the high watermark.",
        "as above",
    ),
    Family(
        *("raftka_transactional_ids", _GAUGE, "", "Transactional ids that this broker keeps as their coordinator."),
        "it grows steadily: clients choose new ids again and again",
    ),
    Family(
        *("raftka_transactions_committed_total", _COUNTER, "", "Transactions whose commit was decided here."),
        "the rate of transactions",
    ),
    Family(
        *("raftka_transactions_aborted_total", _COUNTER, "", "Transactions whose abort was decided here."),
        "near the rate of commits: producers fail again and again",
    ),
    Family(
        *("raftka_transactions_timed_out_total", _COUNTER, ""),
        "Aborts that were begun here because a transaction was open for longer than its producer had asked for.",
        "it rises: producers die in transactions, or need longer than their transaction.timeout.ms",
    ),
    Family(
        *("raftka_transaction_markers_sent_total", _COUNTER, ""),
        "Markers that leaders were asked for the first time.",
        "the load of decisions",
    ),
    Family(
        *("raftka_transaction_markers_resent_total", _COUNTER, ""),
        "Markers that leaders were asked for again: they were away, or did not answer in time.",
        "it rises without a leader change: a partition has no leader, and its transactions cannot end",
    ),
    Family(
        *("raftka_producers_fenced_total", _COUNTER, ""),
        "Requests refused here because a newer producer with the same transactional id has come.",
        "it rises steadily: two applications use the same transactional id",
    ),
)

_CALLS = (
    Family(
        *("raftka_replicate_seconds", _HISTOGRAM, "seconds"),
        "Calls to replicate entries that ended well, from the call to the answer at its level.",
        "what of a request's latency is replication",
        *(("level", "kind"), _PER_CALL),
    ),
    Family(
        *("raftka_replicate_max_seconds", _GAUGE, "seconds", "The longest of these in the last 60 s."),
        "one slow call among many",
        *(("level", "kind"), _PER_CALL),
    ),
    Family(
        *("raftka_replicate_failures_total", _COUNTER, "", "Calls to replicate entries that ended with an error."),
        "some at a leader change are normal; without one, look at the log",
        *(("level", "kind"), _PER_CALL),
    ),
    Family(
        *("raftka_appended_entries_total", _COUNTER, "", "Entries written to the logs here, by leaders and followers."),
        "what the logs here take: data, or what the cluster itself writes",
        *(("role", "kind"), _PER_ROLE),
    ),
    Family(
        *("raftka_appended_bytes_total", _COUNTER, "bytes", "Bytes of these entries, their headers included."),
        "as above",
        *(("role", "kind"), _PER_ROLE),
    ),
    Family(
        *("raftka_apply_seconds", _HISTOGRAM, "seconds", "Steps that apply committed entries to a replica's state."),
        "how long state machines take",
        *(("kind",), _PER_KIND),
    ),
    Family(
        *("raftka_apply_max_seconds", _GAUGE, "seconds", "The longest of these in the last 60 s."),
        "as above",
        *(("kind",), _PER_KIND),
    ),
    Family(
        *("raftka_apply_failures_total", _COUNTER, "", "Applies that the log or the state has refused."),
        "above 0: a replica here has stopped; the log says why",
        *(("kind",), _PER_KIND),
    ),
)

_DISK = (
    Family(
        *("raftka_fsync_seconds", _HISTOGRAM, "seconds", "Fsyncs of the logs of all replicas here."),
        "how fast the disk is; every write at acks=all waits for it",
    ),
    Family(
        *("raftka_fsync_max_seconds", _GAUGE, "seconds", "The longest of these in the last 60 s."),
        "a disk that is slow now and then",
    ),
    Family(
        *("raftka_kvstore_sync_seconds", _HISTOGRAM, "seconds", "Syncs of the kvstore, waits for a thread included."),
        "votes and terms wait for it",
    ),
    Family(
        *("raftka_kvstore_sync_max_seconds", _GAUGE, "seconds", "The longest of these in the last 60 s."),
        "as above",
    ),
    Family(
        *("raftka_disk_in_doubt", _GAUGE, "", "1 while a write has hung and no probe has passed since, otherwise 0."),
        "1: nobody here stands for election; files of replicas that are being opened are not watched",
    ),
    Family(
        *("raftka_disk_spare_bytes", _GAUGE, "bytes", "Free bytes above disk.reserve.bytes; negative below it."),
        "below 0 producers are refused",
    ),
    Family(
        *("raftka_segment_files_open", _GAUGE, "", "Files of segments that are open."),
        "compare it with `raftka_segment_files_max`",
    ),
    Family(
        *("raftka_segment_files_max", _GAUGE, "", "How many of them may be open together now."),
        "small: segments are closed and opened again and again",
    ),
    Family(
        *("raftka_descriptors_refused_total", _COUNTER, "", "Descriptors that the kernel has refused to logs."),
        "it rises: too few open files are allowed",
    ),
)

_PROCESS = (
    Family(
        *("raftka_loop_lag_seconds", _HISTOGRAM, "seconds", "How late a timer comes that is set every 50 ms."),
        "how busy the broker is: every latency includes it",
    ),
    Family(
        *("raftka_loop_lag_max_seconds", _GAUGE, "seconds", "The longest of these in the last 60 s."),
        "near the heartbeat interval (0.15 s): the broker or the machine is too busy",
    ),
    Family(
        *("raftka_gc_pause_seconds", _HISTOGRAM, "seconds", "Garbage collections, which stop the whole broker."),
        "a part of the loop's lag",
    ),
    Family(
        *("raftka_gc_pause_max_seconds", _GAUGE, "seconds", "The longest of these in the last 60 s."),
        "as above",
    ),
    Family(
        *("process_cpu_seconds_total", _COUNTER, "seconds", "Total user and system CPU time spent in seconds."),
        "a broker uses one core for its loop, and part of another for disk and compression",
    ),
    Family(
        *("process_resident_memory_bytes", _GAUGE, "bytes", "Resident memory size in bytes."),
        "it grows without end: file an issue",
    ),
    Family(
        *("process_virtual_memory_bytes", _GAUGE, "bytes", "Virtual memory size in bytes."),
        "of little use: most of it is never touched",
    ),
    Family(
        *("process_start_time_seconds", _GAUGE, "seconds", "Start time of the process since unix epoch in seconds."),
        "it changes: the broker was started again, and its counters begin at 0",
    ),
    Family(
        *("process_open_fds", _GAUGE, "", "Number of open file descriptors."),
        "near `process_max_fds`: files and connections are about to be refused",
    ),
    Family(
        *("process_max_fds", _GAUGE, "", "Maximum number of open file descriptors."),
        "`ulimit -n`, LimitNOFILE=",
    ),
)

_BOUNDS = (
    Family(
        *("raftka_bound_used", _GAUGE, "", "How much there is of what has a bound."),
        "near `raftka_bound_max`: beyond that, requests are refused",
        *(("what", "unit"), _PER_BOUND),
    ),
    Family(
        *("raftka_bound_max", _GAUGE, "", "How much there may be of it."),
        "as above",
        *(("what", "unit"), _PER_BOUND),
    ),
    Family(
        *("raftka_bound_refusals_total", _COUNTER, "", "Requests refused because of a bound."),
        "it rises: `GET /v1/bounds` names the cure",
        *(("what", "unit"), _PER_BOUND),
    ),
    Family(
        *("raftka_batcher_bytes", _GAUGE, "bytes", "Bytes in the batchers of all groups."),
        "near `raft.batcher.node.max.bytes`: producers wait",
    ),
    Family(
        *("raftka_read_cache_bytes", _GAUGE, "bytes"),
        "Bytes of what was written lately in the partitions led here, kept for consumers.",
        "at `read.cache.bytes` while `raftka_file_reads_total` rises: consumers are further behind than memory reaches",
    ),
    Family(
        *("raftka_read_cache_reads_total", _COUNTER, ""),
        "Reads of logs that the read cache answered.",
        "compare it with `raftka_file_reads_total`",
    ),
    Family(
        *("raftka_read_ahead_reads_total", _COUNTER, ""),
        "Reads of logs that got what was read ahead of them from the files.",
        "compare it with `raftka_file_reads_total`",
    ),
    Family(
        *("raftka_file_reads_total", _COUNTER, ""),
        "Reads of logs, by consumers and for followers, that waited for files.",
        "it rises fast: consumers are far behind, or read out of order",
    ),
    Family(
        *("raftka_sendfile_bytes_total", _COUNTER, "bytes"),
        "Bytes that consumers got straight from segment files, by sendfile.",
        "compare it with `raftka_topic_bytes_out_total`: the rest came from memory, or was read and checked",
    ),
    Family(
        *("raftka_append_buffer_bytes", _GAUGE, "bytes"),
        "Bytes of leaders' requests that wait for the logs of the followers here.",
        "near `raft.append.buffer.node.max.bytes`: the disk here is too slow",
    ),
    Family(
        *("raftka_append_buffer_refused_total", _COUNTER, ""),
        "Requests of leaders that were answered BUSY because the followers here hold too much.",
        "it rises: the disk here stands still",
    ),
    Family(
        *("raftka_link_unsent_bytes", _GAUGE, "bytes"),
        "Bytes for another broker that the kernel has not taken yet.",
        "it stays near 16 MiB: that broker or the network to it is too slow",
        *(("peer",), _PER_PEER),
    ),
    Family(
        *("raftka_link_refused_requests_total", _COUNTER, ""),
        "Requests to another broker that were not sent because too much was unsent.",
        "as above",
        *(("peer",), _PER_PEER),
    ),
    Family(
        *("raftka_link_damaged_total", _COUNTER, ""),
        "Frames and requests of another broker that did not arrive as they were sent.",
        "it rises: check the network and the memory of both brokers; what is damaged is not used",
        *(("peer",), _PER_PEER),
    ),
)


def _raft(name: str, words: str, tells: str, unit: str = "") -> Family:
    return Family(f"raftka_raft_{name}_total", _COUNTER, unit, words, tells)


_RAFT = (
    _raft(
        "rounds", "Rounds of leaders: one append of the batches that waited.", "batches per round: how well they add up"
    ),
    _raft("entries_appended", "Entries that leaders here have appended.", "the rate of writes"),
    _raft("bytes_appended", "Bytes of these entries.", "the rate of writes", "bytes"),
    _raft("append_requests_sent", "Append requests that leaders here have sent.", "the load of replication"),
    _raft(
        "append_requests_failed", "Append requests without a usable answer.", "it rises: a follower or a link is lost"
    ),
    _raft("append_requests_received", "Append requests that followers here have received.", "the load of replication"),
    _raft(
        "recoveries_started",
        "Followers that leaders here have begun to catch up.",
        "it rises steadily: followers fall behind again and again",
    ),
    _raft(
        "recovery_bytes", "Bytes sent to followers that catch up.", "how much is left is in `/v1/partitions`", "bytes"
    ),
    _raft(
        "throttled_bytes",
        "Bytes of recovery_bytes and of snapshots that a rate has bounded.",
        "compare with `replication.learner.bytes.per.second` and `leader.replication.throttled.rate`",
        "bytes",
    ),
    _raft(
        "throttled_seconds",
        "Time that recoveries of followers here have waited for a rate that bounds them, all added up.",
        "it rises after the last move: throttles were not cleared, run `kafka-reassign-partitions --verify`",
        "seconds",
    ),
    _raft("snapshots_sent", "Snapshots sent to followers.", "followers were away for longer than the log keeps"),
    _raft("snapshots_installed", "Snapshots that followers here have installed.", "as above"),
    _raft(
        "snapshots_damaged",
        "Snapshots that arrived damaged and were not used.",
        "it rises: check the memory and the network of both brokers",
    ),
    _raft(
        "snapshots_refused",
        "Snapshots that were not written because the state is too large.",
        "it rises: the log of that partition grows",
    ),
    _raft(
        "elections_started",
        "Elections that replicas here have started.",
        "it rises without a restart: brokers lose contact with leaders",
    ),
    _raft("elections_won", "Elections that replicas here have won.", "leaders move"),
    _raft(
        "step_downs", "Leaders here that have stepped down.", "it rises: leaders lose their majority, or the disk hangs"
    ),
    _raft("votes_granted", "Votes granted here.", "elections elsewhere"),
    _raft("votes_refused", "Votes refused here.", "candidates with short logs, or rival candidates"),
    _raft("truncations", "Truncations of logs here.", "a deposed leader had written what no majority has"),
    _raft("entries_truncated", "Entries that were truncated.", "as above"),
    _raft("records_truncated", "Records that were truncated.", "none of them was acknowledged at acks=all"),
    _raft("replicate_timeouts", "Writes that were not replicated in their time.", "it rises: producers see timeouts"),
    _raft(
        "producers_held",
        "Writes that waited because replicas or batchers were full.",
        "it rises steadily: producers are faster than the cluster",
    ),
    _raft("read_rounds", "Rounds that have confirmed a leadership for reads.", "the load of linearizable reads"),
    _raft("transfers_started", "Leadership transfers that were begun.", "leaders move on purpose"),
    _raft("transfers_completed", "Leadership transfers that have succeeded.", "as above"),
    _raft("append_stalls", "Appends that took longer than raft.flush.stall.timeout.ms.", "it rises: a disk hangs"),
    _raft("flush_stalls", "Fsyncs that took longer than raft.flush.stall.timeout.ms.", "it rises: a disk hangs"),
    _raft(
        "kvstore_stalls", "Kvstore syncs that took longer than raft.flush.stall.timeout.ms.", "it rises: a disk hangs"
    ),
)

_TELEMETRY = (
    Family(
        *("raftka_telemetry_records_published_total", _COUNTER, "", "Telemetry records that were written."),
        "one per replica and second, with `telemetry.enable`",
    ),
    Family(
        *("raftka_telemetry_batches_published_total", _COUNTER, "", "Batches of these records."),
        "as above",
    ),
    Family(
        *("raftka_telemetry_batches_failed_total", _COUNTER, "", "Batches that could not be written."),
        "it rises steadily: the topic has no leader, or no majority with space on its disks",
    ),
    Family(
        *("raftka_telemetry_seconds_skipped_total", _COUNTER, "", "Seconds of which there is no record."),
        "it rises: reading the figures of one second takes longer than a second, or the broker stood still",
    ),
)


def _replica(name: str, words: str, tells: str, unit: str = "") -> Family:
    labels = ("topic", "partition")
    return Family(f"raftka_partition_{name}", _GAUGE, unit, words, tells, labels, _PER_REPLICA, Path.PARTITIONS)


_PARTITIONS = (
    _replica(
        "leader",
        "1 where this broker leads and serves the partition, otherwise 0.",
        "its sum over all brokers is 0: the partition has no leader",
    ),
    _replica("term", "Raft term: the leader epoch.", "it rises: the partition has had an election"),
    _replica("start_offset", "First offset that can be read.", "retention moves it"),
    _replica("end_offset", "Offset of the next record, visible or not.", "the rate of writes of a partition"),
    _replica(
        "unflushed_bytes",
        "Bytes written and not fsynced yet.",
        "it stays near `raft.unflushed.max.bytes`: the disk cannot keep up",
        "bytes",
    ),
    _replica(
        "unreplicated_bytes",
        "Bytes that this leader has written and no majority has.",
        "it stays near `raft.unreplicated.max.bytes`: a majority cannot keep up, producers wait",
        "bytes",
    ),
    _replica("size_bytes", "Bytes of all segments.", "which partitions fill the disk", "bytes"),
    _replica("learners", "Replicas that get entries and do not vote yet.", "above 0: the partition is being moved"),
    _replica(
        "joint",
        "1 while the voters before and after a move must both agree, otherwise 0.",
        "1 for long: a majority of one of them is away",
    ),
    _replica("dirty_index", "Last index written.", "compare it between replicas"),
    _replica("flushed_index", "Last index fsynced.", "behind the dirty index: the disk is slow"),
    _replica("commit_index", "Last index committed.", "behind the dirty index: followers are slow"),
    _replica("visible_index", "Last index that consumers may read.", "what consumers see"),
)

SECTIONS: dict[str, tuple[Family, ...]] = {
    "The cluster and this broker": _BROKER,
    "Moves of partitions": _MOVES,
    "Topics": _TOPICS,
    "Clients": _CLIENTS,
    "Consumer groups": _GROUPS,
    "Transactions": _TRANSACTIONS,
    "Log compaction": _COMPACTION,
    "Calls by kind of entry": _CALLS,
    "The disk": _DISK,
    "The process": _PROCESS,
    "Bounds and links": _BOUNDS,
    "Raft": _RAFT,
    "Telemetry": _TELEMETRY,
    "Replicas": _PARTITIONS,
}
FAMILIES: tuple[Family, ...] = tuple(family for families in SECTIONS.values() for family in families)
BY_NAME: dict[str, Family] = {family.name: family for family in FAMILIES}
