"""Random histories of one compacted partition: replicas that compact by themselves, writers, and readers of the table.

The model is a list of records, and for each of two replicas the set of offsets that its passes have removed. A pass
removes what a later record of its key supersedes, up to its end. It removes a tombstone once all replicas are clean up
to there, and `RETENTION` has gone by since this replica cleaned it first.
"""

from dataclasses import dataclass, field
from typing import Any

RETENTION = 25
MS = 1_000_000
KEYS = "abc"


@dataclass
class Record:
    key: str
    val: str
    deletes: bool


def fold(records):
    """Return the table that records make, in their order: by key its value."""
    table = {}
    for record in records:
        if record.deletes:
            table.pop(record.key, None)
        else:
            table[record.key] = record.val
    return table


@dataclass
class Replica:
    removed: set = field(default_factory=set)
    clean: int = 0
    cleaned_at: dict = field(default_factory=dict)


@dataclass
class Table:
    """A partition, its replicas, and the lines of a history of it."""

    rng: Any
    now: int = 1
    log: list = field(default_factory=list)
    replicas: list = field(default_factory=lambda: [Replica(), Replica()])
    lines: list = field(default_factory=list)
    positions: dict = field(default_factory=dict)

    def step(self):
        self.now += self.rng.randrange(1, 5)
        return self.now

    def send(self):
        key, kind = self.rng.choice(KEYS), self.rng.choice(["ok", "ok", "ok", "ok", "info", "fail"])
        record = Record(key, f"v{len(self.lines)}", self.rng.random() < 0.35)
        line = {"f": "send", "type": kind, "proc": 100 + len(self.lines), "tp": "t-0", "acks": "all", "idem": True}
        line |= {"inv": self.step() * MS, "val": record.val, "key": key, "tombstone": record.deletes, "off": None}
        if kind == "ok" or (kind == "info" and self.rng.random() < 0.5):
            self.log.append(record)
        if kind == "ok" and self.rng.random() < 0.9:
            line["off"] = len(self.log) - 1
        self.lines.append(line | {"ret": self.step() * MS})

    def compact(self, replica, *, whole=False):
        # The newest record of a log stays, whatever it is.
        largest = max(replica.clean, len(self.log) - 1)
        end = largest if whole else self.rng.randrange(replica.clean, largest + 1)
        bound = min(each.clean for each in self.replicas)
        last = {record.key: offset for offset, record in enumerate(self.log[:end])}
        for offset, record in enumerate(self.log[:end]):
            replica.cleaned_at.setdefault(offset, self.now)
            is_old = self.now - replica.cleaned_at[offset] >= RETENTION
            if last[record.key] > offset or (record.deletes and offset < bound and is_old):
                replica.removed.add(offset)
        replica.clean = end

    def held(self, replica, begin):
        return [
            (offset, record.val)
            for offset, record in enumerate(self.log)
            if offset >= begin and offset not in replica.removed
        ]

    def poll(self, proc, replica, *, final=False, whole=False):
        begin, inv = self.positions.get(proc, 0), self.step()
        records = self.held(replica, begin)
        if not whole:
            records = records[: self.rng.randrange(1, 5)]
        if records:
            self.positions[proc] = records[-1][0] + 1
        line = {"f": "poll", "type": "ok", "proc": proc, "tp": "t-0", "inv": inv * MS, "ret": self.step() * MS}
        self.lines.append(line | {"recs": records, "hw": len(self.log), "final": final})
        return records

    def seek(self, proc):
        self.positions[proc] = 0
        self.lines.append({"f": "seek", "proc": proc, "tp": "t-0", "off": 0, "inv": self.step() * MS})


def compacted_history(rng, steps=None):
    """Return (a Table whose lines are a legal history, what the final read has found)."""
    table = Table(rng)
    table.lines.append({"f": "compact", "tp": "t-0", "inv": 0, "delete_retention_ms": RETENTION})
    table.seek(1)
    for _ in range(steps or rng.randrange(3, 40)):
        what = rng.choice(["send", "send", "send", "compact", "compact", "poll", "poll", "seek", "wait"])
        if what == "send":
            table.send()
        elif what == "compact":
            table.compact(rng.choice(table.replicas))
        elif what == "seek":
            table.seek(1)
        elif what == "wait":
            table.now += RETENTION
        else:
            table.poll(rng.choice([1, 2]), rng.choice(table.replicas))
    if not any(line["f"] == "send" and line["type"] == "ok" for line in table.lines):
        table.log.append(Record("a", "last", deletes=False))
        line = {"f": "send", "type": "ok", "proc": 99, "tp": "t-0", "acks": "all", "val": "last", "key": "a"}
        table.lines.append(line | {"inv": table.step() * MS, "ret": table.step() * MS, "off": len(table.log) - 1})
    for _ in range(rng.choice([0, 2])):
        for replica in table.replicas:
            table.compact(replica, whole=True)
        table.now += RETENTION
    leader = rng.choice(table.replicas)
    table.seek(3)
    found = table.poll(3, leader, final=True, whole=True)
    return table, found
