"""Passes of compaction during a run: counted over restarts of brokers, and a run without any proves nothing."""

from pathlib import Path
from typing import Any

import pytest

from raftka.chaos.compacted_workload import CompactedWorkload
from raftka.chaos.compaction_watch import CompactionCounts, CompactionWatch, parse_counts, read_counts
from raftka.chaos.history import History
from raftka.chaos.judgement import judge
from raftka.chaos.run_facts import Judgement, RunFacts, RunRequest
from raftka.chaos.schedule import Schedule

PAGE = """# HELP raftka_compaction_passes_total Passes.
# TYPE raftka_compaction_passes_total counter
raftka_compaction_passes_total 3
raftka_compaction_failures_total 1
raftka_compaction_removed_records_total 250
raftka_compaction_removed_records_total_other 9
"""


def test_a_page_of_metrics_tells_what_passes_did() -> None:
    assert parse_counts(PAGE) == CompactionCounts(3, 1, 250)
    assert parse_counts(PAGE.replace("failures", "x")) is None


def test_a_broker_that_does_not_answer_tells_nothing() -> None:
    assert read_counts("127.0.0.1:1") is None


def test_brokers_that_start_again_count_on() -> None:
    watch = CompactionWatch(dict)
    assert watch.counts == CompactionCounts(0, 0, 0)
    watch.note(1, CompactionCounts(3, 1, 250))
    watch.note(1, CompactionCounts(4, 1, 300))
    watch.note(2, CompactionCounts(1, 0, 20))
    assert watch.counts == CompactionCounts(5, 1, 320)
    watch.note(1, CompactionCounts(0, 0, 0))
    watch.note(1, CompactionCounts(2, 0, 5))
    assert watch.counts == CompactionCounts(7, 1, 325)


def judged(out: Path, counts: CompactionCounts | None) -> Judgement:
    """Return the judgement on a run of 200 records of different keys."""
    with History(out / "history.jsonl") as history:
        tp, proc = "chaos-table-0", history.process()
        history.note("compact", tp=tp, delete_retention_ms=5_000)
        records: list[Any] = []
        for number in range(200):
            name = f"k{number}={proc}.{number}"
            line = history.begin("send", proc, tp=tp, acks="all", idem=True, val=name, key=f"k{number}")
            history.end(line, "ok", off=number)
            records.append((number, name))
        line = history.begin("poll", proc, tp=tp, recs=records, hw=200, final=True)
        history.end(line, "ok")
    request = RunRequest(
        out=out,
        brokers=3,
        bootstrap=None,
        workload="compacted",
        acks="all",
        nemeses=[],
        schedule=Schedule(1, 60.0, []),
        rate=200.0,
        command="raftka chaos",
    )
    with CompactedWorkload("127.0.0.1:1", history, 1, 200.0, "all", 1, is_raftka=True) as workload:
        return judge(request, history, RunFacts(history.began_ns, compaction=counts), workload, {})


def test_a_run_with_passes_is_valid_and_says_what_they_did(tmp_path: Path) -> None:
    judgement = judged(tmp_path, CompactionCounts(1_200, 1, 34_000))
    assert judgement.outcome == "valid"
    told = "compaction: passes 1,200, failed passes 1, removed records 34,000 (counted on each replica)"
    assert told in judgement.lines
    assert judgement.summary["compaction"] == {"passes": 1_200, "failures": 1, "removed": 34_000}
    assert told in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("counts", [CompactionCounts(0, 0, 0), CompactionCounts(5, 0, 0), CompactionCounts(0, 3, 0)])
def test_a_run_without_a_pass_that_removed_something_proves_nothing(tmp_path: Path, counts: CompactionCounts) -> None:
    judgement = judged(tmp_path, counts)
    assert judgement.outcome == "invalid"
    assert judgement.problems[0].startswith(f"passes of compaction: {counts.passes}, and they removed 0 records")


def test_other_runs_say_nothing_of_compaction(tmp_path: Path) -> None:
    judgement = judged(tmp_path, None)
    assert judgement.outcome == "valid"
    assert judgement.summary["compaction"] is None
    assert not any(line.startswith("compaction") for line in judgement.lines)


def test_a_compacted_workload_has_readers_of_whole_tables_and_readers_that_read_on(tmp_path: Path) -> None:
    with History(tmp_path / "history.jsonl") as history:
        workload = CompactedWorkload("127.0.0.1:1", history, 1, 200.0, "all", 3, is_raftka=True)
        kinds = [type(each).__name__ for each in workload.tasks]
        assert kinds.count("TableReader") == 3
        assert kinds.count("WireConsumer") == 1
        assert kinds.count("WireProducer") > 1
        assert workload.config["cleanup.policy"] == "compact"
        with workload:
            pass
