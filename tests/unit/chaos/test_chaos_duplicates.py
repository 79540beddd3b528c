"""What is said of records that are in the log twice: whether brokers or the client wrote them again."""

import pytest

from raftka.chaos.duplicates import tell_duplicates
from raftka.check.verdict import Anomaly, Finding, Verdict
from raftka.kafka.wire.record_batches import Producer, build_batch, read_records

BROKER, CLIENT, UNKNOWN = "a broker took a retry for a new batch", "the client sent it anew", "not both are known"


def duplicate(*offsets: int) -> Verdict:
    lines = [{"f": "send", "off": offsets[0]}, *({"f": "poll", "recs": [[offset, "x"]]} for offset in offsets)]
    return Verdict("log", 3, [Finding("duplicate", 1, [Anomaly("t-0", "twice", lines)])], {}, {})


@pytest.mark.parametrize(
    ("second", "words"), [(Producer(7, 0, 55), BROKER), (Producer(7, 1, 0), CLIENT), (None, UNKNOWN)]
)
def test_a_duplicate_is_told_by_the_numbers_of_both_copies(second: Producer | None, words: str):
    producers = {("t-0", 1956): Producer(7, 0, 55)} | ({} if second is None else {("t-0", 2344): second})
    (line,) = tell_duplicates(duplicate(1956, 2344), producers)
    assert line.startswith("t-0: offset 1956 by producer 7, epoch 0, sequence 55, offset 2344 by ")
    assert words in line


def test_other_findings_are_not_told():
    verdict = Verdict("log", 3, [Finding("lost-write", 1, [Anomaly("t-0", "lost", [])])], {}, {})
    assert tell_duplicates(verdict, {}) == []


def test_a_record_that_is_read_names_its_idempotent_producer():
    ((idempotent,), (other,)) = (read_records(build_batch(b"x", 1, *by)) for by in ([Producer(7, 2, 9)], []))
    assert (idempotent.producer, other.producer) == (Producer(7, 2, 9), None)
