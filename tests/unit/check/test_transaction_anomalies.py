"""Each anomaly of transactions in its smallest history, and beside it the closest one that is legal."""

import pytest
from audits import BLOCKS, BUNDLES, outcome, same_of_log, text_of
from transaction_stories import COMMITTED, LOG_PAIRS, A, B, C, Told, amid, one, two, worked

from raftka.check.log.builder import LogHistoryBuilder


@pytest.mark.parametrize("number", range(len(LOG_PAIRS)))
def test_the_anomaly_is_found_and_its_closest_legal_neighbour_is_valid(number):
    names, wrong, right = LOG_PAIRS[number]
    assert wrong.found() == names
    assert right.found() == set()


@pytest.mark.parametrize("sizes", [BUNDLES, BLOCKS], ids=["bundles", "blocks"])
@pytest.mark.parametrize("number", range(len(LOG_PAIRS)))
def test_an_audit_says_the_same(number, sizes):
    for story in LOG_PAIRS[number][1:]:
        same_of_log([text_of(story.lines)], sizes)
        half = len(story.lines) // 2
        same_of_log([text_of(story.lines[:half]), text_of(story.lines[half:])], sizes)


def test_a_finding_names_the_records_and_the_end_of_their_transaction():
    [finding] = one().abort("T").read(A).final().check().findings
    [anomaly] = finding.examples
    assert anomaly.text == "'a' at offset 0 was polled at read_committed, but its transaction 'T' was aborted"
    assert [(each["line"], each["f"]) for each in anomaly.operations] == [(2, "send"), (4, "poll"), (3, "txn")]
    assert anomaly.operations[0]["txn"] == anomaly.operations[2]["txn"] == "T"
    assert anomaly.operations[0]["type"] == "ok"
    assert anomaly.operations[1]["iso"] == COMMITTED


def test_a_torn_read_names_what_was_read_and_what_is_missing():
    [torn, _] = sorted(two().commit("T").final(A).check().findings, key=lambda each: each.name)
    assert torn.examples[0].text == (
        "transaction 'T' was read in part: 'a' at offset 0 was polled at read_committed, and 'b' in t-0 is in no final"
        " read"
    )
    [torn] = [
        each
        for each in two().send("c", 2).commit("T").read(A, C).final(A, B, C).check().findings
        if "torn" in each.name
    ]
    assert torn.examples[0].text == (
        "transaction 'T' was read in part: 'a' at offset 0 was polled at read_committed, and 'b' in t-0 was left out"
        " between offsets 0 and 2"
    )


def test_a_transaction_whose_end_is_unknown_is_one_of_both_for_all_readers():
    [finding, _] = amid("unsure").read(A, B, C).read(A, C, proc=7).final(A, B, C).check().findings[::-1]
    assert finding.examples[0].text == (
        "transaction 'T' was read by one process and not by another: 'b' at offset 1 was polled at read_committed, and"
        " 'b' in t-0 was left out between offsets 0 and 2"
    )


def test_inputs_that_were_doubled_or_lost_are_named_with_their_outputs():
    [doubled] = worked(0, 1, 1).check().findings
    assert doubled.examples[0].text == (
        "input 1 of in-0 was worked off twice: 'o1' in t-0 of transaction 'T1' and 'o2' in t-0 of transaction 'T2' are"
        " both visible"
    )
    story = Told().send("x", 0, tp="in-0").begin("T").send("o", 0, txn="T", of=["in-0", 0], group="g").abort("T")
    story.begin("U").commit("U", offsets={"in-0": 1}, group="g").final().final((0, "x"), tp="in-0")
    [lost] = story.check().findings
    assert lost.examples[0].text == (
        "input 0 of in-0, 'x', has no visible output by group 'g', and transaction 'U' has committed offset 1"
    )


def late(version: int | None, attempts: int, epoch: int = 7) -> Told:
    story = Told().begin("S", id="p", epoch=7).commit("S", id="p", epoch=7, version=version, attempts=attempts)
    return story.begin("T", id="p", epoch=epoch).send("a", 0, txn="T").read(A).abort("T", id="p", epoch=epoch).final(A)


def test_a_late_end_of_the_producer_is_counted_and_excuses_nothing():
    verdict = late(4, 2).check()
    assert [each.name for each in verdict.findings] == ["aborted-read"]
    assert verdict.measures["late-ends"] == 1
    assert "the commit of transaction 'S' more than once (EndTxn 4)" in verdict.findings[0].examples[0].text
    for other in (late(5, 2), late(4, 1), late(None, 2), late(4, 2, epoch=8)):
        assert {each.name for each in other.check().findings} == {"aborted-read"}
        assert other.check().measures["late-ends"] == 0


def test_measures_say_how_transactions_ended():
    measures = amid("unsure").final(A, C).check().measures
    assert (measures["transactions"], measures["committed"], measures["unsure"]) == (1, 0, 1)
    measures = amid("unsure").final(A, B, C).check().measures
    assert (measures["transactions"], measures["committed"], measures["unsure"]) == (1, 1, 0)
    assert "transactions" not in Told().send("a", 0).poll(A, final=True).check().measures


@pytest.mark.parametrize(
    ("story", "reason"),
    [
        (one().commit("T").abort("T").final(), "line 3 and line 4: transaction 'T' is committed and aborted"),
        (one().add("txn", type="ok", proc=1, ops=[]).final(), "line 3: a `txn` of a log has `txn` and `do`"),
        (one().commit("T", ret=None).final(A), "line 3: the operation is ok and has no `ret`"),
        (one().commit("T", inv=9, ret=8).final(A), "line 3: the operation ends before it began"),
        (
            one().commit("T", proc=1, ret=10**12).read(A).final(A),
            "line 3 and line 4: process 1 begins the second before the first has ended",
        ),
    ],
)
def test_a_history_that_contradicts_itself_is_not_judged(story, reason):
    assert same_of_log([text_of(story.lines)], BUNDLES).startswith("HistoryError")
    builder = LogHistoryBuilder()

    def build():
        builder.add(1, story.operations())
        return builder.build().partitions

    assert reason in outcome(build)
