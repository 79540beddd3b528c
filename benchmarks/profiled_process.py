"""One broker with cProfile around its event loop: SIGUSR1 begins to record, SIGUSR2 ends and writes the statistics.

A program of its own, so that the broker itself has no switch for it. What its worker threads do (write, read, fsync)
is not seen: cProfile records the thread that turned it on.
"""

import argparse
import asyncio
import cProfile
import signal
import sys

from raftka.broker.application import run_broker
from raftka.config import BrokerConfig


def main() -> int:
    """Run the broker until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiled_process")
    parser.add_argument("--config-json", required=True)
    parser.add_argument("--stats", required=True, help="the file that SIGUSR2 writes")
    arguments = parser.parse_args()
    profile = cProfile.Profile()

    def end() -> None:
        profile.disable()
        profile.dump_stats(arguments.stats)

    signal.signal(signal.SIGUSR1, lambda *_: profile.enable())
    signal.signal(signal.SIGUSR2, lambda *_: end())
    return asyncio.run(run_broker(BrokerConfig.from_json(arguments.config_json)))


if __name__ == "__main__":
    sys.exit(main())
