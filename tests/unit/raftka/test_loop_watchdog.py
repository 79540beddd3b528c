"""A broker whose loop stands still for good ends with an exit code and says where it stands."""

import subprocess
import sys

_PROGRAM = """
import asyncio, sys, time
from raftka.broker.loop_watch import LoopWatch
from raftka.broker.loop_watchdog import LoopWatchdog

def tell(line):
    print(line, file=sys.stderr)

async def run():
    watch = LoopWatch()
    watch.start()
    # A quarter of a second for the test, a minute for a broker.
    watchdog = LoopWatchdog(lambda: watch.looks, tell, seconds={seconds}, look_seconds=0.25)
    watchdog.start()
    {body}
    watchdog.stop()
    watch.stop()

asyncio.run(run())
"""


def _end_of(body: str, seconds: float) -> subprocess.CompletedProcess[str]:
    program = _PROGRAM.format(body=body, seconds=seconds)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


def test_a_loop_that_hangs_ends_the_process_with_the_stacks_of_all_threads() -> None:
    ended = _end_of("time.sleep(100)", seconds=0.25)
    assert ended.returncode == 1
    assert "the event loop has stood still for" in ended.stderr
    assert "in run" in ended.stderr, "where it stands"


def test_a_loop_that_runs_is_left_alone() -> None:
    # Sixty seconds without one look of the loop are a hang on any machine.
    ended = _end_of("await asyncio.sleep(1)", seconds=60.0)
    assert (ended.returncode, ended.stderr) == (0, "")
