"""For each alert, series under which it fires and then ends, in the notation of `promtool test rules`.

A sample every 10 s. `BAD` samples come first, then `GOOD`; `1x120` is 121 times 1, `0+5x120` grows by 5.
"""

from typing import NamedTuple

BAD_MINUTES, ALL_MINUTES = 20, 60
_BAD, _GOOD = BAD_MINUTES * 6 - 1, (ALL_MINUTES - BAD_MINUTES) * 6


class Series(NamedTuple):
    """One series of the input."""

    name: str
    values: str


def gauge(name: str, bad: float, good: float) -> Series:
    return Series(name, f"{bad:g}x{_BAD} {good:g}x{_GOOD}")


def rising(name: str, step: float) -> Series:
    """A counter that rises while it is bad, and stands still afterwards."""
    return Series(name, f"0+{step:g}x{_BAD} {step * _BAD:g}x{_GOOD}")


_BROKER = 'instance="a:9644", job="raftka"'
_BOUND = f'what="the tables of raft0", unit="bytes", {_BROKER}'

_GROUP = f'group="billing", {_BROKER}'


def _of(name: str, labels: str = _BROKER) -> str:
    return f"{name}{{{labels}}}"


# Another program with metrics of the same names.
_FOREIGN = 'instance="other:9100", job="node"'
_BUILD = gauge(_of("raftka_build_info", f'python="3.11.2", version="0.1.0", {_BROKER}'), 1, 1)

SERIES: dict[str, list[Series]] = {
    "RaftkaBrokerLost": [gauge(_of("raftka_cluster_brokers"), 3, 3), gauge(_of("raftka_cluster_brokers_alive"), 2, 3)],
    "RaftkaNoController": [Series(_of("raftka_cluster_brokers"), f"stale _x{_BAD - 1} 3x{_GOOD}")],
    "RaftkaOfflinePartitions": [gauge(_of("raftka_cluster_offline_partitions"), 4, 0)],
    "RaftkaUnderMinIsrPartitions": [gauge(_of("raftka_under_min_isr_partitions"), 1, 0)],
    "RaftkaUnderReplicatedPartitions": [gauge(_of("raftka_under_replicated_partitions"), 1, 0)],
    "RaftkaStalledPartitions": [gauge(_of("raftka_stalled_partitions"), 1, 0)],
    "RaftkaPeerDown": [gauge(_of("raftka_peer_up", f'node="2", {_BROKER}'), 0, 1)],
    "RaftkaMoveStuck": [gauge(_of("raftka_move_idle_seconds"), 700, 0)],
    "RaftkaFailedReplicas": [gauge(_of("raftka_failed_replicas"), 1, 0)],
    "RaftkaDiskSpaceLow": [gauge(_of("raftka_disk_spare_bytes"), 1e9, 5e9)],
    "RaftkaDiskFull": [gauge(_of("raftka_disk_spare_bytes"), -4096, 5e9)],
    "RaftkaGroupLagGrows": [Series(_of("raftka_group_lag_records", _GROUP), f"20000+100x{_BAD} 0x{_GOOD}")],
    "RaftkaGroupLagUnknown": [gauge(_of("raftka_group_lag_unknown_partitions", _GROUP), 2, 0)],
    "RaftkaTransactionHangs": [gauge(_of("raftka_hanging_transactions"), 1, 0)],
    "RaftkaDiskHangs": [gauge(_of("raftka_disk_in_doubt"), 1, 0)],
    "RaftkaDiskStalls": [
        rising(_of("raftka_raft_append_stalls_total"), 0),
        rising(_of("raftka_raft_flush_stalls_total"), 1),
        rising(_of("raftka_raft_kvstore_stalls_total"), 0),
    ],
    "RaftkaSlowDisk": [
        gauge(_of("raftka_fsync_max_seconds"), 0.1, 0.1),
        gauge(_of("raftka_kvstore_sync_max_seconds"), 0.8, 0.1),
    ],
    "RaftkaLoopLag": [gauge(_of("raftka_loop_lag_max_seconds"), 0.2, 0.05)],
    "RaftkaRefusedByBound": [rising(_of("raftka_bound_refusals_total", _BOUND), 1)],
    "RaftkaBoundNearlyReached": [
        gauge(_of("raftka_bound_used", _BOUND), 95, 50),
        gauge(_of("raftka_bound_max", _BOUND), 100, 100),
    ],
    "RaftkaElectionStorm": [
        rising(_of("raftka_raft_elections_started_total"), 1),
        gauge(_of("raftka_groups"), 2, 2),
    ],
    "RaftkaSlowProduce": [
        rising(_of("raftka_kafka_request_seconds_bucket", f'api="Produce", le="1.0", {_BROKER}'), 0),
        rising(_of("raftka_kafka_request_seconds_bucket", f'api="Produce", le="2.5", {_BROKER}'), 7),
        rising(_of("raftka_kafka_request_seconds_bucket", f'api="Produce", le="+Inf", {_BROKER}'), 7),
    ],
    "RaftkaServerErrors": [
        rising(_of("raftka_kafka_errors_total", f'api="Produce", code="UNKNOWN_SERVER_ERROR", {_BROKER}'), 1)
    ],
    "RaftkaConnectionsRefused": [rising(_of("raftka_kafka_connections_refused_total"), 3)],
    "RaftkaDescriptorsLow": [
        gauge(_of("process_open_fds"), 950, 100),
        gauge(_of("process_max_fds"), 1000, 1000),
        gauge(_of("process_open_fds", _FOREIGN), 950, 950),
        gauge(_of("process_max_fds", _FOREIGN), 1000, 1000),
        _BUILD,
    ],
    "RaftkaDescriptorsRefused": [rising(_of("raftka_descriptors_refused_total"), 1)],
    "RaftkaDamagedLink": [rising(_of("raftka_link_damaged_total", f'peer="3", {_BROKER}'), 1)],
    "RaftkaDamagedSnapshots": [rising(_of("raftka_raft_snapshots_damaged_total"), 1)],
    "RaftkaSnapshotsRefused": [rising(_of("raftka_raft_snapshots_refused_total"), 1)],
    # Prometheus' clock begins at 0 and moves by 10 s.
    "RaftkaClockOff": [
        Series(_of("raftka_wall_clock_seconds"), f"9+10x{_BAD} {(_BAD + 1) * 10}+10x{_GOOD}"),
    ],
    "RaftkaRestarts": [
        rising(_of("process_start_time_seconds"), 5),
        Series(_of("process_start_time_seconds", _FOREIGN), f"0+5x{_BAD + _GOOD}"),
        _BUILD,
    ],
    "RaftkaTelemetryFails": [rising(_of("raftka_telemetry_batches_failed_total"), 1)],
}
