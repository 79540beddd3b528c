"""A blocking function in a process of its own: its memory, its processor time and its death are not the broker's.

    parent   size u64, request      ->  stdin, which stays open
    child    answer                 ->  stdout, then exit code 0

The child ends when its stdin does: so it never outlives the parent, and never writes beside the next one's child.
"""

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_SIZE_BYTES = 8
_NICE = 19
_HELD = re.compile(r"/proc/self/fd/([0-9]+)/")
# The shortest sleep of a child that is too fast.
_PAUSE_SECONDS = 0.05
# Of what a child that fails has said.
_WORDS_MAX = 300


class ChildError(Exception):
    """The child was killed, failed, or took too long; the message says which."""


async def run_child(module: str, request: bytes, seconds: float, paths: tuple[str, ...] = ()) -> bytes:
    """Run `python -m module`, whose main calls `serve`; return its answer.

    Args:
        module: Of an installed package.
        request: What the function gets.
        seconds: After that the child is killed.
        paths: Of `FileSystem.path_for_others`: the child inherits the descriptors that they lead through.

    Raises:
        ChildError: There is no answer.
    """
    inherited = [int(match[1]) for match in map(_HELD.match, paths) if match is not None]
    child = _Child(module, inherited)
    # A pool of its own: the child takes as long as it takes.
    with_child = ThreadPoolExecutor(1, thread_name_prefix="child")
    ended = asyncio.get_running_loop().run_in_executor(with_child, child.run, request)
    try:
        async with asyncio.timeout(seconds):
            answer, words, code = await asyncio.shield(ended)
    except TimeoutError:
        raise ChildError(f"{module} took longer than {seconds:g} s") from None
    except OSError as error:
        raise ChildError(f"{module} cannot be started: {os.strerror(error.errno or 0)}") from error
    finally:
        child.kill()
        await asyncio.wait([ended])
        with_child.shutdown(wait=False)
    if code != 0:
        said = words.decode(errors="replace").strip().rpartition("\n")[2][:_WORDS_MAX]
        raise ChildError(f"{module} ended with exit code {code}{f': {said}' if said else ''}")
    return answer


class _Child:
    """One child, from its start to its end on one thread.

    The thread starts it, too: asyncio starts processes on the loop, which costs the loop a millisecond for each.
    """

    def __init__(self, module: str, inherited: list[int]) -> None:
        self._module = module
        self._inherited = inherited
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False

    def run(self, request: bytes) -> tuple[bytes, bytes, int]:
        """Return the answer, what it wrote to stderr, and its exit code.

        Raises:
            OSError: It cannot be started.
        """
        command = [sys.executable, "-I", "-m", self._module]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=self._inherited)
        stdin, process.stdin = process.stdin, None
        assert stdin is not None
        with self._lock:
            self._process = process
            is_killed = self._is_killed
        if is_killed:
            process.kill()
        # From here on: what it imports takes longer than a small request.
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        try:
            with contextlib.suppress(BrokenPipeError):
                stdin.write(len(request).to_bytes(_SIZE_BYTES, "big") + request)
                stdin.flush()
            # stdin stays open meanwhile: the child ends with it.
            answer, words = process.communicate()
        finally:
            with contextlib.suppress(BrokenPipeError):
                stdin.close()
        return answer, words, process.returncode

    def kill(self) -> None:
        """Kill it, or keep it from running on once it has started; nothing where it has ended."""
        with self._lock:
            self._is_killed = True
            process = self._process
        if process is not None:
            process.kill()


def serve(function: Callable[[bytes], bytes]) -> None:
    """In the child: answer the one request."""
    stdin = sys.stdin.buffer
    size = int.from_bytes(stdin.read(_SIZE_BYTES), "big")
    request = stdin.read(size)
    if len(request) < size:
        return
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    sys.stdout.buffer.write(function(request))
    sys.stdout.buffer.flush()


def _end_with_stdin() -> None:
    """End the process once its stdin ends."""
    # Not through the buffer: its lock would be held for ever, and the interpreter could not end.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def throttle(bytes_per_second: int) -> Callable[[int], None]:
    """Return what is told of bytes, and sleeps where they are more than the time since now allows; 0: no bound."""
    began, total = time.monotonic(), 0

    def pause(size: int) -> None:
        nonlocal total
        total += size
        ahead = total / bytes_per_second - (time.monotonic() - began)
        if ahead >= _PAUSE_SECONDS:
            time.sleep(ahead)

    return pause if bytes_per_second else lambda size: None
