"""Why something failed, in words: the text of an exception may be empty, and a line `failed:` says nothing."""

# By the name of the class, so that this module imports neither asyncio nor a client.
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
