"""Input of which Ctrl-C and SIGTERM are an end."""

from typing import BinaryIO

from raftka.cli.interrupts import InputEnd


class InputStream:
    """What is read of a file or a pipe.

    Args:
        stream: A buffered one.
        end: Interrupts each read.
    """

    def __init__(self, stream: BinaryIO, end: InputEnd) -> None:
        self._stream = stream
        self._end = end

    def readline(self, size: int) -> bytes:
        """Return a line, or as many bytes; empty at the end. Raises what `InputEnd.call` raises."""
        return self._end.call(self._stream.readline, size)

    def read1(self, size: int) -> bytes:
        """Return what there is by now, at most so many bytes; empty at the end. Raises what `InputEnd.call` raises."""
        data: bytes = self._end.call(self._stream.read1, size)  # type: ignore[attr-defined]
        return data

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._stream.tell()
