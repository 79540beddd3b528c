"""Small histories, told line by line; time goes on by itself."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from raftka.check.levels import Level
from raftka.check.log.builder import LogHistoryBuilder
from raftka.check.log.model import check_log
from raftka.check.operations import Line
from raftka.check.verdict import Verdict

MS = 1_000_000
_decoder = msgspec.json.Decoder(Line)

READER, LAST_READER = 1, 2


@dataclass
class Story:
    """A history of one partition, unless `tp` says another; every send is a process of its own, unless `proc` says."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    now: int = 0

    def span(self) -> dict[str, int]:
        """An instant for the beginning and the next one for the end."""
        self.now += 2
        return {"inv": (self.now - 1) * MS, "ret": self.now * MS}

    def add(self, f: str, **fields: Any) -> "Story":
        self.lines.append({"f": f, **self.span(), **fields})
        return self

    def send(self, val: str, off: int | None = None, **fields: Any) -> "Story":
        defaults = {"type": "ok", "proc": 1000 + len(self.lines), "tp": "t-0", "acks": "all", "val": val, "off": off}
        return self.add("send", **(defaults | fields))

    def poll(self, *recs: tuple[int, str], **fields: Any) -> "Story":
        return self.add("poll", **({"type": "ok", "proc": READER, "tp": "t-0", "recs": recs} | fields))

    def final(self, *recs: tuple[int, str], **fields: Any) -> "Story":
        return self.poll(*recs, **({"proc": LAST_READER, "final": True} | fields))

    def latest(self, off: int, **fields: Any) -> "Story":
        return self.add("latest", **({"type": "ok", "proc": 3, "tp": "t-0", "off": off} | fields))

    def fault(self, name: str) -> "Story":
        self.now += 2
        self.lines.append({"f": "fault", "name": name, "inv": self.now * MS})
        return self

    def operations(self) -> list[Line]:
        return [_decoder.decode(msgspec.json.encode(line)) for line in self.lines]

    def check(self, level: Level = Level.QUORUM_ACK) -> Verdict:
        return judge(self.operations(), level)

    def found(self, level: Level = Level.QUORUM_ACK) -> set[str]:
        return {finding.name for finding in self.check(level).findings}


def judge(operations: list[Line], level: Level = Level.QUORUM_ACK) -> Verdict:
    builder = LogHistoryBuilder()
    builder.add(1, operations)
    return check_log(builder.build(), level)
