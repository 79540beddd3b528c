"""The table of replication (rows R41 to R47): on reports made by hand, by partition, topic, broker and cluster."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from raftka.pipeline.telemetry.charts_data import WantedScope
from raftka.pipeline.telemetry.reading import read_replication
from raftka.pipeline.telemetry.replication import SCOPES, replication
from raftka.pipeline.telemetry.reports import gathered, judged, reports
from tests.pipeline.telemetry_reports import BASE, histogram, led, record, report
from tests.pipeline.test_telemetry_frames import WINDOW, frame

Reports = list[dict[str, Any]]
Rows = dict[tuple[str, str | None, int | None, int | None], dict[int, Any]]

NEWER = {"role": "leader", "in_office": True, "term": 2, "leader": 2, "in_sync": [2, 3], "in_sync_min": 2}
ENTRY = {"entries": 4, "bytes": 400, "bytes_max": 160}


def topic(name: str, partition: int, told: Reports) -> Reports:
    return [each | {"topic": name, "topic_id": f"id-{name}", "partition": partition} for each in told]


def replica(second: int, broker: int, entries: int, unapplied: int, **changes: Any) -> dict[str, Any]:
    """Return the report of a replica of a broker that knows what rows R41 to R46 ask for; broker 1 leads."""
    is_leader = broker == 1
    role = "leader" if is_leader else "follower"
    told = report(second, broker, role, leader=1, in_sync=[1, 2, 3] if is_leader else None)
    written = {"leader": {}, "follower": {}} | {role: {"data": ENTRY}}
    told |= {"entries": entries, "unapplied": unapplied, "min_in_sync": 2, "in_sync_min": 3 if is_leader else None}
    return told | {"appended": written, "replicate_other": None, "replicate_failed": None} | changes


def healthy(second: int, *entries: tuple[int, int], **of_leader: Any) -> Reports:
    """Return the reports of three replicas with (entries, unapplied); the first one leads."""
    return [
        replica(second, broker, *sizes, **(of_leader if broker == 1 else {}))
        for broker, sizes in enumerate(entries, start=1)
    ]


def orders() -> Reports:
    """Return ten healthy seconds of two partitions, with calls in second 3, failures in 5, and a small set in 7."""
    told: Reports = []
    for second in range(WINDOW):
        changes: dict[str, Any] = {"apply": {"data": histogram(50)}}
        if second == 3:
            changes["replicate"] = {"quorum_ack": histogram(*[1000] * 99, 9000), "leader_ack": histogram(100)}
            changes["replicate_other"] = {"quorum_ack": {"barrier": histogram(500)}, "leader_ack": {}}
        if second == 5:
            changes["replicate_failed"] = {"quorum_ack": {"data": 7, "log_start": 1}, "leader_ack": {"data": 2}}
            changes["apply_failed"] = {"log_start": 1}
        if second == 7:
            changes |= {"in_sync_min": 1, "in_sync": [1, 2]}
        told += topic("orders", 0, healthy(second, (100, 10), (90, 0), (80, 20), **changes))
        told += topic("orders", 1, healthy(second, (300, 30), (290, 0), (310, 60), replicate=_only(histogram(2000))))
    return told


def _only(durations: Any) -> dict[str, Any]:
    return {"quorum_ack": durations, "leader_ack": None}


def others() -> Reports:
    """Return a topic that one broker leads alone, one of brokers that say none of it, and a leader that is deposed."""
    alone = {"voters": [1], "in_sync": [1], "in_sync_min": 1, "min_in_sync": 1}
    told = topic("alone", 0, [replica(second, 1, 7, 0, **alone) for second in range(WINDOW)])
    told += topic("old", 0, led(range(WINDOW)))
    for second in range(WINDOW):
        told += topic("deposed", 0, [replica(second, 1, 5, 0, term=1), replica(second, 2, 6, 0, **NEWER)])
    return told


@pytest.fixture(scope="module")
def rows(spark: Any) -> Rows:
    found = reports(judged(frame(spark, [record(each) for each in orders() + others()])))
    table: Rows = {}
    for row in replication(gathered(found, WINDOW, 10.0)).collect():
        by_second = table.setdefault((row.scope, row.topic, row.partition, row.broker), {})
        second = round(row.second.timestamp()) - BASE
        assert second not in by_second
        by_second[second] = row
    return table


def measured(rows: list[Any], *names: str) -> dict[tuple[str, ...], tuple[int, int]]:
    """Return n and failures by key."""
    return {tuple(each[name] for name in names): (each.n, each.failed) for each in rows}


def test_every_scope_has_a_row_for_each_second(rows: Rows) -> None:
    assert {scope for scope, *_ in rows} == set(SCOPES)
    topics = {("orders", 0), ("orders", 1), ("alone", 0), ("old", 0), ("deposed", 0)}
    assert {key for key in rows if key[0] == "partition"} == {("partition", *each, None) for each in topics}
    assert {key for key in rows if key[0] == "topic"} == {("topic", name, None, None) for name, _ in topics}
    assert {key for key in rows if key[0] == "broker"} == {("broker", None, None, each) for each in (1, 2, 3)}
    assert all(sorted(by_second) == list(range(WINDOW)) for by_second in rows.values())


def test_row_r41_logs_of_leaders_and_of_followers_in_sync_are_told_apart(rows: Rows) -> None:
    row = rows["partition", "orders", 0, None][0]
    assert (row.leader_logs, row.leader_entries_avg, row.leader_entries_max) == (1, 100.0, 100)
    assert (row.follower_logs, row.follower_entries_avg, row.follower_entries_max) == (2, 85.0, 90)
    assert (row.leader_unapplied_max, row.follower_unapplied_avg, row.follower_unapplied_max) == (10, 10.0, 20)
    # Broker 3 is not in sync in second 7.
    row = rows["partition", "orders", 0, None][7]
    assert (row.follower_logs, row.follower_entries_avg, row.follower_unapplied_max) == (1, 90.0, 0)


def test_row_r9_entries_are_added_up_by_role_and_kind(rows: Rows) -> None:
    by_key = {
        scope: [(each.role, each.kind, each.entries, each.bytes, each.bytes_max) for each in rows[scope][0].appended]
        for scope in (("topic", "orders", None, None), ("broker", None, None, 3))
    }
    assert by_key["topic", "orders", None, None] == [
        ("leader", "data", 8, 800, 160),
        ("follower", "data", 16, 1600, 160),
    ]
    assert by_key["broker", None, None, 3] == [("follower", "data", 8, 800, 160)]


def test_row_r42_and_r43_calls_and_their_durations_are_told_by_level_and_kind(rows: Rows) -> None:
    row = rows["partition", "orders", 0, None][3]
    assert measured(row.calls, "level", "kind") == {
        ("quorum_ack", "data"): (100, 0),
        ("quorum_ack", "barrier"): (1, 0),
        ("leader_ack", "data"): (1, 0),
    }
    data = next(each for each in row.calls if (each.level, each.kind) == ("quorum_ack", "data"))
    assert (data.p50_us, data.p99_us, data.max_us) == (1024, 1024, 9000)
    # With the other partition's call: in the second place of its percentiles, and not the longest.
    topic_row = rows["topic", "orders", None, None][3]
    assert measured(topic_row.calls, "level", "kind")["quorum_ack", "data"] == (101, 0)
    assert rows["partition", "orders", 0, None][4].calls == []


def test_row_r44_there_is_no_failure_in_a_healthy_second(rows: Rows) -> None:
    by_second = rows["cluster", None, None, None]
    failed = {second: sum(each.failed for each in row.calls) for second, row in by_second.items()}
    assert failed == {second: 10 if second == 5 else 0 for second in range(WINDOW)}
    assert measured(rows["partition", "orders", 0, None][5].calls, "level", "kind") == {
        ("quorum_ack", "data"): (0, 7),
        ("quorum_ack", "log_start"): (0, 1),
        ("leader_ack", "data"): (0, 2),
    }


def test_row_r45_applies_are_told_by_kind(rows: Rows) -> None:
    row = rows["partition", "orders", 0, None][5]
    assert measured(row.applies, "kind") == {("data",): (1, 0), ("log_start",): (0, 1)}
    assert row.applies[0].max_us == 50


def test_row_r46_the_smallest_set_in_sync_of_a_scope_is_told_beside_the_setting(rows: Rows) -> None:
    seven, eight = (rows["topic", "orders", None, None][second] for second in (7, 8))
    assert (seven.min_in_sync, seven.in_sync_min, seven.under_min_in_sync) == (2, 1, 1)
    assert (eight.min_in_sync, eight.in_sync_min, eight.under_min_in_sync) == (2, 3, 0)
    # Broker 1 leads; a broker that follows only says nothing of sets.
    assert rows["broker", None, None, 1][8].in_sync_min == 3
    assert rows["broker", None, None, 3][8].in_sync_min is None


def test_a_partition_with_one_replica_hides_in_no_scope_what_others_lack(rows: Rows) -> None:
    def told(row: Any) -> tuple[int | None, ...]:
        return row.min_in_sync, row.in_sync_min, row.out_of_sync_max, row.under_replicated

    assert told(rows["topic", "alone", None, None][8]) == (None, None, None, 0)
    assert told(rows["topic", "orders", None, None][7]) == (2, 1, 2, 1)
    assert told(rows["topic", "orders", None, None][8]) == (2, 3, 0, 0)
    assert told(rows["broker", None, None, 1][7]) == (2, 1, 2, 1)
    assert told(rows["broker", None, None, 1][8]) == (2, 3, 0, 0)
    # One of `deposed` is out of sync all the time.
    assert told(rows["cluster", None, None, None][7]) == (2, 1, 2, 2)
    assert told(rows["cluster", None, None, None][8]) == (2, 2, 1, 1)


def test_row_r47_scopes_add_up(rows: Rows) -> None:
    for second in range(WINDOW):
        whole = rows["cluster", None, None, None][second]
        for scope in ("partition", "topic", "broker"):
            parts = [by_second[second] for key, by_second in rows.items() if key[0] == scope]
            assert sum(row.leader_logs for row in parts) == whole.leader_logs
            assert sum(row.follower_logs for row in parts) == whole.follower_logs
            assert sum(row.under_min_in_sync for row in parts) == whole.under_min_in_sync
            assert sum(row.under_replicated for row in parts) == whole.under_replicated
            assert max(row.leader_entries_max or 0 for row in parts) == whole.leader_entries_max
            for name, values in (("calls", ("n", "failed")), ("applies", ("n", "failed")), ("appended", ("entries",))):
                for value in values:
                    assert sum(each[value] for row in parts for each in row[name]) == sum(
                        each[value] for each in whole[name]
                    )


def test_reports_of_earlier_brokers_tell_of_sets_in_sync_and_of_nothing_else(rows: Rows) -> None:
    row = rows["partition", "old", 0, None][0]
    assert (row.in_sync_min, row.min_in_sync, row.under_min_in_sync) == (3, None, 0)
    assert (row.leader_logs, row.follower_logs, row.leader_entries_max) == (0, 0, None)
    assert (row.appended, row.calls, row.applies) == ([], [], [])


def test_a_deposed_leader_is_neither_a_leader_nor_a_follower_in_sync(rows: Rows) -> None:
    row = rows["partition", "deposed", 0, None][0]
    assert (row.leader_logs, row.leader_entries_max, row.follower_logs) == (1, 6, 0)


# What a report says that cannot be, and the calls that are left of it.
ODD: list[tuple[dict[str, Any], dict[Any, Any]]] = [
    ({"replicate_failed": {"quorum_ack": {"data": -1, "x": 3, "barrier": "many"}}}, {}),
    ({"replicate_failed": {"quorum_ack": {"data": 2**60, "command": 3}}}, {("quorum_ack", "command"): (0, 3)}),
    ({"replicate_other": {"quorum_ack": {"barrier": {"buckets": [[-1, 1]]}, "new": histogram(1)}}}, {}),
    ({"replicate_other": 7, "apply": [], "appended": {"leader": {"data": {"entries": 2**60}}}}, {}),
    ({"entries": -1, "in_sync": "all", "in_sync_min": 2**40, "apply_failed": {"data": None}}, {}),
]


def test_figures_that_cannot_be_are_left_out(spark: Any) -> None:
    told = [
        each
        for number, (changes, _) in enumerate(ODD)
        for each in topic(f"odd-{number}", 0, [replica(0, 1, 5, 0) | {"appended": None} | changes])
    ]
    found = reports(judged(frame(spark, [record(each) for each in told])))
    odd = {row.topic: row for row in replication(gathered(found, WINDOW, 10.0)).where("scope = 'topic'").collect()}
    for number, (_, calls) in enumerate(ODD):
        row = odd[f"odd-{number}"]
        assert measured(row.calls, "level", "kind") == calls
        assert (row.appended, row.applies) == ([], [])
    assert (odd["odd-4"].leader_entries_max, odd["odd-4"].in_sync_min) == (None, None)


def test_batches_of_before_that_do_not_tell_how_many_are_out_of_sync_are_drawn_as_well(
    spark: Any, tmp_path: Path
) -> None:
    def read(*names: str) -> list[int | None]:
        places = [str(tmp_path / name) for name in names]
        folder: Any = SimpleNamespace(path=tmp_path, table=lambda _: places)
        return [second.out_of_sync_max for second in read_replication(spark, folder, WantedScope())]

    for second, name in enumerate(("old", "new")):
        told = [record(replica(second, broker, 5, 0)) for broker in (1, 2, 3)]
        table = replication(gathered(reports(judged(frame(spark, told))), WINDOW, 10.0)).coalesce(1)
        dropped = ("out_of_sync_max", "under_replicated") if name == "old" else ()
        table.drop(*dropped).write.parquet(str(tmp_path / name))
    assert read("old") == [None]
    assert read("old", "new") == read("new", "old") == [None, 0]
