"""Random compacted histories: legal ones are valid, and a planted fault is found."""

import random

import msgspec
from audits import BLOCKS, BUNDLES, same_of_log, text_of
from generated_compaction import MS, RETENTION, compacted_history, fold
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from stories import judge

from raftka.check.operations import Line

_decoder = msgspec.json.Decoder(Line)
seeds = st.integers(0, 2**32)
LOSSES = {"lost-write", "unseen", "lost-read"}


def found_in(lines):
    operations = [_decoder.decode(msgspec.json.encode(line)) for line in lines]
    return {finding.name for finding in judge(operations).findings}


@given(seed=seeds)
@settings(max_examples=300, deadline=None)
def test_a_legal_compacted_history_is_valid_and_its_table_is_the_fold_of_the_log(seed):
    table, found = compacted_history(random.Random(seed))
    assert fold(table.log[offset] for offset, _ in found) == fold(table.log)
    assert found_in(table.lines) == set()


@given(seed=seeds, sizes=st.sampled_from([BUNDLES, BLOCKS]))
@settings(max_examples=40, deadline=None)
def test_an_audit_of_a_compacted_history_says_what_the_checker_says(seed, sizes):
    rng = random.Random(seed)
    table, _ = compacted_history(rng)
    polls = [line for line in table.lines if line["f"] == "poll" and line["recs"]]
    if polls and rng.random() < 0.7:
        del rng.choice(polls)["recs"][0]
    same_of_log([text_of(table.lines)], sizes)


@given(seed=seeds)
@settings(max_examples=150, deadline=None)
def test_the_last_value_of_a_key_that_is_missing_at_last_is_found(seed):
    rng = random.Random(seed)
    table, found = compacted_history(rng)
    acked = {line["val"] for line in table.lines if line["f"] == "send" and line["type"] == "ok"}
    last = {table.log[offset].key: (offset, val) for offset, val in found if not table.log[offset].deletes}
    last = {key: each for key, each in last.items() if each[1] in fold(table.log).values() and each[1] in acked}
    # A tombstone that nobody was answered about may have deleted it since.
    doubtful = {line["key"] for line in table.lines if line["f"] == "send" and line["type"] == "info"}
    last = {key: each for key, each in last.items() if key not in doubtful}
    assume(last)
    missing = rng.choice(sorted(last.values()))
    final = table.lines[-1]
    final |= {"recs": [each for each in found if each != missing], "hw": None}
    assert found_in(table.lines) & LOSSES


@given(seed=seeds)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_a_key_that_was_deleted_and_returns_is_found(seed):
    rng = random.Random(seed)
    table, found = compacted_history(rng)
    dead = dict(found)
    sends = {line["val"]: line for line in table.lines if line["f"] == "send"}
    acked = {val for val, line in sends.items() if line["type"] == "ok" and line["off"] is not None}
    newest = {record.key: offset for offset, record in enumerate(table.log)}
    back = [
        (offset, record.val)
        for offset, record in enumerate(table.log)
        if table.log[newest[record.key]].deletes
        and newest[record.key] > offset
        and newest[record.key] not in dead
        and table.log[newest[record.key]].val in acked
        and not record.deletes
    ]
    assume(back)
    final = table.lines[-1]
    final["recs"] = sorted({*found, rng.choice(back)})
    assert final["ret"] - final["inv"] < RETENTION * MS
    assert "resurrected-key" in found_in(table.lines)


@given(seed=seeds)
@settings(max_examples=150, deadline=None)
def test_a_reader_that_misses_what_has_no_later_record_is_told(seed):
    rng = random.Random(seed)
    table, _ = compacted_history(rng)
    sends = {line["val"]: line for line in table.lines if line["f"] == "send"}
    # What has no known place may lie behind, and excuse it.
    unsure = {line["key"] for line in sends.values() if line["off"] is None and line["type"] != "fail"}
    cases = []
    for poll in (line for line in table.lines if line["f"] == "poll"):
        for at, (offset, val) in enumerate(poll["recs"][1:-1], 1):
            key, kept = sends[val]["key"], sends[val]["inv"] + RETENTION * MS
            is_later = any(sends[each.val]["inv"] <= poll["ret"] for each in table.log[offset + 1 :] if each.key == key)
            is_old = sends[val]["tombstone"] and kept <= poll["ret"]
            is_known = sends[val]["type"] == "ok" and sends[val]["off"] is not None
            if is_known and key not in unsure and not is_later and not is_old:
                cases.append((poll, at))
    assume(cases)
    poll, at = rng.choice(cases)
    del poll["recs"][at]
    assert "int-poll-skip" in found_in(table.lines)
