"""Compacted partitions: each anomaly in its smallest history, the closest legal one, and what is said of it."""

import pytest
import stories
from audits import BLOCKS, BUNDLES, same_of_log, text_of
from compaction_stories import COMPACTION_PAIRS, Z, again, delete, deleted, put, table, two, wait
from stories import Story

from raftka.check.errors import HistoryError


@pytest.mark.parametrize(("name", "wrong", "_"), COMPACTION_PAIRS)
def test_an_anomaly_of_a_compacted_partition_is_found(name, wrong, _):
    assert wrong.found() == {name}


@pytest.mark.parametrize(("_name", "_wrong", "legal"), COMPACTION_PAIRS)
def test_a_legal_compacted_history_is_valid(_name, _wrong, legal):
    assert legal.found() == set()


@pytest.mark.parametrize("sizes", [BUNDLES, BLOCKS], ids=["bundles", "blocks"])
def test_an_audit_says_the_same_of_compacted_partitions(sizes):
    for _, wrong, legal in COMPACTION_PAIRS:
        for story in (wrong, legal):
            same_of_log([text_of(story.lines)], sizes)


def test_keys_of_partitions_that_are_not_compacted_are_told_by_an_audit_in_blocks_too():
    story = Story().send("a", 0, key="k").send("b", 1, key="a").send("c", 2, key="k").final((0, "a"), (2, "c"))
    for sizes in (BUNDLES, BLOCKS):
        assert '"key":"a"' in same_of_log([text_of(story.lines)], sizes)


def anomaly(story, name):
    [finding] = [each for each in story.check().findings if each.name == name]
    return finding.examples[0]


def test_a_lost_record_is_told_with_its_key_and_what_the_final_reads_have_of_it():
    told = anomaly(two("k").final((0, "a")), "unseen")
    assert told.text == (
        "'b' was acknowledged at offset 1 (quorum_ack) and is never read; it is a record whose key is 'k': no later"
        " record of the key was there; the final reads end with 'a' for the key, at offset 0"
    )
    assert [each["line"] for each in told.operations] == [3, 4]
    assert told.operations[0]["key"] == "k"


def test_a_skip_is_told_with_the_record_that_was_left_out():
    told = anomaly(again(deleted()).poll((0, "a"), (2, "z")).final((0, "a"), (1, "d"), (2, "z")), "int-poll-skip")
    assert told.text == (
        "process 1 polled offset 0 and then 2; between them lies offset 1, which deletes key 'k': no later record of"
        " the key was there, and a tombstone stays for 0.008 s"
    )
    assert [each["line"] for each in told.operations] == [3, 6]
    assert told.operations[0]["tombstone"] is True


def test_a_deleted_key_that_returns_is_told_with_who_missed_the_tombstone_and_who_saw_the_key():
    first = wait(put(delete(put(put(table(), "y", 0, key="y"), "a", 1), "d", 2), "z", 3, key="z"))
    story = again(first.poll((0, "y"), (3, "z"), proc=7)).poll((0, "y"), (1, "a")).final((0, "y"), (3, "z"))
    told = anomaly(story, "resurrected-key")
    assert told.text == (
        "key 'k' was deleted at offset 2; process 7 went past it without the tombstone, from offset 0 to 3, and later"
        " process 1 polled its older record 'a' at offset 1"
    )
    assert [each["line"] for each in told.operations] == [3, 4, 6, 8]


def test_a_deleted_key_in_a_final_read_is_told():
    told = anomaly(wait(deleted()).final((0, "a"), (2, "z")), "resurrected-key")
    assert told.text == (
        "key 'k' was deleted at offset 1, and the final read of process 2 ends with its older record 'a' at offset 0"
    )
    assert [each["line"] for each in told.operations] == [2, 3, 5]


def test_without_a_line_that_says_so_no_record_is_taken_for_compacted():
    assert Story().send("a", 0, key="k").send("b", 1, key="k").final((1, "b")).found() == {"lost-write"}
    other = Story().add("compact", tp="t-9").send("a", 0, key="k").send("b", 1, key="k").final((1, "b"))
    assert other.found() == {"lost-write"}


def test_a_compact_line_counts_for_the_whole_history_and_the_shortest_retention_counts():
    story = wait(deleted()).final(Z).add("compact", tp="t-0", delete_retention_ms=10_000)
    assert story.found() == set()
    assert wait(put(delete(put(table(10_000), "a", 0), "d", 1), "z", 2, key="z")).final(Z).found() == {"lost-write"}


def test_a_tombstone_stays_for_a_day_where_the_history_does_not_say():
    story = put(delete(put(Story().add("compact", tp="t-0"), "a", 0), "d", 1), "z", 2, key="z")
    assert wait(story).final(Z).found() == {"lost-write"}
    story.now += 86_400_001
    story.lines.pop()
    assert story.final(Z).found() == set()


def test_a_record_of_unknown_place_is_excused_by_one_that_may_lie_behind_it():
    assert put(put(table(), "a", None), "b", 1).final((1, "b")).found() == set()
    assert put(put(table(), "b", 1), "a", None).final((1, "b")).found() == {"unseen"}


def test_an_older_copy_of_an_unanswered_retry_does_not_make_a_tombstone_lost():
    story = delete(put(table(), "a", None, type="info"), "d", 1)
    assert story.final((0, "a"), (2, "a")).found() == set()


def test_an_aborted_record_excuses_nothing():
    def story(end):
        told = put(table(), "a", 0).add("txn", type="ok", proc=5, txn="x", do="begin")
        told = put(told, "b", 1, txn="x", proc=5).add("txn", type="ok", proc=5, txn="x", do=end)
        return put(told, "z", 3, key="z")

    committed = {"iso": "read_committed"}
    assert story("abort").final((3, "z"), **committed).found() == {"lost-write"}
    assert story("abort").final((0, "a"), (3, "z"), **committed).found() == set()
    assert story("commit").final((1, "b"), (3, "z"), **committed).found() == set()


def test_a_committed_record_that_compaction_took_does_not_tear_its_transaction():
    story = table().add("txn", type="ok", proc=5, txn="x", do="begin")
    story = put(put(story, "a", 0, txn="x", proc=5), "b", 1, key="l", txn="x", proc=5)
    story = put(story.add("txn", type="ok", proc=5, txn="x", do="commit"), "c", 3)
    assert story.final((1, "b"), (3, "c"), iso="read_committed").found() == set()


@pytest.mark.parametrize("sizes", [BUNDLES, BLOCKS], ids=["bundles", "blocks"])
def test_a_record_without_a_key_on_a_compacted_partition_cannot_be_judged(sizes):
    story = table().send("a", 0).final((0, "a"))
    with pytest.raises(HistoryError, match=r"line 2: this send to t-0, which is compacted, has no `key`"):
        story.check()
    assert "has no `key`" in same_of_log([text_of(story.lines)], sizes)
    assert table().send("a", type="fail").send("b", 0, key="k").final((0, "b")).found() == set()


def test_a_tombstone_without_a_key_is_no_line():
    with pytest.raises(HistoryError, match=r"line 1: a `tombstone` has a `key`"):
        stories.judge(Story().send("a", 0, tombstone=True).final((0, "a")).operations())
