"""Bugs in consumer groups (RFC 0009); every fourth seed has one."""

import pytest

import cluster.groups.offsets_log_state
import cluster.groups.records
import kafka_api.groups.coordinated_partition
import kafka_api.handlers.offset_commit
from cluster.groups.group_table import record_size
from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.noted_sizes import NotedSizes
from cluster.state_bounds import StateFullError
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.groups.group import Group
from kafka_api.groups.held_group import HeldGroup
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import ConsistencyLevel
from raft.replicate_item import NewEntry
from storage.entry import EntryKind


def commits_are_answered_when_the_leader_has_written(patch: pytest.MonkeyPatch) -> None:
    """A commit is answered before a majority has it."""
    patch.setattr(kafka_api.groups.coordinated_partition, "OFFSETS_LEVEL", ConsistencyLevel.LEADER_ACK)


def generations_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """Members of older generations go on as if they belonged to this one."""

    def find(group: Group, identity):
        return group.members.find(identity.member_id, identity.instance_id)

    patch.setattr(Group, "_find", find)


def assignments_are_answered_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    """Members get their part of a generation that the next coordinator has never heard of."""
    store = HeldGroup._store

    def stored(held: HeldGroup, effect) -> None:
        then = held.group._stores[effect.number]
        held.group._stores[effect.number] = lambda now, error: None
        then(0.0, ErrorCode.NONE)
        store(held, effect)

    patch.setattr(HeldGroup, "_store", stored)


def deleted_groups_keep_their_offsets(patch: pytest.MonkeyPatch) -> None:
    """The deletion of a group is answered with success, and no record says that it is deleted."""

    async def write_deletion(partition: CoordinatedPartition, held: HeldGroup) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(CoordinatedPartition, "_write_deletion", write_deletion)


def committed_offsets_are_one_too_far(patch: pytest.MonkeyPatch) -> None:
    """The coordinator stores the offset behind the one that a member commits."""
    new = kafka_api.handlers.offset_commit.CommittedOffset

    def one_further(offset, *others):
        return new(offset + 1, *others)

    patch.setattr(kafka_api.handlers.offset_commit, "CommittedOffset", one_further)


def tables_are_counted_in_characters(patch: pytest.MonkeyPatch) -> None:
    """The bound of a group table is compared with how many characters its texts have."""
    patch.setattr(cluster.groups.records, "_string_size", lambda text: 2 + len(text or ""))


def commits_under_way_take_no_room(patch: pytest.MonkeyPatch) -> None:
    """A commit is judged by what the group table has, without what lies in the log and is not committed."""

    def admit(state: OffsetsLogState, entry: NewEntry) -> StateFullError | None:
        if entry.kind is not EntryKind.DATA:
            return None
        records = state.decode(entry.payload)
        size, _ = NotedSizes(state.table, record_size).with_records(records)
        return state._bytes_bound.judge(state.table.size_bytes, size)

    patch.setattr(OffsetsLogState, "admit", admit)


def a_full_group_table_is_a_success(patch: pytest.MonkeyPatch) -> None:
    """A commit that the table has no room for is appended all the same."""
    patch.setattr(OffsetsLogState, "admit", lambda state, entry: None)
