"""Log lines as text and as JSON."""

import json
import logging
import subprocess
import sys

import pytest

from model.replica_tag import TAG, ReplicaTag
from raftka.broker.logs import JsonFormatter, TextFormatter

KEYS = ["time", "level", "logger", "node", "partition", "term", "role", "message", "traceback"]
ORDERS = ReplicaTag("orders-0", 2, 1, "L")


def _record(message: str, *values: object, tag: ReplicaTag | None = None, error: bool = False) -> logging.LogRecord:
    caught = sys.exc_info() if error else None
    record = logging.LogRecord("raft", logging.WARNING, "x.py", 1, message, values, caught)
    record.created, record.msecs = 1_795_334_400.25, 250.0
    if tag is not None:
        setattr(record, TAG, tag)
    return record


def test_a_line_of_text_has_time_level_logger_and_message() -> None:
    line = TextFormatter().format(_record(ORDERS.on("elected by nodes %s"), [2, 3], tag=ORDERS))
    assert line == "2026-11-22T08:00:00.250Z WARNING raft [orders-0 n2 t1 L] elected by nodes [2, 3]"


def test_a_line_of_json_has_the_replica_in_fields_and_not_in_the_message() -> None:
    line = json.loads(JsonFormatter(2).format(_record(ORDERS.on("elected by nodes %s"), [2, 3], tag=ORDERS)))
    assert list(line) == KEYS
    assert line == {
        "time": "2026-11-22T08:00:00.250Z",
        "level": "WARNING",
        "logger": "raft",
        "node": 2,
        "partition": "orders-0",
        "term": 1,
        "role": "L",
        "message": "elected by nodes [2, 3]",
        "traceback": None,
    }


@pytest.mark.parametrize(
    "message", ["two\nlines", "a separator \u2028 of lines", 'quotes " and \\', "half a pair \ud800", "\x00\x1b[31m"]
)
def test_any_message_is_one_line_of_ascii_that_reads_back(message: str) -> None:
    line = JsonFormatter(1).format(_record("%s", message))
    assert line.isascii()
    assert len(line.splitlines()) == 1
    read = json.loads(line)
    assert list(read) == KEYS
    assert read["message"] == message
    assert (read["partition"], read["term"], read["role"]) == (None, None, None)


def test_a_traceback_is_a_field_of_the_same_line() -> None:
    try:
        raise ValueError("in\nvain")
    except ValueError:
        line = JsonFormatter(1).format(_record("a request failed", error=True))
    assert len(line.splitlines()) == 1
    read = json.loads(line)
    assert read["message"] == "a request failed"
    assert read["traceback"].startswith("Traceback (most recent call last):\n")
    assert read["traceback"].endswith("ValueError: in\nvain")


_PROGRAM = """
import logging, threading, warnings
from raftka.broker.logs import configure_logging

class Bad:
    def __del__(self):
        raise ValueError("unraisable")

def fail():
    raise ValueError("in a thread")

tell = configure_logging("INFO", "json", 3)
logging.getLogger("raft").info("hello")
tell("the last line")
warnings.warn("be warned", stacklevel=1)
bad = Bad()
del bad
thread = threading.Thread(target=fail, name="worker-1")
thread.start()
thread.join()
raise ValueError("uncaught")
"""


def test_whatever_a_process_with_json_prints_is_one_object_per_line() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert all(list(line) == KEYS and line["node"] == 3 for line in lines)
    assert [(line["level"], line["logger"]) for line in lines] == [
        ("INFO", "raft"),
        ("CRITICAL", "broker"),
        ("WARNING", "py.warnings"),
        ("ERROR", "broker"),
        ("CRITICAL", "broker"),
        ("CRITICAL", "broker"),
    ]
    assert lines[1]["message"] == "the last line"
    assert "be warned" in lines[2]["message"]
    causes = [str(line["traceback"]).splitlines()[-1] for line in lines[3:]]
    assert causes == [f"ValueError: {cause}" for cause in ("unraisable", "in a thread", "uncaught")]
    assert "worker-1" in lines[4]["message"]


def test_the_line_of_an_end_is_marked_in_text() -> None:
    program = "from raftka.broker.logs import configure_logging; configure_logging('INFO', 'text', 1)('it ends')"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert ended.stderr == "raftka: it ends\n"
