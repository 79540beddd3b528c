"""The files of a history in parts that can be read side by side, each knowing the numbers of its lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from raftka.check.history_file import CHUNK_BYTES, Part, count_lines, has_open_end
from raftka.check.places import Places
from raftka.pipeline.audit.cluster import Cluster

CHUNKS_PER_PART = 64


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A file, and what it is called when something is said of it; None: its path."""

    path: Path
    name: str | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some chunks of one of the files, which has `before` lines of others before it."""

    path: Path
    part: Part
    before: int


@dataclass(frozen=True, slots=True)
class Parts:
    """The files of a history, up to the first that cannot be read.

    Attributes:
        parts: In order.
        places: Which line of which file a line is.
        error: Why the next file cannot be read; it counts only if nothing is wrong with those before it.
    """

    parts: list[FilePart]
    places: Places
    error: OSError | None


def divide(files: Sequence[HistoryFile], cluster: Cluster, chunks: int = CHUNKS_PER_PART) -> Parts:
    """Return the parts of files, of so many chunks each."""
    spans: list[tuple[Path, int, int | None]] = []
    known: list[HistoryFile] = []
    error = None
    for file in files:
        try:
            size = file.path.stat().st_size
            with file.path.open("rb"):
                known.append(file)
        except OSError as problem:
            error = problem
            break
        begins = list(range(0, max(1, -(-size // CHUNK_BYTES)), chunks))
        spans += [(file.path, begin, end) for begin, end in zip(begins, [*begins[1:], None], strict=True)]
    counts = cluster.map(_counted, spans)
    places, parts, before = Places(), [], 0
    at = 0
    for file in known:
        places.begin(file.name or str(file.path), before)
        line = 1
        while at < len(spans):
            _, begin, end = spans[at]
            parts.append(FilePart(file.path, Part(begin, end, line, file.name), before))
            line += counts[at]
            at += 1
            if end is None:
                break
        before += line - 1
    return Parts(parts, places, error)


def _counted(span: tuple[Path, int, int | None]) -> int:
    path, begin, end = span
    return count_lines(path, begin, end) + (end is None and has_open_end(path))
