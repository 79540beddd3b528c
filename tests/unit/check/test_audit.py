"""An audit judges in parts, pieces, bundles and blocks, and says what the checker says of the whole, to the letter."""

import random

import pytest
from audits import BLOCKS, BUNDLES, same_of_log, same_of_registers, text_of
from generated import history, register_history
from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.check.levels import Level
from raftka.pipeline.audit import logs
from raftka.pipeline.audit.logs import Sizes

SEND = {"f": "send", "type": "ok", "proc": 1, "inv": 1, "ret": 2, "tp": "t-0", "acks": "all", "val": "a", "off": 0}
FINAL = {"f": "poll", "type": "ok", "proc": 2, "inv": 3, "ret": 4, "tp": "t-0", "recs": [[0, "a"]], "final": True}
READ = {"f": "read", "type": "ok", "proc": 1, "inv": 3, "ret": 4, "key": "x", "out": 1}
WRITE = {"f": "write", "type": "ok", "proc": 1, "inv": 1, "ret": 2, "key": "x", "in": 1}

cuts = st.builds(
    Sizes,
    chunks=st.integers(1, 3),
    operations=st.sampled_from([1, 30, 10**9]),
    giant=st.sampled_from([1, 10, 10**9]),
    per_send=st.sampled_from([0, 0, 3]),
    offsets=st.integers(1, 12),
)
levels = st.sampled_from([Level.QUORUM_ACK, Level.WRITE_CACHING, Level.LEADER_ACK])


def disturbed(rng, lines):
    """Add what reaches over partitions, what was deleted, and what no history may say."""

    def insert(line):
        lines.insert(rng.randrange(len(lines) + 1), line)

    if rng.random() < 0.4:
        for name in rng.choices(["power-loss", "kill"], k=rng.randrange(1, 3)):
            insert({"f": "fault", "name": name, "inv": rng.randrange(60)})
    if rng.random() < 0.3:
        tp = rng.choice(["t-0", "t-1", "t-7"])
        insert({"f": "trim", "tp": tp, "off": rng.randrange(9), "inv": 5, "ret": rng.choice([None, 9])})
    if rng.random() < 0.3:
        f, tps = rng.choice(["subscribe", "assign"]), rng.choice([["t-0"], ["t-1", "t-0"], []])
        insert({"f": f, "proc": rng.randrange(20, 24), "inv": 5, "tps": tps})
    if rng.random() < 0.1:
        insert(dict(rng.choice(lines)))
    if rng.random() < 0.4:
        lose_the_end(rng, lines)
    return lines


def lose_the_end(rng, lines):
    """Let power take the end of a log, and another record have its place."""
    final = rng.choice([each for each in lines if each["f"] == "poll" and each["final"]])
    if final["recs"]:
        kept = final["recs"][: -rng.randrange(1, len(final["recs"]) + 1)]
        at = (kept[-1][0] + 1) if kept else 0
        now = final["inv"] - 20
        send = {"f": "send", "type": "ok", "proc": 60, "inv": now, "ret": now + 5, "tp": final["tp"], "acks": "all"}
        lines.append(send | {"val": "new", "off": at, "epoch": rng.choice([None, 9])})
        lines.insert(0, {"f": "fault", "name": "power-loss", "inv": now - rng.randrange(3)})
        final |= {"recs": [*kept, (at, "new")], "hw": None}


@given(seed=st.integers(0, 2**32), sizes=cuts, level=levels, chunk_bytes=st.integers(60, 2000))
@settings(max_examples=40, deadline=None)
def test_the_verdict_of_an_audit_is_that_of_the_checker(seed, sizes, level, chunk_bytes):
    rng = random.Random(seed)
    lines = disturbed(rng, history(rng, rng.choice([None, None, 40]), rng.choice([None, 3, 12])))
    text = text_of(lines)
    at = rng.randrange(len(lines))
    texts = rng.choice([[text], [text], [text_of(lines[:at]), text_of(lines[at:])]])
    same_of_log(texts, sizes, level, chunk_bytes)


@pytest.mark.long
@pytest.mark.timeout(900)
@given(seed=st.integers(0, 2**32), sizes=cuts, level=levels)
@settings(max_examples=2_000, deadline=None)
def test_the_verdict_of_an_audit_is_that_of_the_checker_on_many_more(seed, sizes, level):
    rng = random.Random(seed)
    lines = disturbed(rng, history(rng, rng.choice([None, 40, 120]), rng.choice([None, 3, 30])))
    same_of_log([text_of(lines)], sizes, level)


@given(seed=st.integers(0, 2**32), chunk_bytes=st.integers(60, 1000))
@settings(max_examples=60, deadline=None)
def test_a_file_that_is_damaged_anywhere_is_named_as_the_checker_names_it(seed, chunk_bytes):
    rng = random.Random(seed)
    text = text_of(history(rng))
    at = rng.randrange(len(text))
    text = text[:at] + rng.choice(["x", "\n", "", "\n\n", "}"]) + text[at + 1 :]
    same_of_log([text[: rng.choice([len(text), at])], rng.choice(["", None, text])][: rng.choice([1, 2])], BUNDLES)
    same_of_registers([text, "\n"], chunk_bytes=chunk_bytes)


@pytest.mark.parametrize("sizes", [BUNDLES, BLOCKS], ids=["bundles", "blocks"])
@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([SEND], "no final read of t-0"),
        ([FINAL], "nothing was sent"),
        ([{"f": "fault", "name": "kill", "inv": 1}], "nothing was sent"),
        ([SEND | {"type": "info", "ret": None}, FINAL | {"recs": [], "hw": 0}], "no answer says anything"),
        ([SEND, SEND | {"proc": 3}, FINAL], "is sent twice to t-0"),
        ([SEND, SEND | {"val": "b", "tp": "t-1"}, FINAL, FINAL | {"tp": "t-1"}], "process 1 begins the second"),
        ([SEND, FINAL | {"hw": 2}], "the final read of t-0 ends at 1"),
        ([FINAL | {"recs": []}, SEND | {"inv": 9, "ret": 10}], "began before this send had ended"),
        ([SEND, FINAL | {"recs": [[9_000_000_000_000_000_000, "a"]]}], "offsets above"),
        ([SEND, SEND | {"proc": 3, "off": 2**63 - 1}, FINAL | {"recs": [[2**63 - 1, "a"]]}], "is sent twice"),
        ([SEND, FINAL | {"recs": [[2**63 - 2, "a"]]}], "offsets above"),
        ([SEND | {"off": 2**60}, FINAL | {"recs": [[3, "b"], [2**60, "a"]]}], '"phantom"'),
        ([SEND | {"tp": f"t-{n}", "proc": n} for n in range(5)], "no final read of t-0, t-1, t-2 and more"),
        ([SEND, FINAL, FINAL | {"tp": "t-1", "recs": [[0, "b"], [1, "c"]]}], '"phantom"'),
        ([SEND, FINAL, READ], "`read` is of a register"),
    ],
)
def test_why_a_history_cannot_be_judged_is_said_as_the_checker_says_it(sizes, lines, reason):
    assert reason in same_of_log([text_of(lines)], sizes, chunk_bytes=100)


@pytest.mark.parametrize("sizes", [BUNDLES, BLOCKS], ids=["bundles", "blocks"])
def test_what_power_took_is_known_to_the_block_that_had_it(sizes):
    lines = [
        SEND,
        FINAL | {"final": False, "proc": 3},
        {"f": "fault", "name": "power-loss", "inv": 5},
        SEND | {"val": "b", "inv": 6, "ret": 7},
        FINAL | {"recs": [[0, "b"]], "inv": 8, "ret": 9},
    ]
    assert '"findings":[],"allowed":{"lost-read":1}' in same_of_log([text_of(lines)], sizes, Level.WRITE_CACHING)
    assert '"inconsistent-offsets"' in same_of_log([text_of(lines)], sizes, Level.QUORUM_ACK)


@pytest.mark.parametrize("sizes", [BUNDLES, BLOCKS], ids=["bundles", "blocks"])
def test_a_line_may_be_longer_than_the_parts_of_a_file(sizes):
    sends = [SEND | {"val": f"v{n}", "off": n, "inv": 3 * n + 1, "ret": 3 * n + 2} for n in range(9)]
    final = FINAL | {"recs": [[n, f"v{n}"] for n in (0, 1, 2, 8, 3, 4, 7)], "inv": 90, "ret": 91}
    said = same_of_log([text_of([*sends, final])], sizes, chunk_bytes=20)
    assert '"int-poll-skip","cases":2' in said
    same_of_log([text_of([*sends, final])[:-1]], sizes, chunk_bytes=20)


def test_of_many_cases_the_first_are_told():
    rng = random.Random(1)
    said = same_of_log([text_of(history(rng, 200, 60))], Sizes(chunks=1, operations=1, giant=1, per_send=0, offsets=40))
    assert len(said) > 10_000


@pytest.mark.parametrize(("polls", "is_in_blocks"), [(1, False), (4, True)])
def test_a_partition_is_judged_in_blocks_only_if_its_records_are_read_often(monkeypatch, polls, is_in_blocks):
    judged = []
    whole = logs.judge_giant
    monkeypatch.setattr(logs, "judge_giant", lambda giant, *rest: judged.append(giant.tp) or whole(giant, *rest))
    sends = [SEND | {"val": f"v{n}", "off": n, "inv": 3 * n + 1, "ret": 3 * n + 2} for n in range(9)]
    reads = [
        FINAL | {"recs": [[n, f"v{n}"] for n in range(9)], "proc": 2 + n, "inv": 90 + 2 * n, "ret": 91 + 2 * n}
        for n in range(polls)
    ]
    assert '"findings":[]' in same_of_log([text_of([*sends, *reads])], Sizes(chunks=1, giant=1, per_send=4, offsets=3))
    assert judged == [0] * is_in_blocks


@given(seed=st.integers(0, 2**32), chunk_bytes=st.integers(60, 2000), is_narrow=st.booleans())
@settings(max_examples=80, deadline=None)
def test_the_verdict_on_registers_is_that_of_the_checker(seed, chunk_bytes, is_narrow):
    rng = random.Random(seed)
    lines = register_history(rng)
    at = rng.randrange(len(lines))
    texts = rng.choice([[text_of(lines)], [text_of(lines[:at]), text_of(lines[at:])]])
    same_of_registers(texts, "cas", 12 if is_narrow else 10_000, chunk_bytes, rng.randrange(1, 4))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([WRITE], "no read and no cas was answered"),
        ([WRITE, READ, SEND], "`send` is not of this model"),
        ([WRITE | {"ret": 9}, READ], "process 1 begins the second"),
        ([WRITE | {"ret": 9}, READ, "{"], "process 1 begins the second"),
        ([WRITE | {"inv": -9, "ret": -8}, READ | {"ret": 1}], "ends before it began"),
        ([WRITE | {"inv": -9, "ret": -8}, READ], "not-linearizable"),
        ([WRITE, {key: each for key, each in READ.items() if key != "out"}], "has an `out`"),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [30, 10_000])
def test_why_registers_cannot_be_judged_is_said_as_the_checker_says_it(lines, reason, chunk_bytes):
    text = "".join(each if isinstance(each, str) else text_of([each]) for each in lines)
    same_of_registers([text], chunk_bytes=chunk_bytes)
    if "{" not in lines and reason != "not-linearizable":
        assert reason in same_of_registers([text], chunk_bytes=chunk_bytes)
