"""Bugs in what makes a producer's retry harmless (RFC 0007, KIP-98)."""

import pytest

from cluster.producer_ids import ProducerIds
from cluster.producer_state import ProducerState
from model.ids import Index, Offset
from raft.replicate_batcher import ReplicateBatcher
from raft.replicate_item import ReplicateResult


def retries_are_appended_again(patch: pytest.MonkeyPatch) -> None:
    """Nobody remembers what a producer has written: each retry is a new batch."""
    patch.setattr(ProducerState, "admit", lambda state, entry: None)


def duplicates_are_forgotten_with_the_leader(patch: pytest.MonkeyPatch) -> None:
    """A new leader does not know what producers have written under the one before."""
    judge = ReplicateBatcher._judge

    def judge_own_term(batcher: ReplicateBatcher, item):
        refusal = judge(batcher, item)
        if item.result is not None and item.result.term != batcher._context.state.term:
            item.result = None
        return refusal

    patch.setattr(ReplicateBatcher, "_judge", judge_own_term)


def duplicate_is_answered_with_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """A duplicate is answered with the offset at which it would have been appended."""
    judge = ReplicateBatcher._judge

    def judge_at_the_end(batcher: ReplicateBatcher, item):
        refusal = judge(batcher, item)
        if item.result is not None:
            item.result = item.result._replace(base_offset=batcher._context.log.next_offset)
        return refusal

    patch.setattr(ReplicateBatcher, "_judge", judge_at_the_end)


def duplicate_is_answered_at_once(patch: pytest.MonkeyPatch) -> None:
    """A duplicate of a batch that is not committed yet is answered as if it were."""
    judge = ReplicateBatcher._judge

    def judge_and_answer(batcher: ReplicateBatcher, item):
        refusal = judge(batcher, item)
        if item.result is not None:
            item.succeed()
        return refusal

    patch.setattr(ReplicateBatcher, "_judge", judge_and_answer)


def out_of_order_is_taken_for_a_duplicate(patch: pytest.MonkeyPatch) -> None:
    """A batch whose sequence number does not fit is answered as the last one that did."""
    refuse = ProducerState._refuse_out_of_order

    def answer(state: ProducerState, batch, last):
        producer = state._table.get(batch.producer_id)
        if producer is None:
            return refuse(state, batch, last)
        newest = producer.batches[-1]
        index = Index(newest.log_index)
        return ReplicateResult(index, index, Offset(newest.base_offset), newest.term, newest.timestamp)

    patch.setattr(ProducerState, "_refuse_out_of_order", answer)


def every_broker_hands_out_the_same_producer_ids(patch: pytest.MonkeyPatch) -> None:
    """A broker begins its block of producer ids at 0, whatever raft0 has given it."""
    take_block = ProducerIds._allocate_block

    async def take(ids: ProducerIds, timeout: float) -> None:
        await take_block(ids, timeout)
        ids._end_id -= ids._next_id
        ids._next_id = 0

    patch.setattr(ProducerIds, "_allocate_block", take)


def gaps_in_a_producers_numbers_are_taken(patch: pytest.MonkeyPatch) -> None:
    """A batch is appended although the one before it is missing: its retry comes too late."""
    patch.setattr(ProducerState, "_refuse_out_of_order", lambda state, batch, last: None)
