"""Bugs planted in the transactions of partitions, and the story that finds each (RFC 0021, sections 3 to 6)."""

import pytest
import test_aborted_transactions as aborted
import test_markers_between_brokers as between_brokers
from test_transactional_partitions import PRODUCER, batch, end, send, with_broker
from wire_client import in_office

from cluster.partition import Partition
from cluster.producer_batch import read_sequence
from cluster.producer_state import ProducerState
from cluster.transactions import marker_writer
from cluster.transactions.admission import Admission
from cluster.transactions.fences import Fences
from cluster.transactions.marker_writer import MarkerResult
from cluster.transactions.markers import DecidedTransaction
from kafka_api.handlers.produce_admission import Guard, RequestAdmission
from kafka_api.protocol.error_codes import ErrorCode
from model.control_batch import NO_PREPARE, MarkerType, Prepare
from model.ids import NO_INDEX, ConsistencyLevel
from storage.log_reader import LogReader

_JUDGE_MARKER, _JUDGE = ProducerState._judge_marker, ProducerState._judge_transaction


def open_of(broker):
    return broker.partition("t").log_state.transactions.open_of(PRODUCER)


# -- stories ------------------------------------------------------------------------------------------------------


def _a_batch_that_an_abort_has_overtaken_opens_nothing(tmp_path, patch):
    """Schedule 4: the coordinator admits it, decides, and its marker is here before the answer is."""

    async def test(broker, client, coordinator):
        fences = broker.partition("t").log_state.fences

        def decide():
            if len(coordinator.asked) == 1:
                fences.fence(PRODUCER, now=0.0)
            else:
                coordinator.answer = Admission.OLD_EPOCH

        coordinator.before_answer = decide
        assert await send(client, batch(0)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert open_of(broker) is None

    with_broker(tmp_path, patch, test)


def _a_late_copy_of_a_marker_does_not_end_the_next_transaction(tmp_path, patch):
    """Schedule 7: both copies are built before one of them has its place."""

    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        partition = broker.partition("t")
        write = partition.write_marker

        def write_late(marker, term, deadline):
            patch.setattr(partition, "write_marker", write)
            write(bytearray(marker), term, deadline)
            guard = partition.log_state.fences.guard(PRODUCER)
            level = ConsistencyLevel.QUORUM_ACK
            partition.produce(bytearray(batch(1)), 1, level, deadline, term, guard=guard, is_durable=True)
            return write(marker, term, deadline)

        patch.setattr(partition, "write_marker", write_late)
        assert await end(broker, MarkerType.COMMIT, 1) is MarkerResult.DONE
        assert open_of(broker) is not None
        assert open_of(broker).first_offset == 2

    with_broker(tmp_path, patch, test)


def _a_marker_that_comes_again_does_not_end_the_next_transaction(tmp_path, patch):
    """Schedule 5: both transactions have the same epoch."""

    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        assert await end(broker, MarkerType.COMMIT, 1) is MarkerResult.DONE
        assert await send(client, batch(1)) == [0]
        assert await end(broker, MarkerType.COMMIT, 1) is MarkerResult.DONE
        assert open_of(broker) is not None

    with_broker(tmp_path, patch, test)


def _a_decision_of_a_later_term_is_no_copy_of_an_earlier_one(tmp_path, patch):
    """The log of the coordinator was lost, and indexes are counted anew."""

    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        assert await end(broker, MarkerType.COMMIT, 9) is MarkerResult.DONE
        assert await send(client, batch(1)) == [0]
        ending = DecidedTransaction(PRODUCER, 0, MarkerType.ABORT, 6, Prepare(4, 2), (("t", 0),))
        (results,) = await broker.node.markers.send([ending], 5.0, in_office)
        assert results[("t", 0)] is MarkerResult.DONE
        assert open_of(broker) is None

    with_broker(tmp_path, patch, test)


def _an_administrator_ends_what_hangs_behind_a_decision(tmp_path, patch):
    async def test(broker, client, coordinator):
        assert await send(client, batch(0)) == [0]
        assert await end(broker, MarkerType.COMMIT, 9) is MarkerResult.DONE
        assert await send(client, batch(1)) == [0]
        ending = DecidedTransaction(PRODUCER, 0, MarkerType.ABORT, 0, NO_PREPARE, (("t", 0),))
        (results,) = await broker.node.markers.send([ending], 5.0, in_office)
        assert results[("t", 0)] is MarkerResult.DONE
        assert open_of(broker) is None

    with_broker(tmp_path, patch, test)


def _nothing_open_is_said_by_a_confirmed_leader(tmp_path, patch):
    between_brokers.test_a_leader_that_no_majority_confirms_does_not_say_that_nothing_is_open(tmp_path)


def _rows_that_retention_takes_leave_with_their_batches(tmp_path, patch):
    aborted.test_what_retention_removes_between_a_read_and_its_rows_is_not_answered(tmp_path, patch, before=True)


# -- bugs ---------------------------------------------------------------------------------------------------------


def _guards_are_ignored(patch):
    patch.setattr(
        *(ProducerState, "_judge_transaction"),
        lambda state, entry, batch: _JUDGE(state, entry._replace(guard=state.fences.guard(batch.producer_id)), batch),
    )


def _guards_are_taken_after_the_question(patch):
    def taken_late(admission, data):
        opening = admission._openings.get(id(data))
        if opening is None:
            return None
        partition, producer_id = opening.partition, read_sequence(data.records).producer_id
        return Guard(partition.leader_epoch, partition.transactional.fences.guard(producer_id))

    patch.setattr(RequestAdmission, "guard", taken_late)


def _first_offsets_are_not_compared(patch):
    def judge(state, marker):
        transaction = state.transactions.open_of(marker.producer_id)
        return _JUDGE_MARKER(
            state, marker if transaction is None else marker._replace(first_offset=transaction.first_offset)
        )

    patch.setattr(ProducerState, "_judge_marker", judge)


def _prepares_are_forgotten(patch):
    patch.setattr(ProducerState, "last_prepare", lambda state, producer_id: (NO_PREPARE, NO_INDEX))
    # What the leader has carried out is known twice.
    patch.setattr(Fences, "was_decided", lambda *_: False)


def _prepares_are_compared_by_their_index(patch):
    patch.setattr(Prepare, "__le__", lambda one, other: one.index <= other.index)


def _administrators_have_a_prepare_like_all_others(patch):
    # No marker has this one, so each is compared with the largest that is known.
    patch.setattr(marker_writer, "NO_PREPARE", Prepare(-1, -1))


def _nobody_confirms_the_leadership(patch):
    async def believe(partition, begun):
        pass

    patch.setattr(Partition, "confirm_read", believe)


def _rows_are_of_another_view(patch):
    async def rows_of_what_is_left(reader, first, begin, end):
        return await reader._aborted.within(max(first, reader._segments[0].base_index), begin, end)

    patch.setattr(LogReader, "_rows_within", rows_of_what_is_left)


BUGS = {
    "guard ignored": (_guards_are_ignored, _a_batch_that_an_abort_has_overtaken_opens_nothing),
    "guard taken after the question": (
        _guards_are_taken_after_the_question,
        _a_batch_that_an_abort_has_overtaken_opens_nothing,
    ),
    "first offset unchecked": (
        _first_offsets_are_not_compared,
        _a_late_copy_of_a_marker_does_not_end_the_next_transaction,
    ),
    "prepare ignored": (_prepares_are_forgotten, _a_marker_that_comes_again_does_not_end_the_next_transaction),
    "prepare compared by index": (
        _prepares_are_compared_by_their_index,
        _a_decision_of_a_later_term_is_no_copy_of_an_earlier_one,
    ),
    "admin marker dropped": (
        _administrators_have_a_prepare_like_all_others,
        _an_administrator_ends_what_hangs_behind_a_decision,
    ),
    "nothing open without barrier": (_nobody_confirms_the_leadership, _nothing_open_is_said_by_a_confirmed_leader),
    "rows of another view": (_rows_are_of_another_view, _rows_that_retention_takes_leave_with_their_batches),
}
# Those of other files are run there.
_OWN_STORIES = [
    _a_batch_that_an_abort_has_overtaken_opens_nothing,
    _a_late_copy_of_a_marker_does_not_end_the_next_transaction,
    _a_marker_that_comes_again_does_not_end_the_next_transaction,
    _a_decision_of_a_later_term_is_no_copy_of_an_earlier_one,
    _an_administrator_ends_what_hangs_behind_a_decision,
]


@pytest.mark.parametrize("story", _OWN_STORIES)
def test_a_partition_keeps_what_it_promises_of_transactions(story, tmp_path, monkeypatch):
    story(tmp_path, monkeypatch)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_in_transactions_is_found(bug, tmp_path, monkeypatch):
    plant, story = BUGS[bug]
    plant(monkeypatch)
    with pytest.raises(AssertionError) as caught:
        story(tmp_path, monkeypatch)
    assert "tests" in caught.traceback[-1].path.parts, "an assertion of the product counts for nothing"
