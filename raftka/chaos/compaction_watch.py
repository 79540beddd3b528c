"""How many passes of compaction brokers have made during a run, and what they have removed, as their metrics tell."""

import http.client
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_ANSWER_SECONDS = 2.0
_POLL_SECONDS = 0.5
_BYTES_MAX = 16 * 1024 * 1024
_PASSES = "raftka_compaction_passes_total"
_FAILURES = "raftka_compaction_failures_total"
_REMOVED = "raftka_compaction_removed_records_total"


class CompactionCounts(NamedTuple):
    """Sums over all brokers.

    Attributes:
        passes: Passes that have ended well.
        failures: Passes that have not.
        removed: Records that passes have removed; each replica removes its own.
    """

    passes: int = 0
    failures: int = 0
    removed: int = 0


_NOTHING = CompactionCounts()


@dataclass(slots=True)
class _Broker:
    """What a broker has told last, and what it had counted before it started again."""

    last: CompactionCounts = _NOTHING
    before: CompactionCounts = _NOTHING


class CompactionWatch:
    """Asks all brokers twice a second, in a thread of its own. A context manager.

    A broker that starts again counts from 0. So the sums lack what it has counted between its last answer and its end.

    Args:
        addresses: Returns HOST:PORT of the admin port of each broker, by node id.
    """

    def __init__(self, addresses: Callable[[], Mapping[int, str]]) -> None:
        self._addresses = addresses
        self._brokers: dict[int, _Broker] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="compaction-watch", daemon=True)

    def __enter__(self) -> "CompactionWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(2 * _ANSWER_SECONDS)

    @property
    def counts(self) -> CompactionCounts:
        """What was counted so far."""
        parts = [part for each in list(self._brokers.values()) for part in (each.before, each.last)]
        return CompactionCounts(*map(sum, zip(*parts, strict=True))) if parts else _NOTHING

    def note(self, node: int, told: CompactionCounts) -> None:
        """Take what a broker tells."""
        broker = self._brokers.setdefault(node, _Broker())
        if any(now < before for now, before in zip(told, broker.last, strict=True)):
            # It has started again.
            broker.before = CompactionCounts(*map(sum, zip(broker.before, broker.last, strict=True)))
        broker.last = told

    def _run(self) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            for node, address in self._addresses().items():
                told = read_counts(address)
                if told is not None:
                    self.note(node, told)


def read_counts(address: str) -> CompactionCounts | None:
    """Return what the broker whose admin port is at HOST:PORT has counted since its start; None: it does not answer."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        text = response.read(_BYTES_MAX).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return parse_counts(text) if response.status == http.client.OK else None


def parse_counts(text: str) -> CompactionCounts | None:
    """Return the counts in the text of a metrics page; None: not all of them are there."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        if name in (_PASSES, _FAILURES, _REMOVED):
            found[name] = int(float(number))
    if len(found) < len(CompactionCounts._fields):
        return None
    return CompactionCounts(found[_PASSES], found[_FAILURES], found[_REMOVED])
