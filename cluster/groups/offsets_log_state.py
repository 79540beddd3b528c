"""The group table behind the log of one partition of `__consumer_offsets`; `coordinator_log_state` says how."""

from cluster.coordinator_log_state import CoordinatorLogState, Place
from cluster.groups.group_table import GroupTable, record_size
from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.groups.records import Key, Value, decode_record
from cluster.noted_sizes import NotedSizes
from cluster.state_bounds import StateBound, StateOptions
from model.key_value_batch import KeyValue

_CURE = "delete groups that nobody uses, or lower offsets.retention.minutes"


class OffsetsLogState(CoordinatorLogState[Key, Value, GroupTable]):
    """Its table has offsets and groups.

    Args:
        name: Of the partition, for operators.
        options: Bounds of the table.
    """

    topic = OFFSETS_TOPIC

    def __init__(self, name: str = OFFSETS_TOPIC, options: StateOptions | None = None) -> None:
        options, what = options or StateOptions(), f"the group table of {name}"
        super().__init__(
            GroupTable,
            lambda table: NotedSizes(table, record_size),
            StateBound(what, "bytes", options.groups_bytes_max, _CURE),
            StateBound(what, "records", options.group_records_max, _CURE),
        )

    def decode_record(self, record: KeyValue) -> tuple[Key, Value | None]:
        """See `records`."""
        return decode_record(record)

    def apply(self, key: Key, value: Value | None, place: Place) -> None:
        """Where the record lies is nothing to the table."""
        self.table.apply(key, value)
