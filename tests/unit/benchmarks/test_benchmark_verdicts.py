"""What the harness makes of runs: ratios, verdicts, repeated runs, the table."""

import json
from contextlib import contextmanager

import pytest

from benchmarks import table
from benchmarks.cluster import BenchmarkError
from benchmarks.compare.match import Contender, Match, play
from benchmarks.compare.verdict import Target, match_row, row
from benchmarks.figures import FigureError
from raftka.kafka.errors import KafkaClientError


class ScriptedCluster:
    """Three brokers that only say which term they are in."""

    name = "scripted"
    bootstrap = ""

    def __init__(self, refuses=False):
        self.term = 1
        self.refuses = refuses
        self.topics = []
        self.pids = {}

    def terms(self, partitions):
        return [self.term] * partitions

    def elections(self):
        return ["it stands for election"]

    def wait_in_sync(self, partitions):
        pass

    @contextmanager
    def topic(self, partitions, config=None):
        if self.refuses:
            raise KafkaClientError("unknown configuration")
        self.topics.append((partitions, dict(config or {})))
        yield


def test_the_ratio_is_the_median_of_pairs():
    found = row("writing", "MB/s", [100, 50, 300], [100, 100, 100], Target(">=", 1.0))
    assert (found["raftka"], found["peer"], found["ratio"]) == (100, 100, 1.0)
    assert found["ratio_range"] == [0.5, 3.0]
    assert found["met"] is True


def test_a_ratio_on_the_wrong_side_is_missed():
    assert row("waiting", "ms", [7.1], [10], Target("<=", 0.7))["met"] is False


def test_a_target_of_the_value_needs_no_peer():
    assert row("starting", "s", [1.0, 2.5, 1.5], [], Target("<=", 2, "value"))["met"] is True


def test_a_ratio_target_without_a_peer_is_missed():
    assert row("writing", "MB/s", [100], [], Target(">=", 1.0))["met"] is False


def test_a_peer_that_did_nothing_gives_no_division_by_zero():
    assert row("idle", "%", [1.0], [0.0], Target("<=", 2, "value"))["met"] is True


def test_contenders_play_in_turns():
    order = []

    def run(contender):
        order.append(contender.label)
        return {"errors": 0, "rate": len(order)}

    match = play([Contender("a", ScriptedCluster()), Contender("b", ScriptedCluster())], 1, 2, run)
    assert order == ["a", "b", "a", "b"]
    assert [each["rate"] for each in match.runs["a"]] == [1, 3]


def test_a_run_with_an_election_is_repeated():
    cluster = ScriptedCluster()
    terms = iter([2, 2])

    def run(_):
        cluster.term = next(terms)
        return {"errors": 0}

    match = play([Contender("a", cluster)], 1, 1, run)
    assert match.discarded == ["a: 0 errors, elections (partition: terms) 0: 1 to 2"]
    assert len(match.runs["a"]) == 1
    assert len(cluster.topics) == 2


def test_a_run_that_has_not_read_everything_is_repeated_and_what_it_measured_is_kept():
    found = iter([{"errors": 0, "missing": 7, "p50_ms": 2.0}, {"errors": 0, "missing": 0}])
    match = play([Contender("a", ScriptedCluster())], 1, 1, lambda _: next(found))
    assert match.discarded == ["a: 0 errors (missing 7.000, p50_ms 2.000)"]
    assert len(match.runs["a"]) == 1


def test_errors_in_every_run_are_no_result():
    with pytest.raises(BenchmarkError, match="without a disturbance"):
        play([Contender("a", ScriptedCluster())], 1, 1, lambda _: {"errors": 3})


def test_a_refused_configuration_is_told_and_the_others_play_on():
    cached = Contender("cached", ScriptedCluster(refuses=True), {"write.caching": "true"})
    match = play([Contender("raftka", ScriptedCluster()), cached], 1, 2, lambda _: {"errors": 0, "rate": 5})
    assert len(match.runs["raftka"]) == 2
    found = match_row(match, "cached writing", "MB/s", "rate", Target(">=", 1), ours="cached", theirs="raftka")
    assert (found["refused"], found["met"]) == ("unknown configuration", False)


def test_a_cluster_that_refuses_a_plain_topic_is_an_error():
    with pytest.raises(KafkaClientError):
        play([Contender("a", ScriptedCluster(refuses=True))], 1, 1, lambda _: {"errors": 0})


def test_the_table_shows_lost_rows_as_lost():
    match = Match({"raftka": [{"rate": 90}], "kafka": [{"rate": 183}]})
    rows = [match_row(match, "writing", "MB/s", "rate", Target(">=", 1.0)), row("start", "s", [1.5])]
    text = table.render([document(rows)])
    assert "| writing | 90 MB/s | 183 MB/s (kafka) | 0.49x | 0.49 to 0.49 | >= 1x | **missed** |" in text
    assert "| start | 1.50 s |  |  |  |  |  |" in text
    assert "0 of 1 targets are met." in text
    assert "* writes: 2026-01-02, commit abc, 2 cores of a cpu" in text


def test_only_what_stands_between_the_markers_is_replaced():
    page = f"above\n{table.BEGIN}\nold\n{table.END}\nbelow\n"
    assert table.replace_table(page, "new") == f"above\n{table.BEGIN}\nnew\n{table.END}\nbelow\n"
    with pytest.raises(FigureError):
        table.replace_table(f"{table.BEGIN}\nno end", "new")


def test_a_page_without_markers_gets_a_section_at_its_end():
    page = table.replace_table("# Title\n", "new")
    assert page == f"# Title\n\n## Targets\n\n{table.BEGIN}\nnew\n{table.END}\n"
    assert table.replace_table(page, "new") == page


def test_results_without_rows_are_left_out(tmp_path):
    (tmp_path / "old.json").write_text(json.dumps({"result": {"median": 1}}))
    (tmp_path / "writes.json").write_text(json.dumps(document([row("start", "s", [1.5])])))
    assert [each["benchmark"] for each in table.load(tmp_path)] == ["writes"]
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(FigureError):
        table.load(tmp_path)


def document(rows):
    machine = {"cores": 2, "cpu": "a cpu", "memory_gib": 24, "kernel": "6.1", "python": "3.12.1"}
    return {
        "benchmark": "writes",
        "measured_on": "2026-01-02",
        "source": "abc",
        "pairs": 5,
        "seconds": 15,
        "machine": machine | {"disk_file_system": "ext4", "disk_fdatasync_ms": 0.1},
        "result": {"rows": rows},
    }
