"""Bugs where producers are answered (Kafka's Produce)."""

import asyncio

import pytest

import kafka_api.error_mapping
import kafka_api.handlers.produce
from kafka_api.handlers.produce import _PendingAnswer
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import ConsistencyLevel, Offset
from model.record_batch import stamp
from raft import errors
from raft.replicate_batcher import ReplicateBatcher
from raft.replicate_item import ReplicateItem, ReplicateStages
from storage.entry import Entry, EntryKind


def acks_all_is_taken_for_acks_1(patch: pytest.MonkeyPatch) -> None:
    """A producer that asks for acks=all is answered when the leader has written."""
    append = kafka_api.handlers.produce._append

    def append_weakly(partition, data, version, level, deadline, now_ms, **how):
        weaker = ConsistencyLevel.LEADER_ACK if level is ConsistencyLevel.QUORUM_ACK else level
        return append(partition, data, version, weaker, deadline, now_ms, **how)

    patch.setattr(kafka_api.handlers.produce, "_append", append_weakly)


def timed_out_write_is_a_success(patch: pytest.MonkeyPatch) -> None:
    """A write whose time is over is answered as if it had reached its level."""
    fail = ReplicateItem.fail

    def succeed_or_fail(item: ReplicateItem, error) -> None:
        if isinstance(error, errors.ReplicateTimedOutError) and item.result is not None:
            item.succeed()
        else:
            fail(item, error)

    patch.setattr(ReplicateItem, "fail", succeed_or_fail)


def lost_leadership_is_a_definite_failure(patch: pytest.MonkeyPatch) -> None:
    """A write that may still be committed is answered with an error that says that it is not in the log."""
    codes = kafka_api.error_mapping._CODES
    patch.setitem(codes, errors.LeadershipLostError, ErrorCode.NOT_ENOUGH_REPLICAS)
    patch.setitem(codes, errors.ReplicateTimedOutError, ErrorCode.NOT_ENOUGH_REPLICAS)


def answer_names_the_offset_after_the_batch(patch: pytest.MonkeyPatch) -> None:
    """Produce answers with the offset behind the batch, not with that of its first record."""
    add = _PendingAnswer.add

    def add_shifted(pending: _PendingAnswer, results, index, partition, stages, *rest) -> None:
        shifted = asyncio.get_running_loop().create_future()

        def take(replicated) -> None:
            if replicated.exception() is not None:
                shifted.set_exception(replicated.exception())
            else:
                placed = replicated.result()
                shifted.set_result(placed._replace(base_offset=Offset(placed.base_offset + 1)))

        stages.replicated.add_done_callback(take)
        add(pending, results, index, partition, ReplicateStages(stages.enqueued, shifted), *rest)

    patch.setattr(_PendingAnswer, "add", add_shifted)


def offsets_are_given_away_twice(patch: pytest.MonkeyPatch) -> None:
    """All batches of one round begin at the same offset."""
    whole_place = ReplicateBatcher._place

    def place(batcher: ReplicateBatcher, items, term):
        placed = whole_place(batcher, items, term)
        for at, entry in enumerate(placed.entries):
            if entry.kind is EntryKind.DATA:
                offset = placed.entries[0].base_offset
                stamp(entry.payload, offset, term)
                placed.entries[at] = Entry(entry.index, term, entry.kind, offset, entry.record_count, entry.payload)
        return placed

    patch.setattr(ReplicateBatcher, "_place", place)


def batches_go_to_the_neighbour(patch: pytest.MonkeyPatch) -> None:
    """A batch is appended to the next partition of its topic where this broker leads that one as well."""
    find_changeable = kafka_api.handlers.produce.find_changeable

    def find(context, topic, number):
        neighbour = find_changeable(context, topic, (number + 1) % len(topic.replicas))
        return find_changeable(context, topic, number) if isinstance(neighbour, ErrorCode) else neighbour

    patch.setattr(kafka_api.handlers.produce, "find_changeable", find)


def partitions_of_a_request_share_one_answer(patch: pytest.MonkeyPatch) -> None:
    """Every partition of a request is answered as its first one was."""
    begin, add = _PendingAnswer.add_topic, _PendingAnswer.add
    firsts: dict[int, ReplicateStages] = {}

    def begin_anew(answer: _PendingAnswer, name: str, topic_id: str):
        results = begin(answer, name, topic_id)
        firsts.pop(id(results), None)
        return results

    def add_first(answer: _PendingAnswer, results, index, partition, stages, *rest) -> None:
        add(answer, results, index, partition, firsts.setdefault(id(results), stages), *rest)

    patch.setattr(_PendingAnswer, "add_topic", begin_anew)
    patch.setattr(_PendingAnswer, "add", add_first)
