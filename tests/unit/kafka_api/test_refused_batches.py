"""Which answers of a connection are replaced by an earlier one's: a table of what was answered, in order."""

import pytest

from cluster.producer_batch import BatchSequence
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.refused_batches import RefusedBatches

OK, DUPLICATE = ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER
GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
NOT_LEADER, FULL, TOO_LARGE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
LAST = 2**31 - 1

# Per step: the first sequence number, what the log says, what is answered.
STEPS = {
    "behind a refused one": [(10, NOT_LEADER, NOT_LEADER), (11, GAP, NOT_LEADER), (12, GAP, NOT_LEADER)],
    "by the code of the first": [(10, FULL, FULL), (11, NOT_LEADER, NOT_LEADER), (12, GAP, FULL)],
    "before it": [(10, NOT_LEADER, NOT_LEADER), (9, GAP, GAP), (10, GAP, GAP)],
    "twice without the first": [(10, NOT_LEADER, NOT_LEADER), (11, GAP, NOT_LEADER), (11, GAP, GAP)],
    "again after the first was refused again": [
        *[(10, NOT_LEADER, NOT_LEADER), (11, GAP, NOT_LEADER)],
        *[(10, NOT_LEADER, NOT_LEADER), (11, GAP, NOT_LEADER)],
    ],
    "after the first was taken": [(10, NOT_LEADER, NOT_LEADER), (10, OK, OK), (12, GAP, GAP)],
    "after a later one was taken": [(10, NOT_LEADER, NOT_LEADER), (30, DUPLICATE, DUPLICATE), (32, GAP, GAP)],
    "after the late answer to one before": [(10, NOT_LEADER, NOT_LEADER), (9, OK, OK), (11, GAP, NOT_LEADER)],
    "behind one that is refused for good": [(10, TOO_LARGE, TOO_LARGE), (11, GAP, GAP)],
    "behind one of an unknown topic": [(10, UNKNOWN, UNKNOWN), (11, GAP, UNKNOWN)],
    "across the wrap": [(LAST, NOT_LEADER, NOT_LEADER), (0, GAP, NOT_LEADER), (LAST - 1, GAP, GAP)],
    "no more than are on their way": [
        (0, NOT_LEADER, NOT_LEADER),
        *[(number, GAP, NOT_LEADER) for number in range(1, 17)],
        (17, GAP, GAP),
    ],
}


def sequence(first, epoch=0, producer=7):
    return BatchSequence(producer, epoch, first, first)


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
def test_a_gap_is_answered(steps):
    refused = RefusedBatches()
    given = [(first, code, refused.answered(("t", "", 0), sequence(first), code)) for first, code, _ in steps]
    assert given == steps


def test_partitions_producers_and_epochs_are_told_apart():
    refused = RefusedBatches()
    refused.answered(("t", "", 0), sequence(0), NOT_LEADER)
    assert refused.answered(("t", "", 1), sequence(1), GAP) is GAP
    assert refused.answered(("t", "", 0), sequence(1, producer=8), GAP) is GAP
    assert refused.answered(("t", "", 0), sequence(1, epoch=1), GAP) is GAP
    assert refused.answered(("t", "", 0), sequence(1), GAP) is NOT_LEADER


@pytest.mark.parametrize(("length", "answer"), [(249, UNKNOWN), (250, GAP)])
def test_a_name_that_no_topic_can_have_is_not_kept(length, answer):
    refused = RefusedBatches()
    name = ("t" * length, "", 0)
    refused.answered(name, sequence(0), UNKNOWN)
    assert refused.answered(name, sequence(1), GAP) is answer


def test_of_too_many_partitions_the_oldest_is_forgotten():
    refused = RefusedBatches()
    for number in range(129):
        refused.answered(("t", "", number), sequence(0), NOT_LEADER)
    assert refused.answered(("t", "", 0), sequence(1), GAP) is GAP
    assert refused.answered(("t", "", 1), sequence(1), GAP) is NOT_LEADER


def test_a_gap_at_a_leader_that_has_nothing_of_the_producer_is_told_the_second_time():
    refused = RefusedBatches()
    name = ("t", "", 0)

    def answered(first):
        return refused.answered(name, sequence(first), GAP, is_new_here=True)

    assert [answered(first) for first in (10, 11, 10, 11)] == [NOT_LEADER, NOT_LEADER, GAP, GAP]
    # An earlier one opens no further gap: what is missing would have come with it.
    assert answered(9) is GAP
    assert refused.answered(name, sequence(8), OK) is OK
    assert refused.answered(name, sequence(12), OK) is OK
    assert refused.answered(name, sequence(14), GAP) is GAP
