"""What brokers' own logs say of a run: elections, and what was truncated.

A truncated range is where records went that a leader had alone: at acks=1 they may have been acknowledged, and what was
lost must be what the brokers say that they have cut (design: what each level promises).
"""

import re
from calendar import timegm
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from time import strptime
from typing import NamedTuple

_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{3})Z (\w+) +\S+ (.*)")
# raft0 is no partition, and has no number.
_OF_PARTITION = re.compile(r"\[(\S+-\d+) n(\d+) t(\d+) \S+\] (.*)")
_NAMED = re.compile(r"partition (\S+) is group (\S+)")
_TRUNCATED = re.compile(r"truncated records: (.*)")
_RANGE = re.compile(r"(\d+)@\[(\d+), (\d+)\)")


class Truncation(NamedTuple):
    """Records [first, end) of one leader epoch that a broker has cut off its log; `at_ns` is wall-clock time."""

    tp: str
    node: int
    epoch: int
    first: int
    end: int
    at_ns: int


class Election(NamedTuple):
    """A broker was elected; `at_ns` is wall-clock time."""

    tp: str
    node: int
    epoch: int
    at_ns: int


class BrokerLogs(NamedTuple):
    """What was found."""

    truncations: list[Truncation]
    elections: list[Election]
    # Lines that no run should have: errors, and exceptions that nobody caught; at most some of each broker.
    complaints: list[str]


_COMPLAINTS_MAX = 20


def group_names(logs: Iterable[Path]) -> dict[str, str]:
    """Return the partition, as `topic-number`, of every group that a log names."""
    found: dict[str, str] = {}
    for path in logs:
        for _, _, text in _lines(path):
            if match := _NAMED.match(text):
                found[match[2]] = match[1]
    return found


def read_broker_logs(logs: Mapping[int, Path]) -> BrokerLogs:
    """Return what brokers' logs, by node id, say of partitions."""
    found = BrokerLogs([], [], [])
    for node, path in logs.items():
        complaints = []
        for at_ns, level, text in _lines(path):
            if level in ("ERROR", "CRITICAL"):
                complaints.append(f"broker {node}: {text}")
            match = _OF_PARTITION.match(text)
            if match is None:
                continue
            tp = match[1]
            if match[4].startswith("elected by"):
                found.elections.append(Election(tp, node, int(match[3]), at_ns))
            elif told := _TRUNCATED.match(match[4]):
                for epoch, first, end in _RANGE.findall(told[1]):
                    found.truncations.append(Truncation(tp, node, int(epoch), int(first), int(end), at_ns))
        complaints += [f"broker {node}: {line}" for line in _unformatted(path)]
        found.complaints.extend(complaints[:_COMPLAINTS_MAX])
    return found


def _lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (wall-clock nanoseconds, level, text) of each line that the broker's logging has written."""
    with path.open(errors="replace") as stream:
        for line in stream:
            if match := _LINE.match(line):
                seconds = timegm(strptime(match[1], "%Y-%m-%dT%H:%M:%S"))
                yield (seconds * 1000 + int(match[2])) * 1_000_000, match[3], match[4]


def _unformatted(path: Path) -> Iterator[str]:
    """Yield the last lines of tracebacks: what went wrong where nobody had thought of it."""
    with path.open(errors="replace") as stream:
        is_in_traceback = False
        for line in stream:
            if line.startswith("Traceback"):
                is_in_traceback = True
            elif is_in_traceback and not line.startswith(" "):
                is_in_traceback = False
                yield line.rstrip()
