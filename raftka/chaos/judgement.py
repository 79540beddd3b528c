"""What is said of a run: the checker's verdict, whether the run proves anything, and everything that is left of it."""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from raftka.chaos.broker_logs import BrokerLogs, read_broker_logs
from raftka.chaos.duplicates import tell_duplicates
from raftka.chaos.history import History
from raftka.chaos.losses import LossReport, compare_losses
from raftka.chaos.report import write_report
from raftka.chaos.run_facts import Judgement, Outcome, RunFacts, RunRequest
from raftka.chaos.run_folder import keep_cluster
from raftka.chaos.schedule import NEMESES
from raftka.chaos.summary import count_faults, summarize
from raftka.chaos.workload import Workload
from raftka.check.errors import HistoryError
from raftka.check.levels import Level
from raftka.check.lists.history import read_list_history
from raftka.check.lists.model import check_lists
from raftka.check.log.builder import read_log_history
from raftka.check.log.model import check_log
from raftka.check.register_history import read_register_history
from raftka.check.register_model import check_register
from raftka.check.render import render
from raftka.check.verdict import Verdict

# So much has to be acknowledged before the first fault, during the faults, and after the last one. Making a topic takes
# many times as long as a record, and so does a transaction.
_ACKED_MIN = {"log": 100, "cas": 20, "append": 10}


def judge(
    request: RunRequest, history: History, facts: RunFacts, workload: Workload, logs: Mapping[int, Path]
) -> Judgement:
    """Judge a run whose history is closed, and write everything into its folder."""
    found = read_broker_logs(logs)
    problems = _problems(request, history, facts, _ACKED_MIN[workload.model])
    verdict: Verdict | None = None
    try:
        verdict = _checked(history.path, workload.model)
    except HistoryError as error:
        problems.append(f"the history cannot be judged: {error}")
    losses = None
    # A record that the final reads had no time for is not lost.
    if request.acks == "1" and request.workload == "log" and logs and verdict is not None and facts.is_read_finally:
        wall_to_run = history.began_ns - history.began_wall_ns
        losses = compare_losses(history.path, found, workload.epochs, wall_to_run)
    outcome = _outcome(verdict, losses, problems)
    summary = summarize(request, history, facts, found, verdict, losses, problems, outcome)
    lines = _lines(verdict, losses, problems, facts, history, found)
    if verdict is not None and (duplicates := tell_duplicates(verdict, workload.producers)):
        lines += ["", "who wrote duplicates:", *(f"  {each}" for each in duplicates)]
    judgement = Judgement(outcome, verdict, losses, problems, lines, summary)
    _write(request.out, judgement, history, workload, facts)
    if outcome == "anomalies":
        keep_cluster(request.out)
    return judgement


def _outcome(verdict: Verdict | None, losses: LossReport | None, problems: list[str]) -> Outcome:
    if (verdict is not None and not verdict.is_valid) or (losses is not None and not losses.is_equal):
        return "anomalies"
    return "invalid" if problems else "valid"


def _checked(history: Path, model: str) -> Verdict:
    if model == "log":
        return check_log(read_log_history([history]), Level.QUORUM_ACK)
    if model == "append":
        return check_lists(read_list_history([history]))
    return check_register(read_register_history([history], has_cas=True), model)


def _problems(request: RunRequest, history: History, facts: RunFacts, acked_min: int) -> list[str]:
    """Return why a run proves nothing, however its verdict is."""
    problems = list(facts.problems)
    if facts.compaction is not None and not (facts.compaction.passes and facts.compaction.removed):
        problems.append(
            f"passes of compaction: {facts.compaction.passes}, and they removed {facts.compaction.removed} records:"
            " nothing shows that a table survives passes"
        )
    if not request.nemeses:
        if history.acked < acked_min:
            problems.append(f"only {history.acked} operations were acknowledged, fewer than {acked_min}")
        return problems
    absent = [name for name in request.nemeses if not _has_happened(name, history)]
    problems += [f"nemesis {name} was asked for, and did not happen" for name in absent]
    if absent == request.nemeses:
        return problems
    instants = [fault["inv"] for fault in history.faults]
    first, last = instants[0], instants[-1]
    for when, begin, end in (
        ("before the first fault", facts.began_ns, first),
        ("during the faults", first, last),
        ("after the last fault", history.last_fault_end_ns, facts.ended_ns),
    ):
        acked = history.acked_between(begin, end)
        if acked < acked_min:
            problems.append(f"only {acked} operations were acknowledged {when}, fewer than {acked_min}")
    return problems


def _has_happened(nemesis: str, history: History) -> bool:
    """Whether one of the things that a nemesis does was done; a transfer is done when a leader has handed over."""
    signs = {"transferred"} if nemesis == "transfer" else NEMESES[nemesis].keys()
    return any(fault.get("nemesis") == nemesis and fault["name"] in signs for fault in history.faults)


def _lines(
    verdict: Verdict | None,
    losses: LossReport | None,
    problems: list[str],
    facts: RunFacts,
    history: History,
    logs: BrokerLogs,
) -> list[str]:
    lines = [f"INVALID RUN: {problem}" for problem in problems]
    counts = ", ".join(f"{number} {name}" for name, number in count_faults(history).items())
    lines += [f"faults: {counts or 'none'}"]
    if facts.compaction is not None:
        told = facts.compaction
        lines.append(
            f"compaction: passes {told.passes:,}, failed passes {told.failures:,}, removed records {told.removed:,}"
            " (counted on each replica)"
        )
    lines += [f"not done: {each.kind} ({each.nemesis}), due at {each.at:.0f} s" for each in facts.undone]
    if verdict is not None:
        # "valid" is said of runs; a run that proves nothing is not.
        lines += render(verdict, explained=True, if_valid="no anomaly" if problems else "valid")
    if losses is not None:
        lines += [
            "",
            f"lost and truncated are {'equal' if losses.is_equal else 'NOT EQUAL'}:",
            f"  {losses.acked} records were acknowledged by a leader alone; of these",
            f"  {losses.lost} are lost: the final reads miss them",
            f"  {losses.cut} are truncated: they lie in ranges that brokers report to have cut off",
            f"  {losses.explained} are both, {losses.explained_by_epoch} by broker and epoch, the others by offset",
            f"  {losses.truncated} records were truncated, acknowledged or not",
            *(f"  lost, and not truncated: {each}" for each in losses.unexplained),
            *(f"  truncated, and there: {each}" for each in losses.revived),
        ]
    lines += [f"broker {node} ended by itself with exit code {code}: {said}" for node, code, said in facts.deaths]
    if logs.complaints:
        lines += ["", "errors in brokers' logs:", *(f"  {each}" for each in logs.complaints)]
    return lines


def _write(out: Path, judgement: Judgement, history: History, workload: Workload, facts: RunFacts) -> None:
    (out / "verdict.txt").write_text("\n".join(judgement.lines) + "\n")
    document = {"valid": judgement.outcome == "valid", "outcome": judgement.outcome, "problems": judgement.problems}
    document |= {"verdict": msgspec.to_builtins(judgement.verdict), "losses": msgspec.to_builtins(judgement.losses)}
    (out / "verdict.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    (out / "summary.json").write_text(json.dumps(judgement.summary, indent=2, ensure_ascii=False) + "\n")
    write_report(out / "report.html", judgement, history, workload.watch.reigns, facts.ended_ns)
