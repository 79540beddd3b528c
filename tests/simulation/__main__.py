"""`python -m tests.simulation --seed N | --seeds A..B | --minimise N`: replay one run, run many, make one small."""

import argparse
import contextlib
import logging
import math
import os
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from tests.simulation.campaign.campaign import plan_of, run_seeds
from tests.simulation.campaign.campaign_part import CampaignRecorder
from tests.simulation.campaign.campaign_report import add_part
from tests.simulation.campaign.minimise import Minimised, PassedError, minimise
from tests.simulation.campaign.plan import RUN_SECONDS, SECONDS_MIN, Plan
from tests.simulation.campaign.processes import interruptible, number_of_processes
from tests.simulation.campaign.run import RunResult, run
from tests.simulation.campaign.sources import sources
from tests.simulation.known_bugs.table import BUGS, plant


def main() -> int:
    """Run what the command line asks for; 0 if every run passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, help="run one seed and print its log, trace hash and counts")
    what.add_argument("--seeds", type=_range, metavar="A..B", help="run the seeds A to B, both included")
    what.add_argument("--minimise", type=int, metavar="SEED", help="leave out what a failing run does not need to fail")
    what.add_argument("--plan", type=_plan, metavar="FILE", help="run what --minimise has left, again")
    parser.add_argument("--seconds", type=_seconds, default=RUN_SECONDS, help="virtual seconds (default %(default)s)")
    parser.add_argument("--jobs", type=number_of_processes, default=1, help="processes (default %(default)s)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="with --seeds: add a part to the page there")
    parser.add_argument("--log", action="store_true", help="with --seed or --plan: print the brokers' log lines too")
    parser.add_argument(
        "--bug",
        choices=sorted(bug.name for bug in BUGS),
        metavar="NAME",
        help="plant one of tests/simulation/known_bugs",
    )
    arguments = parser.parse_args()
    if arguments.bug is not None and arguments.report is not None:
        parser.error("a report is of the product as it is: --bug does not go with --report")
    if arguments.bug is not None:
        # For the rest of the process.
        plant(pytest.MonkeyPatch(), arguments.bug)
    if arguments.seeds is not None:
        return _many(arguments)
    if arguments.minimise is not None:
        return _minimised(plan_of(arguments.minimise, arguments.seconds, arguments.bug), arguments.bug)
    plan = arguments.plan or plan_of(arguments.seed, arguments.seconds, arguments.bug)
    return _one(plan, arguments.log)


def _plan(text: str) -> Plan:
    try:
        return msgspec.json.decode(Path(text).read_bytes(), type=Plan)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot read {text}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{text} is not a plan that --minimise has left: {error}") from None


def _range(text: str) -> range:
    first, separator, last = text.partition("..")
    try:
        seeds = range(int(first), int(last) + 1)
        if not separator or not seeds:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not A..B with A <= B") from None
    return seeds


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
        if not SECONDS_MIN <= seconds < math.inf:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {SECONDS_MIN:g} or more: no time for faults") from None
    return seconds


def _one(plan: Plan, with_log: bool) -> int:
    logging.basicConfig(stream=sys.stdout, level=logging.DEBUG if with_log else logging.CRITICAL, format="%(message)s")
    result = run(plan)
    print("\n".join(result.lines))
    _tell_what_was_done(plan, result)
    for name, count in sorted(result.counts.items()):
        print(f"  {count:8} {name}")
    print(f"trace {result.digest} over {result.events} events")
    print("passed" if result.error is None else f"FAILED: {result.error}")
    return 0 if result.error is None else 1


def _tell_what_was_done(plan: Plan, result: RunResult) -> None:
    print(f"seed {plan.seed}, {plan.seconds:g} virtual seconds, sources {sources()}")
    print(f"drawn: {result.configuration}")
    print(f"kinds of faults: {' '.join(result.kinds)}")
    print("\n".join(f"  fault {fault.number:4} {fault.second:10.3f} s  {fault.kind}" for fault in result.faults))


def _minimised(plan: Plan, bug: str | None) -> int:
    logging.disable(logging.CRITICAL)
    path = Path(f"sim-{plan.seed}.json")
    try:
        small = minimise(plan, tell=lambda found: _keep(path, found))
    except PassedError as error:
        print(error)
        return 2
    print("\n".join(small.result.lines))
    _tell_what_was_done(small.plan, small.result)
    print(f"FAILED: {small.result.error}")
    print(f"{small.events} of {small.events_before} faults and operations are left, after {small.runs} runs")
    print(f"again: python -m tests.simulation --plan {path}" + ("" if bug is None else f" --bug {bug}"))
    return 1


def _keep(path: Path, found: Minimised) -> None:
    """Write the best plan so far: whoever has no more patience has that."""
    path.write_bytes(msgspec.json.encode(found.plan))
    print(f"\r{found.runs} runs, {found.events} of {found.events_before} events left", end="", file=sys.stderr)


def _many(arguments: argparse.Namespace) -> int:
    logging.disable(logging.CRITICAL)
    seeds, seconds, jobs, bug = arguments.seeds, arguments.seconds, arguments.jobs, arguments.bug
    found = CampaignRecorder(seeds, seconds, jobs, bug)
    with interruptible(), contextlib.closing(run_seeds(seeds, seconds, jobs, bug)) as results:
        for result in results:
            found.add(result)
            _tell_of(result, bug)
            if found.part.runs % 100 == 0:
                print(f"{found.part.runs} of {len(seeds)} runs, {len(found.part.failed)} failed", flush=True)
    _tell_of_all(found, arguments.report)
    return 1 if found.part.violated or found.part.differing or found.is_blind else 0


def _tell_of(result: RunResult, bug: str | None) -> None:
    if result.error is not None:
        again = f"make sim SEED={result.seed}"
        if bug is not None:
            again = f"python -m tests.simulation --seed {result.seed} --bug {bug}"
        print(f"seed {result.seed} FAILED: {result.error.splitlines()[0]}\n  replay: {again}", flush=True)


def _tell_of_all(found: CampaignRecorder, page: Path | None) -> None:
    for name, count in sorted(found.part.totals.items()):
        print(f"  {count:10} {name}")
    if page is not None:
        print("traces under three values of PYTHONHASHSEED ...", flush=True)
        found.compare_hash_seeds()
        add_part(page, found.part)
    if found.missed:
        print("never seen: " + "; ".join(found.missed))
    print(found.summary())


def _told() -> int:
    """Run it; 141, as of a process that SIGPIPE has ended, if nobody reads on."""
    try:
        result = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # Nor is there anybody to tell of it when the interpreter flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    return result


if __name__ == "__main__":
    sys.exit(_told())
