"""The table of alerts: what Prometheus is to watch, what it means, and what an operator does (RFC 0017 section 4).

An expression uses samples and labels of the catalogue only; a test reads every one of them.
"""

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """`critical`: clients are refused or may soon be; somebody gets up. `warning`: look at it today."""

    CRITICAL = "critical"
    WARNING = "warning"


class Alert(NamedTuple):
    """One alert.

    Attributes:
        name: As it is fired.
        expression: PromQL; the alert is pending while it returns something.
        wait: For so long before it fires: a duration of PromQL, `0s` for at once.
        severity: How urgent it is.
        summary: What is so, in a sentence; may have Prometheus templates.
        cause: What usually leads to it.
        cure: What to do.
        commands: What is typed, in its order: first what shows more, then what cures. `N` is the broker, `TOPIC` the
            topic, `GROUP` the group in question, `BYTES` a number of bytes.
    """

    name: str
    expression: str
    wait: str
    severity: Severity
    summary: str
    cause: str
    cure: str
    commands: tuple[str, ...]


_CRITICAL, _WARNING = Severity.CRITICAL, Severity.WARNING
_INSTANCE = "{{ $labels.instance }}"
# Every program has metrics of these names: only those of brokers count.
OF_RAFTKA = " and on (instance, job) raftka_build_info"
_SMALLER = "raftka topic alter-config TOPIC --set retention.bytes=BYTES"

ALERTS = (
    Alert(
        "RaftkaBrokerLost",
        "max(raftka_cluster_brokers - raftka_cluster_brokers_alive) > 0",
        *("30s", _CRITICAL, "{{ $value }} broker(s) do not answer."),
        "The process has ended or hangs, its machine is down, or the network to it is cut.",
        "Find the broker. If its process has ended, start its service: the last lines of its log say why. If it"
        " hangs, `kill -USR2 PID` writes its stacks to its log; then restart it. `raftka doctor` tells which it is.",
        ("raftka doctor", "raftka dev logs N", "raftka dev restart N"),
    ),
    Alert(
        "RaftkaNoController",
        "absent(raftka_cluster_brokers)",
        *("30s", _CRITICAL, "No broker leads raft0: topics cannot be created, changed or deleted."),
        "A majority of the brokers is down, or the brokers cannot reach one another. Or nobody is scraped.",
        "Start brokers until a majority runs. If all of them run, check the network between them.",
        ("raftka doctor", "raftka dev restart N"),
    ),
    Alert(
        "RaftkaOfflinePartitions",
        "max(raftka_cluster_offline_partitions) > 0",
        *("30s", _CRITICAL, "{{ $value }} partition(s) have no leader: clients cannot write or read them."),
        "A majority of their replicas is down; of a topic with one replica, its broker. Or replicas are damaged.",
        "Start the brokers that hold their replicas. `raftka doctor` names the partitions and these brokers.",
        ("raftka doctor", "raftka dev restart N"),
    ),
    Alert(
        "RaftkaUnderMinIsrPartitions",
        "sum(raftka_under_min_isr_partitions) > 0",
        *("30s", _CRITICAL, "{{ $value }} partition(s) have too few replicas in sync: acks=all is refused."),
        "Brokers are down or too slow, and min.insync.replicas asks for more replicas than are left.",
        "Bring the replicas back. If that takes long, lower min.insync.replicas: it decides how many copies an"
        " acknowledged record has. `raftka doctor` names the brokers and the topics.",
        ("raftka doctor", "raftka dev restart N", "raftka topic alter-config TOPIC --set min.insync.replicas=1"),
    ),
    Alert(
        "RaftkaUnderReplicatedPartitions",
        "sum(raftka_under_replicated_partitions) > 0",
        *("5m", _WARNING, "{{ $value }} partition(s) have a replica that is not in sync."),
        "A broker is down, has just come back and catches up, or is too slow for the load.",
        "Start the broker. If it runs, look at its disk and its loop: the alerts on these name the cause.",
        ("raftka doctor", "raftka dev restart N"),
    ),
    Alert(
        "RaftkaStalledPartitions",
        "sum(raftka_stalled_partitions) > 0",
        *("30s", _CRITICAL, "{{ $value }} partition(s) have entries that were not committed for 10 s."),
        "A majority of the replicas does not answer, or takes far less than producers send.",
        "Bring the replicas back. If all brokers run, look for a disk that hangs or a link that is full.",
        ("raftka doctor", "raftka dev restart N"),
    ),
    Alert(
        "RaftkaPeerDown",
        "raftka_peer_up == 0",
        *("2m", _WARNING, _INSTANCE + " cannot send to broker {{ $labels.node }}."),
        "That broker is down, or one direction of the network is cut.",
        "Start that broker. If it runs, check firewalls and addresses between these two brokers.",
        ("raftka dev restart N",),
    ),
    Alert(
        "RaftkaMoveStuck",
        "raftka_move_idle_seconds > 600",
        *("1m", _WARNING, "A partition that " + _INSTANCE + " leads is moved, and has not got further for 10 minutes."),
        "A new replica is away or does not catch up, or a majority of the old or of the new replicas does not answer.",
        "See what each move waits for, and start that broker; or take the moves back.",
        ("raftka partition moves", "raftka partition cancel --all"),
    ),
    Alert(
        "RaftkaFailedReplicas",
        "raftka_failed_replicas > 0",
        *("30s", _CRITICAL, _INSTANCE + " has {{ $value }} replica(s) that do not work."),
        "Bytes on the disk are damaged, a file is lost, or the disk has refused a write.",
        "Read the reason in the log and at `/v1/status/ready`: it names the file and the cure. Check the disk, then"
        " restart the broker: it gets lost entries back from the others.",
        ("raftka doctor", "raftka dev restart N"),
    ),
    Alert(
        "RaftkaDiskSpaceLow",
        "raftka_disk_spare_bytes < 2147483648",
        *("1m", _WARNING, _INSTANCE + " has {{ $value | humanize1024 }}B left above its reserve."),
        "Topics grow faster than their retention removes, or other files fill the disk.",
        "Lower the retention of large topics, delete topics that nobody needs, or make the disk larger."
        " `raftka_topic_size_bytes` names the large ones. Each partition may keep `BYTES` and its newest segment.",
        ("raftka doctor", _SMALLER),
    ),
    Alert(
        "RaftkaDiskFull",
        "raftka_disk_spare_bytes < 0",
        *("30s", _CRITICAL, _INSTANCE + " is below its reserve: it may refuse producers."),
        "Topics grow faster than their retention removes, or other files fill the disk.",
        "Lower the retention of large topics, delete topics that nobody needs, or make the disk larger. Producers are"
        " accepted again as soon as there is room. `raftka_topic_size_bytes` names the large topics. Each partition may"
        " keep `BYTES` and its newest segment.",
        ("raftka doctor", _SMALLER),
    ),
    Alert(
        "RaftkaDiskHangs",
        "raftka_disk_in_doubt > 0",
        *("10s", _CRITICAL, _INSTANCE + " has a write that hangs: nobody there stands for election."),
        "The disk or its controller does not answer, or a network disk is away.",
        "Look at the kernel's log and at the health of the disk; `raftka doctor` names the broker and the write. Stop"
        " the broker if it does not recover: the others serve without it.",
        ("raftka doctor",),
    ),
    Alert(
        "RaftkaDiskStalls",
        "increase(raftka_raft_append_stalls_total[10m]) + increase(raftka_raft_flush_stalls_total[10m])"
        " + increase(raftka_raft_kvstore_stalls_total[10m]) > 0",
        *("0s", _WARNING, "Writes at " + _INSTANCE + " took longer than raft.flush.stall.timeout.ms."),
        "The disk stands still now and then; leaders leave the broker each time.",
        "Look at the health of the disk, and at what else writes to it.",
        ("raftka doctor machine",),
    ),
    Alert(
        "RaftkaSlowDisk",
        "raftka_fsync_max_seconds > 0.5 or raftka_kvstore_sync_max_seconds > 0.5",
        *("5m", _WARNING, "An fsync at " + _INSTANCE + " takes {{ $value | humanizeDuration }}."),
        "The disk is slow, shared with other work, or its write cache is off.",
        "Give the broker a disk of its own. `raftka doctor machine` measures an fsync.",
        ("raftka doctor machine",),
    ),
    Alert(
        "RaftkaLoopLag",
        "raftka_loop_lag_max_seconds > 0.15",
        *("5m", _WARNING, "The event loop of " + _INSTANCE + " is {{ $value | humanizeDuration }} late."),
        "The broker or its machine is too busy; above the election timeout leaders are lost.",
        "If `process_cpu_seconds_total` grows by nearly a second per second, the broker has too much to do. Let"
        " producers send larger batches, and other brokers lead (`raftka partition transfer-leadership`)."
        " `raftka broker drain N` lets others lead everything. For good, add a broker and move partitions there. If"
        " `raftka_gc_pause_max_seconds` is as long as the lag, garbage collections stop the broker: fewer partitions"
        " help. Otherwise the machine or its disk holds the broker up: stop what else runs there, and compare"
        " `raftka_fsync_max_seconds`.",
        ("raftka doctor",),
    ),
    Alert(
        "RaftkaRefusedByBound",
        "increase(raftka_bound_refusals_total[5m]) > 0",
        *("0s", _WARNING, _INSTANCE + " has refused requests: {{ $labels.what }} is full."),
        "State, memory or a link has reached its bound.",
        "`GET /v1/bounds` and `raftka doctor` name the cure of this bound.",
        ("raftka doctor",),
    ),
    Alert(
        "RaftkaBoundNearlyReached",
        "raftka_bound_used / raftka_bound_max > 0.9",
        *("10m", _WARNING, "{{ $labels.what }} at " + _INSTANCE + " is {{ $value | humanizePercentage }} full."),
        "State grows, or a link or a disk takes less than it is sent.",
        "`GET /v1/bounds` and `raftka doctor` name the cure of this bound.",
        ("raftka doctor",),
    ),
    Alert(
        "RaftkaElectionStorm",
        "increase(raftka_raft_elections_started_total[10m]) > 3 * raftka_groups + 10",
        *("1m", _WARNING, "Replicas at " + _INSTANCE + " elect leaders again and again."),
        "Heartbeats come late: busy brokers, a bad network, or a disk that hangs.",
        "Look for the alerts on loop lag, disks and links. On a slow network raise raft.election.timeout.ms.",
        ("raftka doctor",),
    ),
    Alert(
        "RaftkaSlowProduce",
        'histogram_quantile(0.99, sum by (le) (rate(raftka_kafka_request_seconds_bucket{api="Produce"}[5m]))) > 1',
        *("5m", _WARNING, "1 % of the Produce requests take longer than {{ $value | humanizeDuration }}."),
        "Followers or disks are slow, or producers send more than the cluster takes.",
        "Compare fsyncs and loop lag of the brokers: the slowest of a majority sets the pace.",
        ("raftka doctor",),
    ),
    Alert(
        "RaftkaGroupLagGrows",
        "max by (group) (raftka_group_lag_records) > 10000"
        " and max by (group) (delta(raftka_group_lag_records[10m])) > 0",
        *("10m", _WARNING, "Group {{ $labels.group }} is {{ $value }} records behind, and falls back further."),
        "Its consumers are too few, too slow, or have stopped.",
        "Look at the members and at the partitions that are far behind. Start more consumers, up to the number of"
        " partitions, or find what each record waits for.",
        ("raftka group list", "raftka group describe GROUP"),
    ),
    Alert(
        "RaftkaGroupLagUnknown",
        "max by (group) (raftka_group_lag_unknown_partitions) > 0",
        *("5m", _WARNING, "The lag of group {{ $labels.group }} is not known for {{ $value }} partition(s)."),
        "The leaders of these partitions do not answer, or there are none.",
        "Start the brokers that hold them: `raftka partition list` shows which partitions have no leader.",
        ("raftka partition list", "raftka dev restart N"),
    ),
    Alert(
        "RaftkaTransactionHangs",
        "raftka_hanging_transactions > 0",
        *("1m", _WARNING, "{{ $value }} transaction(s) hang in partitions that " + _INSTANCE + " leads."),
        "The coordinator of a transaction does not know it, does not reach the partition's leader, or is away: the"
        " partition of `__transaction_state` has no leader. Readers at read_committed wait in front of it.",
        "`raftka doctor` names partition, producer and first offset, and says how to end the transaction.",
        ("raftka doctor",),
    ),
    Alert(
        "RaftkaServerErrors",
        'increase(raftka_kafka_errors_total{code="UNKNOWN_SERVER_ERROR"}[5m]) > 0',
        *("0s", _WARNING, _INSTANCE + " has answered {{ $labels.api }} with UNKNOWN_SERVER_ERROR."),
        "A group's state does not fit, a replica has failed, or there is a bug.",
        "Read the broker's log at that time. If it shows a traceback, file an issue with it.",
        ("raftka dev logs N -n 1000",),
    ),
    Alert(
        "RaftkaConnectionsRefused",
        "increase(raftka_kafka_connections_refused_total[5m]) > 0",
        *("0s", _WARNING, _INSTANCE + " closes connections: there are too many."),
        "More clients than the limit of open files allows, or clients that leak connections.",
        "Raise the limit of open files (LimitNOFILE=, `ulimit -n`) and restart the broker.",
        ("raftka dev restart N",),
    ),
    Alert(
        "RaftkaDescriptorsLow",
        "process_open_fds / process_max_fds > 0.9" + OF_RAFTKA,
        *("5m", _WARNING, _INSTANCE + " uses {{ $value | humanizePercentage }} of its descriptors."),
        "Many connections or many partitions with a small limit of open files.",
        "Raise the limit of open files (LimitNOFILE=, `ulimit -n`) and restart the broker.",
        ("raftka doctor machine", "raftka dev restart N"),
    ),
    Alert(
        "RaftkaDescriptorsRefused",
        "increase(raftka_descriptors_refused_total[5m]) > 0",
        *("0s", _WARNING, "The kernel has refused files to logs of " + _INSTANCE + "."),
        "The limit of open files is too small.",
        "Raise the limit of open files (LimitNOFILE=, `ulimit -n`) and restart the broker.",
        ("raftka doctor machine", "raftka dev restart N"),
    ),
    Alert(
        "RaftkaDamagedLink",
        "increase(raftka_link_damaged_total[10m]) > 0",
        *("0s", _WARNING, "Bytes of broker {{ $labels.peer }} arrive damaged at " + _INSTANCE + "."),
        "Bad memory in one of the two machines, or a device between them that changes bytes.",
        "Test the memory of both machines and the network between them. Damaged bytes were not used. The log says"
        " what was damaged and when.",
        ("raftka dev logs N -n 1000",),
    ),
    Alert(
        "RaftkaDamagedSnapshots",
        "increase(raftka_raft_snapshots_damaged_total[10m]) > 0",
        *("0s", _WARNING, "Snapshots arrive damaged at " + _INSTANCE + "."),
        "Bad memory or a bad disk at the sender or at the receiver; the log names both.",
        "Test memory and disks of both machines. Damaged snapshots were not used.",
        ("raftka dev logs N -n 1000",),
    ),
    Alert(
        "RaftkaSnapshotsRefused",
        "increase(raftka_raft_snapshots_refused_total[10m]) > 0",
        *("0s", _WARNING, "A state at " + _INSTANCE + " is too large for a snapshot: its log grows."),
        "Too many groups, offsets or topics for one snapshot.",
        "Delete groups and topics that nobody uses; `GET /v1/bounds` names the state.",
        ("raftka doctor",),
    ),
    Alert(
        "RaftkaClockOff",
        "abs(raftka_wall_clock_seconds - timestamp(raftka_wall_clock_seconds)) > 5",
        *("2m", _WARNING, "The clock of " + _INSTANCE + " differs from Prometheus' by {{ $value }} s."),
        "The machine's clock is not synchronised. Retention and timestamps follow it.",
        "Run chrony or systemd-timesyncd; in a container or virtual machine, on its host.",
        ("raftka doctor",),
    ),
    Alert(
        "RaftkaRestarts",
        "changes(process_start_time_seconds[30m]) > 2" + OF_RAFTKA,
        *("0s", _WARNING, _INSTANCE + " was started again and again."),
        "It ends by itself, or the kernel kills it for want of memory.",
        "Read the last lines of its log before each start, and the kernel's log.",
        ("raftka dev logs N -n 1000", "raftka doctor"),
    ),
    Alert(
        "RaftkaTelemetryFails",
        "increase(raftka_telemetry_batches_failed_total[10m]) > 0",
        *("10m", _WARNING, _INSTANCE + " cannot write its telemetry."),
        "The topic of the telemetry has no leader, or no majority with space on its disks.",
        "Look for the alerts on partitions and disks; nothing else depends on the telemetry.",
        ("raftka doctor",),
    ),
)
