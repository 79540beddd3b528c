"""The story's comparison of promises with the log: it must see what is broken."""

from raftka.story_clients import Acked, Ledger, judge


def ledger(level: str, *acked: tuple[str, int], unanswered: tuple[str, ...] = ()) -> Ledger:
    return Ledger(level, {key for key, _ in acked} | set(unanswered), [Acked(key, at, 0.0, 0.1) for key, at in acked])


def test_a_log_that_has_all_that_was_promised_is_fine() -> None:
    verdict = judge([ledger("all", ("a", 0)), ledger("1", ("b", 1))], {0: "a", 1: "b"}, {0: "a"})
    assert verdict.broken_promises == []
    assert verdict.acked == {"all": 1, "1": 1}
    assert verdict.missing == {}


def test_a_missing_record_of_acks_all_is_a_broken_promise() -> None:
    verdict = judge([ledger("all", ("a", 0), ("b", 1))], {0: "a"}, {})
    assert verdict.missing == {"all": ["b"]}
    assert verdict.broken_promises == ["1 x acknowledged at acks=all and gone: b"]


def test_a_missing_record_of_acks_1_is_counted_and_no_broken_promise() -> None:
    verdict = judge([ledger("1", ("a", 0), ("b", 1))], {0: "a"}, {})
    assert verdict.missing == {"1": ["b"]}
    assert verdict.broken_promises == []


def test_a_record_of_acks_all_at_another_offset_is_a_broken_promise() -> None:
    verdict = judge([ledger("all", ("a", 0), ("b", 1))], {0: "b", 1: "a"}, {})
    assert verdict.misplaced == ["a", "b"]
    assert verdict.broken_promises


def test_a_record_that_nobody_sent_is_a_phantom() -> None:
    verdict = judge([ledger("all", ("a", 0))], {0: "a", 1: "ghost"}, {})
    assert verdict.phantoms == ["ghost"]
    assert verdict.broken_promises


def test_a_record_without_an_answer_may_be_in_the_log_or_not() -> None:
    sent = ledger("all", unanswered=("a", "b"))
    assert judge([sent], {0: "a"}, {}).broken_promises == []


def test_what_a_reader_saw_must_stay_where_it_was() -> None:
    sent = ledger("1", ("a", 0), ("b", 1), ("c", 2))
    verdict = judge([sent], {0: "a", 1: "c"}, {0: "a", 1: "b", 2: "c"})
    assert verdict.vanished == ["b", "c"]
    assert verdict.broken_promises


def test_a_retry_whose_first_try_had_worked_is_a_repetition() -> None:
    verdict = judge([ledger("all", ("a", 1))], {0: "a", 1: "a"}, {})
    assert verdict.repeated == 1
    assert verdict.broken_promises == []
