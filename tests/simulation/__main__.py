"""`python -m tests.simulation --seed N | --seeds A..B [--jobs J]`: replay one run, or run many."""

import argparse
import logging
import sys
from collections import Counter

from tests.simulation.campaign import run_seeds
from tests.simulation.run import RUN_SECONDS, run_seed


def main() -> int:
    """Run what the command line asks for; 0 if every run passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, help="run one seed and print its log, trace hash and counts")
    what.add_argument("--seeds", type=_range, metavar="A..B", help="run the seeds A to B, both included")
    parser.add_argument("--seconds", type=float, default=RUN_SECONDS, help="virtual seconds (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default %(default)s)")
    parser.add_argument(
        "--kafka", action="store_true", help="with Kafka clients on the wire, and the checker's verdict"
    )
    parser.add_argument("--log", action="store_true", help="with --seed: print the brokers' log lines too")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return _one(arguments.seed, arguments.seconds, arguments.kafka, arguments.log)
    return _many(arguments.seeds, arguments.seconds, arguments.kafka, arguments.jobs)


def _range(text: str) -> range:
    first, separator, last = text.partition("..")
    try:
        if not separator:
            raise ValueError
        return range(int(first), int(last) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not A..B") from None


def _one(seed: int, seconds: float, kafka: bool, with_log: bool) -> int:
    logging.basicConfig(stream=sys.stdout, level=logging.DEBUG if with_log else logging.CRITICAL, format="%(message)s")
    result = run_seed(seed, seconds, kafka=kafka)
    print("\n".join(result.lines))
    print(f"seed {seed}, {seconds:g} virtual seconds, faults: {' '.join(result.kinds)}")
    for name, count in sorted(result.counts.items()):
        print(f"  {count:8} {name}")
    print(f"trace {result.digest} over {result.events} events")
    print("passed" if result.error is None else f"FAILED: {result.error}")
    return 0 if result.error is None else 1


def _many(seeds: range, seconds: float, kafka: bool, jobs: int) -> int:
    logging.disable(logging.CRITICAL)
    totals: Counter[str] = Counter()
    failed = []
    for done, result in enumerate(run_seeds(seeds, seconds, jobs, kafka=kafka), 1):
        totals.update(result.counts)
        if result.error is not None:
            failed.append(result.seed)
            first_line = result.error.splitlines()[0]
            replay = f"make sim SEED={result.seed}" + (" KAFKA=1" if kafka else "")
            print(f"seed {result.seed} FAILED: {first_line}\n  replay: {replay}", flush=True)
        if done % 100 == 0:
            print(f"{done} of {len(seeds)} runs, {len(failed)} failed", flush=True)
    for name, count in sorted(totals.items()):
        print(f"  {count:10} {name}")
    print(f"{len(seeds) - len(failed)} of {len(seeds)} runs of {seconds:g} virtual seconds passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
