"""What the pipeline `telemetry` computes: on frames of records made by hand, whose figures are known.

Each scenario is a topic of its own, and all of them go through Spark once: that takes seconds, and a test none.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from raftka.pipeline.telemetry.reports import gathered, judged, reports
from raftka.pipeline.telemetry.seconds import seconds, seconds_table
from raftka.pipeline.telemetry.windows import as_records, windows
from tests.pipeline.pipelines import Record
from tests.pipeline.telemetry_reports import BASE, SECOND, followers, histogram, leaderless, led, record, report

WINDOW = 10
Reports = list[dict[str, Any]]


def lagging() -> Reports:
    return [
        report(second, dirty=100, commit=95, followers=followers(b2=100 - second, b3=100 - 10 - second))
        for second in range(WINDOW)
    ]


def measured() -> Reports:
    return [
        report(
            second,
            replicate={"quorum_ack": histogram(*range(1, 11)), "leader_ack": histogram(3000) if second == 4 else None},
            fsync=histogram(*([100] * 99), 70_000) if second == 0 else None,
        )
        for second in range(WINDOW)
    ]


def elected(moment: int) -> Reports:
    """Return the reports of 30 seconds in which a leader follows on another one without a pause."""
    return led(range(moment)) + led(range(moment, 30), broker=3, term=7)


def told_by_a_follower() -> Reports:
    """Return the reports of a leader that died before it had reported once, between two others."""
    told = [*led(range(3)), report(3, 2, "follower", term=2, leader=3), *leaderless((4,), term=2)]
    return told + led(range(5, 10), broker=2, term=3)


def deposed() -> Reports:
    told = led(range(3)) + led(range(3, 9), broker=2, term=2)
    # Once the new one reports no more, the deposed one still is none.
    return told + [report(second, 1, "leader", term=1, boot="cut off") for second in range(3, 10)]


def missing() -> Reports:
    """Return reports without the leader's of the last second of a window, and without any of second 15."""
    lost = [(9, 1), (15, 1), (15, 2), (15, 3)]
    return [each for each in led(range(20)) if (each["at"] // SECOND - BASE, each["broker"]) not in lost]


def stalled() -> Reports:
    ends = {0: (10, 10), 1: (20, 10), 2: (30, 10), 4: (30, 10), 5: (40, 30), 6: (50, 40), 7: (50, 50), 8: (50, 50)}
    return [report(second, dirty=dirty, commit=commit) for second, (dirty, commit) in ends.items()] + [report(9)]


def stalled_on() -> Reports:
    told = [report(second, dirty=20, commit=10) for second in range(9, 12)]
    told += [report(second, 2, term=2, dirty=20, commit=10) for second in range(12, 14)]
    return told + [report(second, 2, term=2, dirty=20, commit=20) for second in range(14, 20)]


def writing(seconds: Iterable[int]) -> Reports:
    return [report(each, replicate={"quorum_ack": histogram(5), "leader_ack": None}) for each in seconds]


SCENARIOS: dict[str, Reports] = {
    "lagging": lagging(),
    "ahead": [report(each, followers=followers(b2=150) | {"x": {"dirty": 1}, "3": {}}) for each in range(WINDOW)],
    "measured": measured(),
    "killed": led(range(4)) + leaderless((4, 5)) + led(range(6, WINDOW), broker=2, term=2),
    **{f"elected-{moment}": elected(moment) for moment in (9, 10, 11)},
    "candidates": led(range(3)) + leaderless((3,), term=2) + leaderless((4,), term=3) + led(range(5, 10), 2, 4),
    "told": told_by_a_follower(),
    "deposed": deposed(),
    "missing": missing(),
    "stalled": stalled(),
    "stalled-on": stalled_on(),
    "elected-only": [
        *led(range(4)),
        # Elected, and not in office; who was in office before does not know it yet.
        *(report(second, 2, term=2, in_office=False) for second in (4, 5)),
        report(5, 1),
        *led(range(6, WINDOW), broker=2, term=2),
    ],
    # As brokers say it that know of no office.
    "no-office": [{key: value for key, value in each.items() if key != "in_office"} for each in led(range(WINDOW))],
    "quiet": led(range(5, 8)) + led(range(12, 20), broker=2, term=2),
    # Through one border of windows, and past the next one by a second.
    "border": led(range(8)) + leaderless(range(8, 21)) + led(range(21, 30), broker=2, term=2),
    "again": led((0, 1)) + leaderless((2,)) + led((3,), 2, 2) + leaderless((4, 5), term=2) + led(range(6, 10), 3, 3),
    "twice": writing(range(WINDOW)) * 2,
}


class Figures(NamedTuple):
    """What came of the scenarios, by topic: rows by second, and windows by start, after BASE."""

    seconds: dict[str, dict[int, Any]]
    windows: dict[str, dict[int, Any]]

    def states(self, topic: str) -> dict[int, str]:
        return {second: row.state for second, row in self.seconds[topic].items()}

    def outages(self, topic: str) -> dict[int, list[tuple[str, int, int]]]:
        return {start: spans(row) for start, row in self.windows[topic].items()}


def spans(row: Any) -> list[tuple[str, int, int]]:
    """Return the outages of a window, in seconds after BASE."""

    def after_base(moment: Any) -> int:
        return round(moment.timestamp()) - BASE

    return [(each.state, after_base(each.begin), after_base(each.end)) for each in row.outages]


def frame(spark: Any, records: Iterable[Record]) -> Any:
    def literal(value: bytes | None) -> str:
        return "NULL" if value is None else f"X'{value.hex()}'"

    # As literals: rows from Python would take seconds.
    rows = ", ".join(f"({literal(each.value)}, timestamp_millis({each.timestamp}))" for each in records)
    return spark.sql(f"SELECT CAST(value AS BINARY) AS value, timestamp FROM VALUES {rows} AS told(value, timestamp)")


def second_rows(spark: Any, told: Reports) -> Any:
    found = reports(judged(frame(spark, [record(each) for each in told])))
    return seconds(gathered(found, WINDOW, 10.0)).cache()


@pytest.fixture(scope="module")
def figures(spark: Any) -> Figures:
    told = [each | {"topic": topic, "topic_id": topic} for topic, some in SCENARIOS.items() for each in some]
    rows = second_rows(spark, told)
    found = Figures({}, {})
    for row in seconds_table(rows).collect():
        by_second = found.seconds.setdefault(row.topic, {})
        second = round(row.second.timestamp()) - BASE
        assert second not in by_second
        by_second[second] = row
    for row in windows(rows).where("topic IS NOT NULL").collect():
        found.windows.setdefault(row.topic, {})[round(row.start.timestamp()) - BASE] = row
    return found


def test_lag_is_what_the_leader_has_and_others_have_not(figures: Figures) -> None:
    found = figures.windows["lagging"][0]
    # 0 to 19, once each.
    assert (found.replica_lag_p50, found.replica_lag_p99, found.replica_lag_max) == (9, 19, 19)
    assert (found.commit_lag_p50, found.commit_lag_p99, found.commit_lag_max) == (5, 5, 5)
    row = figures.seconds["lagging"][3]
    assert [(lag.broker, lag.lag) for lag in row.lags] == [(2, 3), (3, 13)]
    assert (row.dirty, row.commit, row.commit_lag, row.leader, row.term) == (100, 95, 5, 1, 1)


def test_a_follower_that_has_more_than_its_leader_is_not_behind_it(figures: Figures) -> None:
    found = figures.windows["ahead"][0]
    assert (found.replica_lag_p50, found.replica_lag_max) == (0, 0)


def test_histograms_are_added_up_by_level(figures: Figures) -> None:
    found = figures.windows["measured"][0]
    # 1 to 10, ten times: the 50th of 100 is a 5, in the bucket up to 8; the 99th is a 10, in that up to 16.
    assert (found.quorum_ack_n, found.quorum_ack_p50_us, found.quorum_ack_p99_us) == (100, 8, 10)
    assert (found.leader_ack_n, found.leader_ack_p50_us, found.leader_ack_max_us) == (1, 3000, 3000)
    assert (found.fsync_n, found.fsync_p50_us, found.fsync_p99_us, found.fsync_max_us) == (100, 128, 128, 70_000)
    by_second = figures.seconds["measured"]
    assert [by_second[each].leader_ack_p99_us for each in (4, 5)] == [3000, None]


def test_a_killed_leader_leaves_seconds_without_one_and_an_election(figures: Figures) -> None:
    row = figures.windows["killed"][0]
    assert (row.led_seconds, row.leaderless_seconds, row.unavailable_seconds, row.silent_seconds) == (8, 2, 2, 0)
    assert (row.elections, row.elections_per_minute) == (1, 6.0)
    assert (row.leader, row.term, row.reports) == (2, 2, 28)
    assert [figures.seconds["killed"][each].state for each in (3, 4, 5, 6)] == ["led", *["leaderless"] * 2, "led"]
    assert [figures.seconds["killed"][each].leader for each in (3, 4, 5, 6)] == [1, None, None, 2]


@pytest.mark.parametrize(("moment", "counts"), [(9, [1, 0, 0]), (10, [0, 1, 0]), (11, [0, 1, 0])])
def test_an_election_counts_once_wherever_the_border_of_windows_is(
    figures: Figures, moment: int, counts: list[int]
) -> None:
    found = figures.windows[f"elected-{moment}"]
    assert [found[start].elections for start in (0, 10, 20)] == counts


def test_terms_in_which_nobody_was_elected_are_no_elections(figures: Figures) -> None:
    assert figures.windows["candidates"][0].elections == 1


def test_a_leader_that_only_its_followers_have_told_of_was_elected(figures: Figures) -> None:
    row = figures.windows["told"][0]
    assert (row.elections, row.leaderless_seconds) == (2, 2)


def test_a_deposed_leader_that_does_not_know_it_leads_nobody(figures: Figures) -> None:
    found = figures.seconds["deposed"]
    assert [found[second].leader for second in range(10)] == [1] * 3 + [2] * 6 + [None]
    assert found[9].state == "leaderless"


def test_a_leader_that_is_elected_and_not_in_office_leads_nobody_yet(figures: Figures) -> None:
    found = figures.states("elected-only")
    assert [found[each] for each in range(3, 7)] == ["led", "leaderless", "leaderless", "led"]
    assert figures.windows["elected-only"][0].elections == 1
    assert {figures.states("no-office")[each] for each in range(WINDOW)} == {"led"}


def test_a_missing_report_of_a_leader_that_goes_on_is_not_a_missing_leader(figures: Figures) -> None:
    found = figures.states("missing")
    assert {found[second] for second in range(20)} == {"led"}
    row = figures.seconds["missing"][15]
    assert (row.leader, row.term, row.dirty, row.reports) == (1, 1, None, 0)


def test_commit_that_does_not_move_while_records_wait_is_a_stall(figures: Figures) -> None:
    found = figures.states("stalled")
    # In second 1 records wait, and nobody knows since when; 3 was not heard, between two that stall.
    assert [found[second] for second in range(10)] == ["led", "led", "stalled", "stalled", "stalled", *["led"] * 5]
    assert figures.windows["stalled"][0].unavailable_seconds == 3


def test_a_stall_goes_on_across_a_border_of_windows_and_a_change_of_leaders(figures: Figures) -> None:
    found = figures.states("stalled-on")
    assert [found[second] for second in range(9, 20)] == ["led", *["stalled"] * 4, *["led"] * 6]


def test_seconds_without_a_leader_that_follow_each_other_are_one_outage(figures: Figures) -> None:
    assert figures.outages("killed")[0] == [("leaderless", 4, 6)]
    assert figures.outages("again")[0] == [("leaderless", 2, 3), ("leaderless", 4, 6)]
    assert figures.outages("no-office")[0] == []


def test_an_outage_that_spans_a_border_of_windows_is_cut_there(figures: Figures) -> None:
    assert figures.outages("border") == {
        0: [("leaderless", 8, 10)],
        10: [("leaderless", 10, 20)],
        20: [("leaderless", 20, 21)],
        30: [],
    }
    assert figures.outages("stalled-on") == {0: [], 10: [("stalled", 10, 14)], 20: []}


def test_silence_is_no_outage_and_a_stall_is_one(figures: Figures) -> None:
    assert figures.outages("stalled")[0] == [("stalled", 2, 5)]
    assert figures.outages("quiet") == {0: [], 10: [], 20: []}


def test_the_outages_of_a_partition_come_to_its_unavailable_seconds(figures: Figures) -> None:
    rows = [row for found in figures.windows.values() for row in found.values()]
    assert [sum(end - begin for _, begin, end in spans(row)) for row in rows] == [
        row.unavailable_seconds for row in rows
    ]


def test_where_nobody_reports_there_is_silence_and_not_before_the_first_report(figures: Figures) -> None:
    found = figures.states("quiet")
    assert [found.get(second) for second in range(4, 14)] == [None, *["led"] * 3, *["silent"] * 4, *["led"] * 2]
    row = figures.windows["quiet"][0]
    assert (row.silent_seconds, row.unavailable_seconds) == (2, 0)
    # What was there before is silent until the window ends that has seen the last of it, and then no more.
    assert [found.get(second) for second in (19, 20, 29, 30)] == ["led", "silent", "silent", None]


def test_a_report_that_is_there_twice_counts_once(figures: Figures) -> None:
    row = figures.windows["twice"][0]
    assert (row.reports, row.quorum_ack_n) == (10, 10)


def test_the_cluster_is_all_partitions_and_a_topic_that_was_made_anew_is_another(spark: Any) -> None:
    def lagging(topic: str, topic_id: str, partition: int, lag: int) -> Reports:
        told = [report(second, followers=followers(b2=100 - lag), recovery_bytes=7) for second in range(10)]
        told += [report(second, 2, "follower", leader=1) for second in range(10)]
        return [each | {"topic": topic, "topic_id": topic_id, "partition": partition} for each in told]

    def without_leader(partition: int, gone: range) -> Reports:
        told = led(range(gone.start)) + leaderless(gone) + led(range(gone.stop, 10), broker=2, term=2)
        return [each | {"topic": "c", "topic_id": "4", "partition": partition} for each in told]

    told = lagging("a", "1", 0, 10) + lagging("a", "2", 0, 20) + lagging("a", "2", 1, 30) + lagging("b", "3", 0, 40)
    told += without_leader(0, range(3, 5)) + without_leader(1, range(4, 7)) + without_leader(2, range(8, 9))
    table = windows(second_rows(spark, told)).where(f"start = timestamp_seconds({BASE})").cache()
    rows = table.collect()
    parts = {(row.topic, row.topic_id, row.partition): row.replica_lag_max for row in rows}
    assert parts == {
        (None, None, None): 40,
        ("a", "1", 0): 10,
        ("a", "2", 0): 20,
        ("a", "2", 1): 30,
        ("b", "3", 0): 40,
        **{("c", "4", partition): None for partition in range(3)},
    }
    whole = next(row for row in rows if row.topic is None)
    assert (whole.partitions, whole.replica_lag_p50, whole.led_seconds, whole.leader) == (7, 20, 64, None)
    assert whole.recovery_bytes == 280
    # Of any partition, and each second once; all that they missed is in the number.
    assert spans(whole) == [("leaderless", 3, 7), ("leaderless", 8, 9)]
    assert whole.unavailable_seconds == 6
    found = [(row.key, json.loads(row.value)) for row in as_records(table).collect()]
    assert sorted(key for key, _ in found) == ["a-0", "a-0", "a-1", "b-0", "c-0", "c-1", "c-2", "cluster"]
    told_of = dict(found)["cluster"]
    assert (told_of["start"], told_of["topic"], told_of["replica_lag_max"]) == ("2026-01-01T00:00:00.000Z", None, 40)
    assert told_of["quorum_ack_p99_us"] is None
    begin, end = "2026-01-01T00:00:08.000Z", "2026-01-01T00:00:09.000Z"
    assert told_of["outages"][1] == {"begin": begin, "end": end, "state": "leaderless"}
    assert dict(found)["b-0"]["outages"] == []


FAR = 40 * 365 * 86_400
NO_REPORTS: list[tuple[bytes | None, str]] = [
    (None, "not_json"),
    (b"", "not_json"),
    (b"\xff\xfe", "not_json"),
    (b"[]", "not_json"),
    (b'"v"', "not_json"),
    (b'{"v": 1, "at"', "not_json"),
    (json.dumps(report(0)).encode() + b" x}", "not_json"),
    (b"{}", "other_version"),
    (json.dumps(report(0, v=2)).encode(), "other_version"),
    (b'{"v": 1}', "incomplete"),
    (json.dumps(report(0, dirty="many")).encode(), "incomplete"),
    (json.dumps(report(0, dirty=-1)).encode(), "incomplete"),
    (json.dumps(report(0, commit=2**63 - 1)).encode(), "incomplete"),
    (json.dumps(report(0, commit=10**30)).encode(), "incomplete"),
    (json.dumps(report(0, role="king")).encode(), "incomplete"),
    (json.dumps(report(0, broker=2**40)).encode(), "incomplete"),
    (json.dumps(report(61)).encode(), "wrong_clock"),
    (json.dumps(report(-61)).encode(), "wrong_clock"),
    (json.dumps(report(0, at=2**53)).encode(), "wrong_clock"),
]
ODD_REPORTS = [
    report(0, boot=12, new={"key": 1}),
    report(1, followers=None, fsync={"n": 1, "buckets": [[1], [], [5, -1], [None, 2], ["x", 1]]}),
    report(2, followers={"2": {"dirty": "x"}, "y": {"dirty": 3}}),
    report(3, fsync=5, replicate=[]),
    report(4, fsync={"max_us": None, "buckets": [[2**60, 1], [8, 2**60], [16, 1]]}),
]


def test_what_is_no_report_is_left_out_and_told_by_its_reason(spark: Any) -> None:
    wanted = [*NO_REPORTS, *((json.dumps(each).encode(), None) for each in ODD_REPORTS)]
    records = [Record(None, value, BASE * SECOND) for value, _ in wanted]
    judgements = judged(frame(spark, records)).cache()
    rows = judgements.select("value", "reason").collect()
    found = {None if row.value is None else bytes(row.value): row.reason for row in rows}
    assert {value: found[value] for value, _ in wanted} == dict(wanted)
    rows = seconds_table(seconds(gathered(reports(judgements), WINDOW, 10.0))).collect()
    assert [row.reports for row in rows][:6] == [1, 1, 1, 1, 1, 0]
    assert (rows[4].fsync_n, rows[4].fsync_p99_us) == (1, 16)


def test_a_report_of_the_future_is_none_though_its_record_is_of_the_same_time(spark: Any) -> None:
    assert [row.reason for row in judged(frame(spark, [record(report(FAR))])).collect()] == ["wrong_clock"]
