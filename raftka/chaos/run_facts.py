"""What a run is asked to do, what became of it, and what is said of it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from raftka.chaos.compaction_watch import CompactionCounts
from raftka.chaos.load import Acks
from raftka.chaos.losses import LossReport
from raftka.chaos.schedule import Fault, Schedule
from raftka.check.verdict import Verdict

WorkloadName = Literal["log", "register", "txn", "compacted"]
Outcome = Literal["valid", "anomalies", "invalid"]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What was asked for.

    Attributes:
        out: The run's folder; new or empty.
        bootstrap: A cluster that is there; None: one of `brokers` brokers is made.
        nemeses: Empty for none.
        rate: Operations per second, or transactions.
    """

    out: Path
    brokers: int
    bootstrap: str | None
    workload: WorkloadName
    acks: Acks
    nemeses: list[str]
    schedule: Schedule
    rate: float
    command: str


@dataclass(slots=True)
class RunFacts:
    """What became of a run, apart from its history.

    Attributes:
        undone: Faults that were due and have not happened.
        deaths: Node, exit code and last line of the log of brokers that nobody had killed.
        is_read_finally: Whether the final reads are complete.
        problems: Why it proves nothing.
        compaction: Passes of compaction, and what they have removed; None: nobody has asked for that.
    """

    began_ns: int
    ended_ns: int = 0
    deaths: tuple[tuple[int, int, str], ...] = ()
    undone: list[Fault] = field(default_factory=list)
    is_read_finally: bool = False
    problems: list[str] = field(default_factory=list)
    compaction: CompactionCounts | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The end of a run.

    Attributes:
        outcome: Anomalies count even where the run proves nothing else; `invalid` is one without, that proves nothing.
        verdict: What the checker says; None: it cannot judge the history.
        losses: At acks=1, what was compared with the brokers' logs.
        problems: Why the run proves nothing.
        lines: All of it as text.
        summary: All of it as data.
    """

    outcome: Outcome
    verdict: Verdict | None
    losses: LossReport | None
    problems: list[str]
    lines: list[str]
    summary: dict[str, Any]
