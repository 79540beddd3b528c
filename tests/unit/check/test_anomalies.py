"""Each anomaly in its smallest history, and beside it the closest one that is legal."""

import pytest
from compaction_stories import COMPACTION_PAIRS
from list_stories import LIST_PAIRS
from stories import MS, Story
from transaction_stories import LOG_PAIRS

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
    (
        "lost-write",
        Story().send("a", 0).send("b", 1).add("trim", tp="t-0", off=1, type="fail").final(B),
        Story().send("a", 0).send("b", 1).add("trim", tp="t-0", off=1, type="info").final(B),
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
    (
        "poll-skip",
        abc().add("seek", proc=1, tp="t-0", off=1).poll(C).final(A, B, C),
        abc().add("seek", proc=1, tp="t-0", off=1).poll(B, C).final(A, B, C),
    ),
    (
        "poll-skip",
        abc().add("seek", proc=1, tp="t-0", off=1).poll(C).final(A, B, C),
        abc().add("seek", proc=1, tp="t-0", off=1).add("seek", proc=1, tp="t-0").poll(C).final(A, B, C),
    ),
    (
        "poll-skip",
        abc().add("seek", proc=1, tp="t-0", off=0).poll(C).final(A, B, C),
        abc().add("seek", proc=1, tp="t-0", off=0).add("trim", tp="t-0", off=2).poll(C).final(C),
    ),
    (
        "poll-skip",
        abc().add("seek", proc=1, tp="t-0", off=0).poll(C).final(A, B, C),
        Story().send("c", 2).add("seek", proc=1, tp="t-0", off=0).poll((2, "c")).final((2, "c")),
    ),
    (
        "poll-skip",
        abc().add("seek", proc=1, tp="t-0", off=0).poll(C).final(A, B, C),
        abc().add("seek", proc=1, tp="t-0", off=0, type="info").poll(C).final(A, B, C),
    ),
    (
        "nonmonotonic-poll",
        abc().add("seek", proc=1, tp="t-0", off=2**62).poll(B, C).final(A, B, C),
        abc().add("seek", proc=1, tp="t-0", off=1).poll().poll(B, C).final(A, B, C),
    ),
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
        "nonmonotonic-hw",
        abc().poll(A, hw=3, epoch=4).poll(B, hw=2, epoch=5).final(A, B, C),
        abc().poll(A, hw=3, epoch=5).poll(B, hw=2, epoch=4).final(A, B, C),
    ),
    (
        "nonmonotonic-hw",
        abc().poll(A, hw=3, epoch=4).poll(B, hw=3, epoch=-1).poll(C, hw=2, epoch=4).final(A, B, C),
        abc().poll(A, hw=3, epoch=4).poll(B, hw=2, epoch=-1).poll(C, hw=3, epoch=4).final(A, B, C),
    ),
    (
        "read-beyond-hw",
        abc().poll(A, B, hw=1, epoch=-1).final(A, B, C),
        abc().poll(A, B, hw=2, epoch=-1).final(A, B, C),
    ),
    ("read-beyond-hw", abc().poll(A, B, hw=1).final(A, B, C), abc().poll(A, hw=1).poll(B, C, hw=3).final(A, B, C)),
    ("read-beyond-hw", abc().poll(A, B, hw=1).final(A, B, C), abc().poll(A, B, hw=None).final(A, B, C)),
    (
        "inconsistent-acks",
        Story().send("a", 0, acks="1", epoch=3).send("b", 0, epoch=3).final((0, "b")),
        Story().send("a", 0, acks="1", epoch=2).send("b", 0, epoch=3).final((0, "b")),
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
    (
        "future-latest",
        Story().send("a", 0).latest(7).final(A, hw=1),
        Story().send("a", 0).latest(1).final(A, hw=1),
    ),
    (
        "future-latest",
        Story().send("a", 0).latest(3).final(A, hw=1),
        # Markers may be behind the last record: the end of the log is not known.
        Story().send("a", 0).latest(3).final(A),
    ),
    (
        "future-latest",
        Story().send("a", 0).latest(3).final(A, hw=1),
        Story().send("a", 0).send("b", type="info").latest(3).final(A, B, (2, "b"), hw=3),
    ),
    (
        "future-latest",
        # What is below latest is on a majority, acknowledged or not: nobody loses it without a power loss.
        Story().send("a", 0).send("b", type="info", idem=True).latest(2).final(A, hw=1),
        Story().send("a", 0).send("b", type="info", idem=True).latest(2).final(A, B, hw=2),
    ),
    (
        "future-latest",
        Story().send("a", type="info", epoch=1).latest(1).final(hw=0),
        Story().send("a", type="info", acks="1", epoch=1).latest(1).fault("power loss").final(hw=0),
    ),
    (
        "future-latest",
        Story().send("a", 0).send("b", type="fail", acks="1").latest(2).fault("power loss").final(A, hw=1),
        Story().send("a", 0).send("b", type="info", acks="1").latest(3).fault("power loss").final(A, hw=1),
    ),
    (
        "future-latest",
        Story().send("a", 0).send("b", 1, acks="1").latest(2).final(A, hw=1),
        Story().send("a", 0).send("b", 1, acks="1").latest(2).fault("power loss").final(A, hw=1),
    ),
    (
        "future-latest",
        Story().send("a", 0).send("b", 1, acks="1", idem=True).latest(3).fault("power loss").final(A, hw=1),
        Story().send("a", 0).send("b", 1, acks="1", idem=True).latest(2).fault("power loss").final(A, hw=1),
    ),
    (
        "future-latest",
        Story().send("a", 0).latest(2).send("b", 1, acks="1", idem=True).fault("power loss").final(A, hw=1),
        Story().send("a", 0).latest(1).send("b", 1, acks="1", idem=True).latest(2).fault("power loss").final(A, hw=1),
    ),
    (
        "future-hw",
        Story().send("a", 0).poll(A, hw=999).final(A, hw=1),
        Story().send("a", 0).poll(A, hw=1).final(A, hw=1),
    ),
    (
        "future-hw",
        Story().send("a", 0).poll(A, hw=2).final(A, hw=1),
        # Markers may be behind the last record: the end of the log is not known.
        Story().send("a", 0).poll(A, hw=2).final(A),
    ),
    (
        "future-hw",
        Story().send("a", 0).send("b", type="info").poll(A, hw=2).fault("power loss").final(A, hw=1),
        Story().send("a", 0).send("b", type="info", acks="1").poll(A, hw=2).fault("power loss").final(A, hw=1),
    ),
    (
        "deleted-read",
        Story().send("a", 0).send("b", 1).add("trim", tp="t-0", off=1).final(A, B),
        Story().send("a", 0).send("b", 1).add("trim", tp="t-0", off=1).final(B),
    ),
    (
        "deleted-read",
        Story().send("a", 0).send("b", 1).add("trim", tp="t-0", off=1).poll(A, B).final(B),
        Story().send("a", 0).send("b", 1).poll(A, B).add("trim", tp="t-0", off=1).final(B),
    ),
    (
        "deleted-read",
        Story().send("a", 0).send("b", 1).add("trim", tp="t-0", off=1).final(A, B),
        # Nobody was told that it has happened.
        Story().send("a", 0).send("b", 1).add("trim", tp="t-0", off=1, ret=None).final(A, B),
    ),
    (
        "nonmonotonic-epoch",
        Story().send("a", 0, epoch=9, idem=True).send("b", 1, epoch=3, idem=True).final(A, B),
        Story().send("a", 0, epoch=3, idem=True).send("b", 1, epoch=9, idem=True).final(A, B),
    ),
    (
        "nonmonotonic-epoch",
        Story().send("a", 0, epoch=9, acks="1").send("b", 1, epoch=3).final(A, B),
        # A deposed leader that does not know it yet acknowledges at acks=1, and loses it.
        Story().send("a", 0, epoch=9).send("b", 1, epoch=3, acks="1").final(A),
    ),
    (
        "nonmonotonic-epoch",
        Story().send("a", 0, epoch=9, ret=9 * MS).send("b", 1, epoch=3, ret=9 * MS).final(A, B, inv=9 * MS, ret=9 * MS),
        # A retry: the leader of epoch 9 has acknowledged what that of epoch 3 has appended.
        Story()
        .send("a", 0, epoch=9, ret=9 * MS, idem=True)
        .send("b", 1, epoch=3, ret=9 * MS)
        .final(A, B, inv=9 * MS, ret=9 * MS),
    ),
    (
        "lost-write",
        abc(acks="1", epoch=1).fault("power loss").final(A, C),
        abc(acks="1", epoch=1).fault("power loss").final(A),
    ),
    (
        "lost-write",
        abc(acks="1", epoch=1).fault("power loss").final(A, C),
        # Epochs that are not known may be two.
        abc(acks="1").fault("power loss").final(A, C),
    ),
    (
        "lost-write",
        abc(acks="1", epoch=1).final(A, C),
        # Somewhere behind the others of its epoch, for all that is known.
        Story().send("a", 0, acks="1", epoch=1).send("b", acks="1", epoch=1).final(A),
    ),
    (
        "lost-write",
        Story().send("b", 0, acks="1", epoch=1).send("c", 1, acks="1", epoch=1, idem=True).final((1, "c")),
        # Another attempt's copy of c is read, of which no epoch is known.
        Story().send("b", 0, acks="1", epoch=1).send("c", 5, acks="1", epoch=1).final((1, "c")),
    ),
    (
        "lost-read",
        abc(acks="1", epoch=1).poll(A, B).fault("power loss").final(A, C),
        abc(acks="1", epoch=1).poll(A, B).fault("power loss").final(A),
    ),
    (
        "G0-realtime",
        Story().send("a", 1, acks="1", epoch=1).send("q", 0, acks="1", epoch=2).final((0, "q"), (1, "a")),
        # What was acknowledged is lost; an earlier attempt's copy is read.
        Story().send("a", 5, acks="1", epoch=1).send("q", 0, acks="1", epoch=2).final((0, "q"), (1, "a"), hw=2),
    ),
    (
        "nonmonotonic-send",
        Story().send("a", 1, acks="1", proc=5).send("q", 0, acks="1", proc=5).final((0, "q"), (1, "a")),
        Story().send("a", 5, acks="1", proc=5).send("q", 0, acks="1", proc=5).final((0, "q"), (1, "a"), hw=2),
    ),
    (
        "future-latest",
        abc().latest(4).add("trim", tp="t-0", off=3).final(hw=3),
        abc().latest(3).add("trim", tp="t-0", off=3).final(hw=3),
    ),
    (
        "duplicate",
        Story().send("a", 5, acks="1", idem=True).final(A, hw=1),
        Story().send("a", 5, acks="1").final(A, hw=1),
    ),
    (
        "duplicate",
        Story().send("a", 2, acks="1", idem=True).send("b", type="info", idem=True).final(A),
        # One leader had b and a, and was cut off; a former one had a from an earlier attempt, and leads again.
        Story().send("a", 1, acks="1", idem=True).send("b", type="info", idem=True).final(A),
    ),
    (
        "duplicate",
        Story().send("a", 1, acks="1", idem=True, epoch=2).send("c", 2, epoch=2).final((0, "a"), (2, "c")),
        Story().send("a", 1, acks="1", idem=True, epoch=2).send("c", 2, epoch=3).final((0, "a"), (2, "c")),
    ),
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
    told = {name for name, _, _ in PAIRS} | {"not-linearizable"}
    told |= {name for names, _, _ in [*LOG_PAIRS, *LIST_PAIRS] for name in names}
    told |= {name for name, _, _ in COMPACTION_PAIRS}
    # `test_cycles_that_kafka_allows_are_counted` has these.
    told |= {"write-cycle", "write-read-cycle", "anti-dependency-cycle"}
    assert told == EXPLANATIONS.keys()


def test_a_finding_shows_the_operations_that_prove_it():
    story = Story().send("b", 1).send("a", 0).final(A, B)
    [finding] = story.check().findings
    [anomaly] = finding.examples
    assert (finding.name, finding.cases, anomaly.subject) == ("G0-realtime", 1, "t-0")
    assert anomaly.text == "'a' was sent after 'b' had been acknowledged, and lies before it: 0 < 1"
    assert [(each["line"], each["val"]) for each in anomaly.operations] == [(1, "b"), (2, "a")]


def test_what_a_seek_and_a_poll_left_out_is_one_finding_with_the_seek_as_proof():
    story = abc().poll(A).poll(C).add("seek", proc=1, tp="t-0", off=1).poll(C).final(A, B, C)
    [finding] = story.check().findings
    assert (finding.name, finding.cases) == ("poll-skip", 2)
    assert finding.examples[1].text == "process 1 sought offset 1 and then polled 2"
    assert [(each["line"], each["f"]) for each in finding.examples[1].operations] == [(6, "seek"), (7, "poll")]


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


def test_what_power_took_was_covered_by_latest():
    story = Story().send("a", 0, idem=True).send("b", 1, idem=True).latest(2).fault("power loss").final(A, hw=1)
    assert story.found(CACHING) == set()
    story = Story().send("a", 0, idem=True).send("b", 1, idem=True).latest(4).fault("power loss").final(A, hw=1)
    assert story.found(CACHING) == {"future-latest"}


def test_latest_may_have_covered_what_was_sent_and_lost_without_an_answer():
    """Simulated seed 36: a record sent at acks=1 is visible for an instant, and power takes it before the answer."""
    lost = {"type": "info", "acks": "1", "ret": None}
    story = Story().send("a", **lost).latest(1).fault("power loss").send("b", 0).final((0, "b"))
    assert story.found() == set()
    story = Story().latest(1).send("a", **lost).fault("power loss").send("b", 0).final((0, "b"))
    assert story.found() == {"future-latest"}
    story = Story().send("a", **(lost | {"acks": "all"})).latest(1).fault("power loss").send("b", 0).final((0, "b"))
    assert story.found() == {"future-latest"}


def test_below_quorum_ack_power_takes_the_end_of_an_epoch_and_never_a_hole():
    assert "lost-write" in abc(epoch=1).fault("power loss").final(A, C).found(CACHING)
    assert abc(epoch=1).fault("power loss").final(A).found(CACHING) == set()
    # What came behind it in another epoch was appended after the cut.
    story = Story().send("a", 0, epoch=1).send("b", 1, epoch=1).fault("power loss").send("c", 2, epoch=2)
    assert story.final(A, (2, "c")).found(CACHING) == set()


def test_power_takes_an_answered_deletion_below_quorum_ack():
    story = Story().send("a", 0).send("b", 1).add("trim", tp="t-0", off=1).fault("power loss").final(A, B)
    assert story.found(CACHING) == set()
    assert story.found(QUORUM) == {"deleted-read"}


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


def test_a_record_that_a_retry_wrote_twice_is_where_it_is_first():
    story = Story().send("a", 0).send("b", 1)
    story.add("seek", proc=1, tp="t-0").poll((2, "a")).final(A, B, (2, "a"))
    assert story.found() == set()
    assert story.check().allowed == {"duplicate": 1}


def test_one_leader_has_not_two_values_at_an_offset_whatever_acks_all_means():
    story = Story().send("a", 0, epoch=3).send("b", 0, epoch=3).final((0, "b"))
    assert "inconsistent-acks" in story.found(LEADER)
    assert "inconsistent-offsets" in story.found(QUORUM)


def test_who_gets_nothing_lags_too():
    story = Story().send("a", 0).send("b", 1).poll(A)
    story.now += 500
    story.poll().final(A, B)
    assert story.check().measures["worst-realtime-lag-ms"] == pytest.approx(503)
    story = Story().send("a", 0)
    story.now += 500
    assert story.poll().final(A).check().measures["worst-realtime-lag-ms"] == pytest.approx(501)


def test_nothing_is_known_of_the_lag_of_who_was_moved():
    for move in (("seek", {"tp": "t-0"}), ("subscribe", {"tps": ["t-0"]})):
        story = Story().send("a", 0).add(move[0], proc=1, **move[1])
        story.now += 500
        assert story.poll().final(A, proc=1).check().measures["worst-realtime-lag-ms"] == 0


def test_what_a_group_gave_twice_is_counted():
    story = Story().send("a", 0).add("subscribe", proc=1, tps=["t-0"]).poll(A).poll(A).final(A)
    verdict = story.check()
    assert verdict.is_valid
    assert verdict.allowed == {"nonmonotonic-poll": 1}
    assert verdict.measures["polled-twice"] == verdict.measures["polled-twice-subscribed"] == 1


def test_measures_say_how_much_was_judged_and_how_late_consumers_were():
    story = Story().send("a", 0).send("b", 1)
    story.now += 100
    verdict = story.poll(A).poll(A, B).final(A, B).check()
    assert verdict.measures["sends"] == verdict.measures["acked"] == 2
    assert verdict.measures["polled"] == 5
    assert verdict.measures["polled-twice"] == 1
    assert verdict.measures["worst-realtime-lag-ms"] == pytest.approx(101)
    assert verdict.operations == 7
