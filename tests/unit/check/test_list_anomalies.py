"""Each anomaly of transactions over lists in its smallest history, and beside it the closest one that is legal."""

import msgspec
import pytest
from audits import outcome, text_of, written
from list_stories import LIST_PAIRS, A, B, Lists, add, see

from raftka.check.lists.history import read_list_history
from raftka.check.lists.model import check_lists
from raftka.pipeline.audit.cluster import InProcess
from raftka.pipeline.audit.lists import audit_lists
from raftka.pipeline.audit.parts import HistoryFile


@pytest.mark.parametrize("number", range(len(LIST_PAIRS)))
def test_lists_with_the_anomaly_are_told_from_their_closest_legal_neighbour(number):
    names, wrong, right = LIST_PAIRS[number]
    assert wrong.found() == names
    assert right.found() == set()


@pytest.mark.parametrize("number", range(len(LIST_PAIRS)))
def test_an_audit_of_lists_says_the_same(number, tmp_path):
    for story in LIST_PAIRS[number][1:]:
        files = written(tmp_path, [text_of(story.lines[:1]), text_of(story.lines[1:])])
        said = outcome(lambda files=files: check_lists(read_list_history(files)))
        audited = outcome(lambda files=files: audit_lists([HistoryFile(each) for each in files], InProcess()))
        assert audited == said


def test_an_audit_of_lists_gives_the_reason_that_the_checker_gives(tmp_path):
    files = written(tmp_path, [text_of(Lists().txn(add("x", "a")).lines), None])
    said = outcome(lambda: check_lists(read_list_history(files)))
    assert said.startswith("FileNotFoundError")
    assert outcome(lambda: audit_lists([HistoryFile(each) for each in files], InProcess())) == said


def test_cycles_that_kafka_allows_are_counted():
    lists = (
        Lists()
        .txn(add("x", "a", 0), add("y", "d", 1), inv=1, ret=9)
        .txn(add("x", "b", 1), add("y", "c", 0), inv=1, ret=9)
    )
    verdict = lists.final(see("x", A, B), see("y", (0, "c"), (1, "d"))).check()
    assert verdict.is_valid
    assert verdict.allowed == {"write-cycle": 1}
    lists = Lists().txn(add("x", "a", 0), add("y", "d", 1), inv=1, ret=9)
    lists.txn(add("y", "c", 0), see("x", A), inv=1, ret=9)
    verdict = lists.final(see("x", A), see("y", (0, "c"), (1, "d"))).check()
    assert verdict.allowed == {"write-read-cycle": 1}
    lists = Lists().txn(add("x", "a", 0), add("y", "c", 0))
    lists.txn(see("y", (0, "c")), add("x", "b", 1), inv=11, ret=19)
    lists.txn(see("x", A), add("y", "d", 1), inv=11, ret=19)
    verdict = lists.final(see("x", A, B), see("y", (0, "c"), (1, "d"))).check()
    assert verdict.is_valid
    assert verdict.allowed == {"anti-dependency-cycle": 1}


@pytest.mark.parametrize(
    ("lists", "reason"),
    [
        (Lists().txn(see("x")), "nothing was appended"),
        (Lists().txn(add("x", "a")), "no final read of x"),
        (Lists().txn(add("x", "a")).txn(see("x", A), final=True, inv=5, ret=30), "began before this transaction had"),
    ],
)
def test_lists_that_prove_nothing_are_not_judged(lists, reason):
    assert reason in lists.unjudged()


def test_a_verdict_on_lists_is_plain_data():
    verdict = LIST_PAIRS[0][1].check()
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=type(verdict)) == verdict
