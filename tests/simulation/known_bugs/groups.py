"""Bugs in consumer groups (RFC 0009); every fourth seed has one."""

import pytest

import kafka_api.groups.coordinated_partition
import kafka_api.handlers.offset_commit
from kafka_api.groups.group import Group
from kafka_api.groups.held_group import HeldGroup
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import ConsistencyLevel


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


def committed_offsets_are_one_too_far(patch: pytest.MonkeyPatch) -> None:
    """The coordinator stores the offset behind the one that a member commits."""
    new = kafka_api.handlers.offset_commit.CommittedOffset

    def one_further(offset, *others):
        return new(offset + 1, *others)

    patch.setattr(kafka_api.handlers.offset_commit, "CommittedOffset", one_further)
