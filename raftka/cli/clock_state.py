"""Whether the kernel's clock follows another one: adjtimex(2), which Python does not have."""

import ctypes
from enum import Enum, auto

# struct timex is 208 bytes on 64-bit Linux: room for any. The status is an int behind four longs.
_TIMEX_BYTES = 512
_STATUS_OFFSET = 5 * ctypes.sizeof(ctypes.c_long)
_STA_UNSYNC = 0x0040
_TIME_ERROR = 5


class Synchronisation(Enum):
    """What the kernel says."""

    YES = auto()
    NO = auto()
    UNKNOWN = auto()


def clock_synchronisation() -> Synchronisation:
    """Ask the kernel; nothing is set."""
    try:
        adjtimex = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return Synchronisation.UNKNOWN
    timex = ctypes.create_string_buffer(_TIMEX_BYTES)
    state = adjtimex(ctypes.byref(timex))
    if state < 0:
        return Synchronisation.UNKNOWN
    status = ctypes.c_int.from_buffer(timex, _STATUS_OFFSET).value
    return Synchronisation.NO if state == _TIME_ERROR or status & _STA_UNSYNC else Synchronisation.YES
