"""Each anomaly in its smallest history, and beside it the closest one that is legal."""

import pytest
from stories import MS, Story

from raftka.check.explain import EXPLANATIONS
from raftka.check.levels import Level

A, B, C = (0, "a"), (1, "b"), (2, "c")
LEADER, CACHING, QUORUM = Level.LEADER_ACK, Level.WRITE_CACHING, Level.QUORUM_ACK


def abc(**fields) -> Story:
    return Story().send("a", 0, **fields).send("b", 1, **fields).send("c", 2, **fields)


# (anomaly, history that shows it, the closest legal one)
PAIRS = [
    ("phantom", Story().send("a", 0).final(A, B), Story().send("a", 0).send("b", 1).final(A, B)),
    (
        "phantom",
        Story().send("a", 0, tp="t-1").final(A).final(A, tp="t-1"),
        Story().send("a", 0).final(A).final(tp="t-1"),
    ),
    ("aborted-read", Story().send("a", type="fail").final(A), Story().send("a", type="info").final(A)),
    (
        "future-read",
        Story().poll(A).send("a", 0).final(A),
        Story()
        .poll(A, inv=1 * MS, ret=9 * MS)
        .send("a", 0, inv=2 * MS, ret=10 * MS)
        .final(A, inv=11 * MS, ret=12 * MS),
    ),
    (
        "inconsistent-offsets",
        Story().send("a", type="info").send("b", type="info").poll((0, "a")).final((0, "b")),
        Story().send("a", type="info").send("b", type="info").poll((0, "a")).final((0, "a"), (1, "b")),
    ),
    (
        "inconsistent-offsets",
        Story().send("b", type="info").send("a", 0).final((0, "b"), (1, "a")),
        Story().send("b", type="info").send("a", 1).final((0, "b"), (1, "a")),
    ),
    (
        "inconsistent-acks",
        Story().send("a", 0, acks="1", epoch=3).send("b", 0, acks="1", epoch=3).final((0, "b")),
        Story().send("a", 0, acks="1", epoch=3).send("b", 0, acks="1", epoch=4).final((0, "b")),
    ),
    (
        "duplicate",
        Story().send("a", 0, idem=True).final((0, "a"), (1, "a")),
        Story().send("a", 0, idem=False).final((0, "a"), (1, "a")),
    ),
    (
        "lost-write",
        Story().send("a", 0).send("b", 1).final(B),
        Story().send("a", 0).send("b", 1).add("trim", tp="t-0", off=1).final(B),
    ),
    ("lost-write", Story().send("a", 0).send("b", 1).final(B), Story().send("a", type="info").send("b", 1).final(B)),
    ("unseen", Story().send("a", 0).send("b", 1).final(A), Story().send("a", 0).send("b", type="info").final(A)),
    ("unseen", Story().send("a", 0).send("b").final(A), Story().send("a", 0).send("b", acks="0").final(A)),
    ("unseen", Story().send("a", 0).send("b", 1).final(A), Story().send("a", 0).send("b", 1, acks="1").final(A)),
    ("lost-read", Story().send("a", 0).poll(A).final(), Story().send("a", 0).poll(A).final(A)),
    (
        "lost-read",
        Story().send("a", type="info").poll(A).final(),
        Story().send("a", type="info").poll(A, type="info").final(),
    ),
    (
        "poll-skip",
        abc().poll(A).poll(C).final(A, B, C),
        abc().poll(A).add("seek", proc=1, tp="t-0", off=2).poll(C).final(A, B, C),
    ),
    (
        "poll-skip",
        Story()
        .add("assign", proc=1, tps=["t-0"])
        .send("a", 0)
        .send("b", 1)
        .send("c", 2)
        .poll(A)
        .poll(C)
        .final(A, B, C),
        Story()
        .add("subscribe", proc=1, tps=["t-0"])
        .send("a", 0)
        .send("b", 1)
        .send("c", 2)
        .poll(A)
        .poll(C)
        .final(A, B, C),
    ),
    (
        "poll-skip",
        abc().poll(A).add("assign", proc=1, tps=["t-0"]).poll(C).final(A, B, C),
        abc().poll(A).add("assign", proc=1, tps=[]).add("assign", proc=1, tps=["t-0"]).poll(C).final(A, B, C),
    ),
    ("poll-skip", abc().poll(A).poll(C).final(A, B, C), abc().poll(A).poll(C, proc=7).final(A, B, C)),
    ("poll-skip", abc().poll(A).poll(C).final(A, B, C), Story().send("a", 0).send("c", 2).poll(A).poll(C).final(A, C)),
    ("nonmonotonic-poll", abc().poll(A, B).poll(B, C).final(A, B, C), abc().poll(A, B).poll(C).final(A, B, C)),
    (
        "nonmonotonic-poll",
        abc().poll(A, B).poll(A).final(A, B, C),
        abc().poll(A, B).poll(A, type="info").final(A, B, C),
    ),
    ("int-poll-skip", abc().poll(A, C).final(A, B, C), abc().poll(A, B, C).final(A, B, C)),
    ("int-nonmonotonic-poll", abc().poll(B, A).final(A, B, C), abc().poll(A, B).final(A, B, C)),
    (
        "nonmonotonic-hw",
        abc().poll(A, hw=3).poll(B, hw=2).final(A, B, C),
        abc().poll(A, hw=2).poll(B, hw=2).final(A, B, C),
    ),
    (
        "nonmonotonic-hw",
        abc().poll(A, hw=3).add("seek", proc=1, tp="t-0").poll(A, hw=2).final(A, B, C),
        abc().poll(A, hw=3).poll(B, hw=2, proc=9).final(A, B, C),
    ),
    (
        "G0-realtime",
        Story().send("b", 1).send("a", 0).final(A, B),
        Story()
        .send("b", 1, inv=1 * MS, ret=4 * MS)
        .send("a", 0, inv=2 * MS, ret=3 * MS)
        .final(A, B, inv=9 * MS, ret=9 * MS),
    ),
    (
        "G0-realtime",
        Story().send("b", 1).send("a", type="info").final(A, B),
        Story().send("b", 1, type="info").send("a", 0).final(A, B),
    ),
    (
        "G0-realtime",
        Story().send("b", 1, acks="1").send("a", 0, acks="1").final(A, B),
        Story().send("b", 1, acks="1", epoch=1).send("a", 0, acks="1", epoch=2).final(A),
    ),
    (
        "G0-realtime",
        Story().send("b", acks="1", off=1).send("a", 0).final(A, B),
        Story().send("b", acks="0").send("a", 0).final(A, B),
    ),
    (
        "G1c-realtime",
        Story().send("b", type="info", off=None).poll(B).send("a", 0).final(A, B),
        Story()
        .send("b", type="info")
        .poll(B, inv=3 * MS, ret=6 * MS)
        .send("a", 0, inv=5 * MS, ret=7 * MS)
        .final(A, B, inv=8 * MS, ret=9 * MS),
    ),
    (
        "nonmonotonic-send",
        Story().send("b", type="info", proc=5, idem=True).send("a", 0, proc=5).final(A, B),
        Story().send("b", type="info", proc=5).send("a", 0, proc=5).final(A, B),
    ),
    (
        "nonmonotonic-send",
        Story().send("b", 1, proc=5).send("a", 0, proc=5).final(A, B),
        Story().send("a", 0, proc=5).send("b", 1, proc=5).final(A, B),
    ),
    ("stale-latest", Story().send("a", 0).latest(0).final(A), Story().send("a", 0).latest(1).final(A)),
    ("stale-latest", Story().send("a", 0).latest(0).final(A), Story().send("a", 0, acks="1").latest(0).final(A)),
    ("future-latest", Story().latest(1).send("a", 0).final(A), Story().latest(0).send("a", 0).final(A)),
    (
        "nonmonotonic-latest",
        Story().send("a", 0, acks="1").latest(1).latest(0, proc=4).final(A),
        Story()
        .send("a", 0, acks="1")
        .latest(1, inv=3 * MS, ret=5 * MS)
        .latest(0, proc=4, inv=4 * MS, ret=6 * MS)
        .final(A, inv=7 * MS, ret=8 * MS),
    ),
]


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_the_anomaly_is_found_and_its_closest_legal_neighbour_is_valid(number):
    name, wrong, right = PAIRS[number]
    assert name in wrong.found()
    assert right.found() == set()


def test_every_anomaly_of_the_log_has_a_pair_and_an_explanation():
    assert {name for name, _, _ in PAIRS} | {"not-linearizable"} == EXPLANATIONS.keys()


def test_a_finding_shows_the_operations_that_prove_it():
    story = Story().send("b", 1).send("a", 0).final(A, B)
    [finding] = story.check().findings
    [anomaly] = finding.examples
    assert (finding.name, finding.cases, anomaly.subject) == ("G0-realtime", 1, "t-0")
    assert anomaly.text == "'a' was sent after 'b' had been acknowledged, and lies before it: 0 < 1"
    assert [(each["line"], each["val"]) for each in anomaly.operations] == [(1, "b"), (2, "a")]


def test_all_cases_are_counted_and_the_first_are_shown():
    story = Story()
    for number in range(20):
        story.send(f"v{number}", number)
    [finding] = story.send("x", 20).final((20, "x")).check().findings
    assert (finding.name, finding.cases, len(finding.examples)) == ("lost-write", 20, 5)


@pytest.mark.parametrize("level", [LEADER, CACHING])
def test_what_power_took_before_its_fsync_was_due_is_allowed_below_quorum_ack(level):
    story = Story().send("a", 0).poll(A).fault("power-loss").final()
    assert story.found(level) == set()
    assert "lost-read" in story.found(QUORUM)
    assert "lost-read" in Story().send("a", 0).poll(A).fault("kill").final().found(level)


def test_after_a_power_loss_another_record_may_have_the_offset_below_quorum_ack():
    story = Story().send("a", 0, acks="1").poll(A, hw=1).fault("power loss").poll(hw=0).send("b", 0)
    story.final((0, "b"))
    assert story.found() == set()
    assert story.check().allowed == {"lost-read": 1, "nonmonotonic-hw": 1}
    story = Story().send("a", 0, acks="1").poll(A, hw=1).poll(hw=0).send("b", 0).final((0, "b"))
    assert story.found() == {"lost-read", "inconsistent-offsets", "nonmonotonic-hw"}


def test_a_power_loss_long_after_the_answer_explains_nothing():
    story = Story().send("a", 0)
    story.now += 2000
    assert "unseen" in story.fault("power-loss").final().found(CACHING)


def test_a_level_for_acks_all_does_not_touch_the_others():
    story = Story().send("a", 0, acks="all").send("b", 1, acks="1").final()
    assert story.found(QUORUM) == {"unseen"}
    assert story.check(QUORUM).allowed == {"unseen": 1}
    assert story.found(LEADER) == set()
    assert story.check(LEADER).allowed == {"unseen": 2}


def test_at_leader_ack_an_epoch_loses_a_suffix_and_never_a_hole():
    def story(lost: int) -> Story:
        told = Story()
        for number in range(3):
            told.send("abc"[number], number, acks="1", epoch=1)
        told.send("d", lost if lost == 2 else 3, acks="1", epoch=2)
        kept = [(number, "abc"[number]) for number in range(3) if number != lost]
        return told.final(*kept, (lost if lost == 2 else 3, "d"))

    assert story(2).found() == set()
    assert story(1).found() == {"lost-write"}


def test_measures_say_how_much_was_judged_and_how_late_consumers_were():
    story = Story().send("a", 0).send("b", 1)
    story.now += 100
    verdict = story.poll(A).poll(A, B).final(A, B).check()
    assert verdict.measures["sends"] == verdict.measures["acked"] == 2
    assert verdict.measures["polled"] == 5
    assert verdict.measures["polled-twice"] == 1
    assert verdict.measures["worst-realtime-lag-ms"] == pytest.approx(101)
    assert verdict.operations == 7
