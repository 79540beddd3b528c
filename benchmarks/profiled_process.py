"""One broker with cProfile around its event loop: BEGIN begins to record, END ends and writes the statistics.

A program of its own, so that the broker itself has no switch for it. Both are real-time signals, because the broker
has its own use for SIGUSR1 and SIGUSR2. What its worker threads do (write, read, fsync)
is not seen: cProfile records the thread that turned it on.
"""

import argparse
import asyncio
import cProfile
import signal
import sys

from raftka.broker.application import run_broker
from raftka.config_descriptor import read_config

BEGIN, END = signal.SIGRTMIN, signal.SIGRTMIN + 1


def main() -> int:
    """Run the broker until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiled_process")
    parser.add_argument("--node-id", type=int, required=True)
    parser.add_argument("--config-fd", type=int, required=True)
    parser.add_argument("--stats", required=True, help="the file that END writes")
    arguments = parser.parse_args()
    profile = cProfile.Profile()

    def end() -> None:
        profile.disable()
        profile.dump_stats(arguments.stats)

    signal.signal(BEGIN, lambda *_: profile.enable())
    signal.signal(END, lambda *_: end())
    return asyncio.run(run_broker(read_config(arguments.config_fd, arguments.node_id)))


if __name__ == "__main__":
    sys.exit(main())
