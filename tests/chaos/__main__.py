"""`python -m tests.chaos --out DIR [--minutes N] [NAME...]`: the matrix, one run after the other, then the page."""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from tests.chaos import foreign
from tests.chaos.matrix import FOREIGN, MINUTES, NAMES, RUNS, command_line
from tests.chaos.report import write_page

_FOREIGN_MINUTES_MAX = 2.0


def main() -> int:
    """Run; 0 if every run is valid."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the runs' folders")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no run {', '.join(sorted(unknown))}")
    codes = {}
    for run in RUNS:
        if not arguments.names or run.name in arguments.names:
            out = arguments.out / run.name
            # What a former matrix left of this run.
            shutil.rmtree(out, ignore_errors=True)
            print(f"== {run.name}", flush=True)
            command = command_line(run, arguments.minutes, arguments.seed, str(out))
            program = "import sys; from raftka.cli.main import main; sys.exit(main())"
            codes[run.name] = subprocess.run([sys.executable, "-c", program, *command], check=False).returncode
    if not arguments.names or FOREIGN in arguments.names:
        out = arguments.out / FOREIGN
        shutil.rmtree(out, ignore_errors=True)
        print(f"== {FOREIGN}", flush=True)
        codes[FOREIGN] = foreign.run(out, min(arguments.minutes, _FOREIGN_MINUTES_MAX), [])
    write_page(arguments.out)
    for name, code in codes.items():
        print(f"{name}: {('valid', 'anomalies', 'proves nothing')[code] if code < 3 else f'exit code {code}'}")
    return max(codes.values(), default=0)


if __name__ == "__main__":
    sys.exit(main())
