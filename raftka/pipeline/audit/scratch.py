"""What tasks leave for other tasks, in a folder that all of them see.

Not Spark's shuffle: what one task hands on is a few large arrays, which pickle writes and reads as they lie in memory,
and which the JVM need not touch. A task that is repeated writes its file again.
"""

import pickle
import uuid
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Kept:
    """Where something lies."""

    path: Path
    begin: int

    def load(self) -> Any:
        """Return it."""
        with self.path.open("rb") as stream:
            stream.seek(self.begin)
            # Written by a task of the same audit, in a folder of its own.
            return pickle.load(stream)


def keep(folder: Path, things: Mapping[K, Any]) -> dict[K, Kept]:
    """Write things into one file, and return where each lies.

    Raises:
        OSError: The disk is full, or the like.
    """
    path = folder / f"{uuid.uuid4().hex}.pickle"
    places = {}
    with path.open("wb") as stream:
        for name, thing in things.items():
            places[name] = Kept(path, stream.tell())
            pickle.dump(thing, stream, protocol=pickle.HIGHEST_PROTOCOL)
    return places
