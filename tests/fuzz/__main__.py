"""`python -m tests.fuzz TARGET [--minutes N]`: look for what a target should never raise.

`all` stands for every target, one after the other. 0: nothing was found; 1: something was, and its input lies in build/fuzz, or a run was interrupted.
"""

import argparse
import sys
from pathlib import Path

from tests.fuzz.loops import InterruptedRunError, has_atheris, minimise, run_at_random, run_guided
from tests.fuzz.runs import record_run, write_page
from tests.fuzz.targets import TARGETS, Target


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="?", choices=[*TARGETS, "all"], metavar="TARGET", help="see --list")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target (default %(default)s)")
    parser.add_argument("--random", action="store_true", help="without atheris, even if it is installed")
    parser.add_argument("--seed", type=int, default=1, help="of a random run (default %(default)s)")
    parser.add_argument("--minimise", action="store_true", help="drop what the corpus does not need; needs atheris")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="feed this file and nothing else")
    parser.add_argument("--list", action="store_true", help="name the targets")
    parser.add_argument("--report", action="store_true", help="write docs/verification/fuzzing.md")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{name:16} {target.read.__doc__}" for name, target in TARGETS.items()))
    elif arguments.report:
        write_page()
    elif arguments.target is None:
        parser.error("name a target, or --list them")
    elif arguments.replay is not None:
        TARGETS[arguments.target](arguments.replay.read_bytes())
    else:
        return _run_all(arguments)
    return 0


def _run_all(arguments: argparse.Namespace) -> int:
    targets = list(TARGETS.values()) if arguments.target == "all" else [TARGETS[arguments.target]]
    if arguments.minimise:
        return max(map(_minimise, targets))
    is_guided = has_atheris() and not arguments.random
    if not is_guided and not arguments.random:
        print("atheris is not installed (pip install -e '.[fuzz]'): inputs are damaged at random", file=sys.stderr)
    return max(_run(target, arguments, is_guided=is_guided) for target in targets)


def _run(target: Target, arguments: argparse.Namespace, *, is_guided: bool) -> int:
    seconds = arguments.minutes * 60
    try:
        outcome = run_guided(target, seconds) if is_guided else run_at_random(target, seconds, arguments.seed)
    except InterruptedRunError as error:
        print(f"{target.name}: no result: {error}", file=sys.stderr)
        return 1
    is_longest = record_run(target, outcome)
    rate = outcome.executions / max(1.0, outcome.seconds)
    print(f"{target.name}: {outcome.executions:,} executions ({outcome.engine}), {rate:,.0f}/s", flush=True)
    if not is_longest:
        print("  a longer run is known, and stays in the report")
    for what, path in outcome.findings.items():
        print(f"  FOUND {what}: python -m tests.fuzz {target.name} --replay {path}")
    return 1 if outcome.findings else 0


def _minimise(target: Target) -> int:
    try:
        print(f"{target.name}: {minimise(target)} inputs are kept", flush=True)
    except InterruptedRunError as error:
        print(f"{target.name}: the corpus is as it was: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
