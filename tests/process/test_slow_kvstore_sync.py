"""A disk whose fsyncs take long does not stop the loop that beats for all groups (counterexample 10).

A process of its own runs the kvstore on a loop with a ticker; strace delays its fsyncs, inside the system call, as a
slow disk does. Nothing is measured: a loop that waits for the sync with the interpreter's lock held does not tick.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

_DELAY_MICROSECONDS = 150_000
_TICKS_MIN = 5
_STRACE = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync,fsync")

_PROGRAM = """
import asyncio, os, sys
from rocksdict import WriteOptions
from runtime.environment import system_environment
from storage.rocks_kvstore import RocksKvStore

def write_and_sync(store):
    options = WriteOptions()
    options.sync = True
    store._database.put(b"vote", b"x", options)

if sys.argv[2] == "synced writes":
    RocksKvStore._flush_wal = write_and_sync

async def main():
    store = await RocksKvStore.open(system_environment(), sys.argv[1])
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.005)

    ticker = asyncio.get_running_loop().create_task(tick())
    await asyncio.sleep(0)
    store.put("vote", b"x")
    before = ticks
    await store.sync()
    print(ticks - before, flush=True)
    # A close would fsync once more, and more than once.
    os._exit(0)

asyncio.run(main())
"""


def _ticks_during_a_sync(directory: Path, how: str) -> int:
    root = Path(__file__).resolve().parents[2]
    delay = ("-e", f"inject=fdatasync,fsync:delay_enter={_DELAY_MICROSECONDS}")
    command = [*_STRACE, *delay, sys.executable, "-c", _PROGRAM, str(directory / "kvstore"), how]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def _the_loop_ticks_while_the_kvstore_syncs(directory: Path, how: str) -> None:
    assert _ticks_during_a_sync(directory, how) >= _TICKS_MIN, "the loop stood still"


@pytest.fixture(autouse=True)
def _tracing() -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: no fsync can be slowed down")
    done = subprocess.run([*_STRACE, "true"], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        pytest.skip(f"no process may be traced here: {done.stderr.strip()}")


def test_heartbeats_go_on_while_a_vote_is_being_synced(tmp_path: Path) -> None:
    _the_loop_ticks_while_the_kvstore_syncs(tmp_path, "flush_wal")


def test_heartbeats_stop_if_a_pool_thread_does_synced_writes(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="stood still"):
        _the_loop_ticks_while_the_kvstore_syncs(tmp_path, "synced writes")
