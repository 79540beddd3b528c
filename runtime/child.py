"""A blocking function in a process of its own: its memory, its processor time and its death are not the broker's.

    parent   size u64, request      ->  stdin, which stays open
    child    answer                 ->  stdout, then exit code 0

The child ends when its stdin does: so it never outlives the parent, and never writes beside the next one's child.
"""

import asyncio
import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable

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
    try:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-m", module),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=inherited,
        )
    except OSError as error:
        raise ChildError(f"{module} cannot be started: {os.strerror(error.errno or 0)}") from error
    # From here on: what it imports takes longer than a small request.
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, child.pid, _NICE)
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        async with asyncio.timeout(seconds):
            with contextlib.suppress(ConnectionError):
                child.stdin.write(len(request).to_bytes(_SIZE_BYTES, "big") + request)
                await child.stdin.drain()
            answer, words = await asyncio.gather(child.stdout.read(), child.stderr.read())
            code = await child.wait()
    except TimeoutError:
        raise ChildError(f"{module} took longer than {seconds:g} s") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
        child.stdin.close()
    if code != 0:
        said = words.decode(errors="replace").strip().rpartition("\n")[2][:_WORDS_MAX]
        raise ChildError(f"{module} ended with exit code {code}{f': {said}' if said else ''}")
    return answer


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
