"""What is lost at acks=1 beside what brokers' logs say that they have truncated."""

import json
from pathlib import Path
from typing import Any

import pytest

from raftka.chaos.broker_logs import BrokerLogs, Truncation, read_broker_logs
from raftka.chaos.losses import LossReport, compare_losses

_LOG = """\
2026-11-21T10:00:00.000Z INFO    cluster partition orders-0 is group ab12/0
2026-11-21T10:00:01.000Z INFO    raft [orders-0 n1 t3 L] elected by nodes [1, 2]
2026-11-21T10:00:09.500Z INFO    raft [orders-0 n1 t5 F] truncated records: 3@[10, 12) 4@[12, 13)
2026-11-21T10:00:09.600Z INFO    raft [raft0 n1 t5 F] truncated records: 3@[10, 12)
2026-11-21T10:00:09.700Z ERROR   raft [orders-0 n1 t5 F] stops: LogPoisonedError: disk
Traceback (most recent call last):
  File "x.py", line 1, in f
KeyError: 1
"""
# Wall-clock nanoseconds of 10:00:00; histories begin there.
_TEN = 1_795_255_200_000_000_000


@pytest.fixture
def logs(tmp_path: Path) -> BrokerLogs:
    (tmp_path / "broker-1.log").write_text(_LOG)
    return read_broker_logs({1: tmp_path / "broker-1.log"})


def test_truncations_elections_and_complaints_are_found(logs: BrokerLogs):
    at = _TEN + 9_500_000_000
    assert logs.truncations == [
        Truncation("orders-0", 1, 3, 10, 12, at),
        Truncation("orders-0", 1, 4, 12, 13, at),
    ]
    assert [(each.tp, each.node, each.epoch) for each in logs.elections] == [("orders-0", 1, 3)]
    assert len(logs.complaints) == 2
    assert "LogPoisonedError" in logs.complaints[0]
    assert "KeyError" in logs.complaints[1]


def _send(val: str, off: int, **fields: Any) -> dict[str, Any]:
    line = {"f": "send", "type": "ok", "proc": 1, "inv": 5 * 10**9, "ret": 5 * 10**9 + 1, "tp": "orders-0", "acks": "1"}
    return line | {"val": val, "off": off, "node": 1} | fields


def _compare(tmp_path: Path, logs: BrokerLogs, *lines: dict[str, Any], epoch: int = 9) -> LossReport:
    path = tmp_path / "history.jsonl"
    kept = {"f": "poll", "type": "ok", "tp": "orders-0", "inv": 1, "ret": 2, "recs": [[10, "new"]], "final": True}
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in (*lines, kept)))
    return compare_losses(path, logs, {("orders-0", 10): epoch}, -_TEN)


def test_a_lost_record_in_a_truncated_range_of_its_epoch_is_explained(tmp_path: Path, logs: BrokerLogs):
    report = _compare(tmp_path, logs, _send("a", 10), _send("new", 10, node=2))
    assert (report.acked, report.lost, report.cut, report.explained, report.explained_by_epoch) == (2, 1, 1, 1, 1)
    assert report.truncated == 3
    assert report.is_equal


@pytest.mark.parametrize(
    "send",
    [
        pytest.param(_send("a", 13), id="beyond the range"),
        pytest.param(_send("a", 12), id="of another epoch"),
        pytest.param(_send("a", 10, node=2), id="of another broker"),
        pytest.param(_send("a", 10, inv=20 * 10**9, ret=21 * 10**9), id="acknowledged after the truncation"),
    ],
)
def test_a_lost_record_that_nobody_has_truncated_is_told(tmp_path: Path, logs: BrokerLogs, send: dict[str, Any]):
    report = _compare(tmp_path, logs, send)
    assert (report.lost, report.cut, report.explained) == (1, 0, 0)
    assert report.unexplained
    assert not report.is_equal


def test_a_record_whose_broker_is_not_known_is_explained_by_any_truncation(tmp_path: Path, logs: BrokerLogs):
    report = _compare(tmp_path, logs, _send("a", 12, node=None))
    assert (report.explained, report.explained_by_epoch) == (1, 0)


def test_a_truncated_record_that_is_there_all_the_same_is_told(tmp_path: Path, logs: BrokerLogs):
    report = _compare(tmp_path, logs, _send("new", 10), epoch=3)
    assert (report.lost, report.cut, report.explained) == (0, 1, 0)
    assert report.revived == ["orders-0: offset 10 of epoch 3, truncated by broker 1"]
    assert not report.is_equal


def test_as_many_lost_as_truncated_are_not_equal_where_they_are_others(tmp_path: Path, logs: BrokerLogs):
    report = _compare(tmp_path, logs, _send("new", 10), _send("a", 13), epoch=3)
    assert (report.lost, report.cut, report.explained) == (1, 1, 0)
    assert not report.is_equal


def test_a_truncated_record_that_nobody_acknowledged_is_told_if_it_is_there(tmp_path: Path, logs: BrokerLogs):
    report = _compare(tmp_path, logs, _send("new", 10, type="info"), epoch=3)
    assert (report.acked, report.cut) == (0, 0)
    assert not report.is_equal


def test_a_record_at_a_truncated_offset_of_a_later_epoch_is_not_truncated(tmp_path: Path, logs: BrokerLogs):
    report = _compare(tmp_path, logs, _send("new", 10), epoch=9)
    assert (report.lost, report.cut) == (0, 0)
    assert report.is_equal
