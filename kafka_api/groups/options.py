"""Bounds and times of consumer groups."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """Milliseconds and bytes, by Kafka's names where there is one.

    Attributes:
        min_session_timeout_ms, max_session_timeout_ms: What members may ask for.
        initial_rebalance_delay_ms: How long the first generation of a group waits for more members.
        max_size: Members of one group.
        offsets_retention_ms: How long offsets are kept that nobody uses.
        retention_check_interval_ms: How often that is looked at.
        offset_metadata_bytes_max: The text that a commit may carry.
        topic_partitions: Partitions of `__consumer_offsets`, when it is created.
        first_leader_wait_ms: How long a search for a coordinator waits for the first leader of its partition.
        write_timeout_ms: How long a commit or an assignment may take to be stored (offsets.commit.timeout.ms).
        member_bytes_max: Memory of all members that this broker keeps groups for; more get GROUP_MAX_SIZE_REACHED.
        lag_interval_ms: From one measurement of all groups' lag to the next; 0: none.
        record_bytes_max: A generation with its metadata and assignments is stored as one record.
    """

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    retention_check_interval_ms: int = 600_000
    offset_metadata_bytes_max: int = 4096
    topic_partitions: int = 8
    first_leader_wait_ms: int = 1_000
    write_timeout_ms: int = 5_000
    lag_interval_ms: int = 10_000
    member_bytes_max: int = 64 * 1024 * 1024
    record_bytes_max: int = 8 * 1024 * 1024
