"""`python -m tests.simulation.known_bugs`: catch every planted bug, `--pin` the seeds, write the page.

The bugs that show each invariant alone (`invariants_alone`) are hunted along, by the invariant's name.
"""

import argparse
import contextlib
import signal
from pathlib import Path

from tests.simulation.campaign.processes import interruptible, number_of_processes
from tests.simulation.known_bugs.hunt import SEEDS_MAX, Hunt
from tests.simulation.known_bugs.hunts import NAMES, hunt_all
from tests.simulation.known_bugs.pins import write_pins
from tests.simulation.known_bugs.report import add_hunts, source_version

# Apart from the seeds of the campaigns.
_FIRST_SEED = 100_000


def main() -> int:
    """Run what the command line asks for; 0 if every bug was caught in every try."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.known_bugs", description=__doc__)
    parser.add_argument(
        "--bugs", type=_names, metavar="A,B", help="only these bugs (or invariants, alone); all other pins stay"
    )
    parser.add_argument("--tries", type=int, default=1, help="disjoint ranges of seeds per bug (default %(default)s)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--first-seed", type=int, default=_FIRST_SEED, help="default %(default)s")
    where.add_argument(
        "--from-pins", action="store_true", help="begin each hunt at its pin; with --pin it follows a changed schedule"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="budget of one try (default %(default)s)")
    parser.add_argument("--jobs", type=number_of_processes, default=1, help="processes (default %(default)s)")
    parser.add_argument(
        "--pin", action="store_true", help="keep the cheapest seed of each in seeds.json, for the tests"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the page, with what was found")
    parser.add_argument("--tables", action="store_true", help="hunt nothing; write --out anew from its figures")
    arguments = parser.parse_args()
    if arguments.tables:
        if arguments.out is None:
            parser.error("--tables needs --out")
        add_hunts(arguments.out, [], source_version())
        return 0
    wanted = arguments.bugs or NAMES
    commit = source_version()
    hunts: list[Hunt] = []
    first = None if arguments.from_pins else arguments.first_seed
    found = hunt_all(wanted, arguments.tries, first, arguments.seeds, arguments.jobs)
    with interruptible(), contextlib.closing(found):
        for each in found:
            hunts.append(each)
            print(_line(each), flush=True)
            if arguments.pin:
                write_pins(hunts, NAMES)
    if arguments.out is not None:
        add_hunts(arguments.out, hunts, commit)
    missed = sorted({each.name for each in hunts if each.seed is None})
    print(f"{len(wanted) - len(missed)} of {len(wanted)} were caught in every try", *(f"not {name}" for name in missed))
    return 1 if missed else 0


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise argparse.ArgumentTypeError(f"neither a bug nor an invariant: {', '.join(unknown)}")
    return names


def _line(found: Hunt) -> str:
    others = "; ".join(f"{count} x {what}" for what, count in found.others.most_common(4))
    end = f"seed {found.seed}: {found.objector} objected" if found.seed is not None else "NOT CAUGHT"
    spent = f"{found.seeds} seeds, {found.virtual_seconds:.0f} virtual s, {found.cpu_seconds:.1f} s of a core"
    return f"{found.name}: {end} ({spent})" + (f", before: {others}" if others else "")


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
