"""Why something failed, in words, for the command line and the pipelines: never empty.

As `model.error_text`, which only the process of a broker can import; a test compares the two.
"""

# By the name of the class, so that `raftka --help` imports no asyncio.
_WORDS = {
    "TimeoutError": "no answer in time",
    "CancelledError": "cancelled",
    "ConnectionResetError": "the connection was reset",
    "ConnectionAbortedError": "the connection was aborted",
    "ConnectionRefusedError": "the connection was refused",
    "BrokenPipeError": "the other side has closed the connection",
    "EOFError": "the input ended too early",
    "MemoryError": "out of memory",
}


def reason_of(error: BaseException) -> str:
    """Return the text of an exception for a log line or an answer; if it has none, what its class says. Never empty.

    An assertion that failed, and a class without words here, is told by its name.
    """
    text = str(error).strip()
    if text:
        return text
    for kind in type(error).__mro__:
        if kind.__name__ in _WORDS:
            return _WORDS[kind.__name__]
    return type(error).__name__


def short_reason_of(error: BaseException) -> str:
    """Return what the system says of a call that failed, without the file, which the caller names; else `reason_of`."""
    return getattr(error, "strerror", None) or reason_of(error)
