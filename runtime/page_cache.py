"""Whether bytes of a file are in the page cache, so that sending them waits for no disk: Linux's cachestat.

The call is new (Linux 6.5, 2023). Where it is missing nothing counts as cached, and whoever asks takes another way.
"""

import ctypes
import functools
import mmap
from collections.abc import Callable

# The same on all architectures: numbers from 424 on are shared.
_CACHESTAT = 451


# struct cachestat_range: offset and length. struct cachestat: pages that are cached, and four other counts.
_Range = ctypes.c_uint64 * 2
_Counts = ctypes.c_uint64 * 5


@functools.cache
def _system_call() -> Callable[..., int] | None:
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return None
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)
    return call


def is_cached(descriptor: int, size: int, position: int) -> bool:
    """Whether all of `size` bytes from `position` are in the page cache now; False also where nobody knows."""
    call = _system_call()
    if call is None or size <= 0:
        return False
    asked, counts = _Range(position, size), _Counts()
    if call(_CACHESTAT, descriptor, ctypes.byref(asked), ctypes.byref(counts), 0):
        return False
    first, last = position // mmap.PAGESIZE, (position + size - 1) // mmap.PAGESIZE
    return bool(counts[0] >= last - first + 1)
