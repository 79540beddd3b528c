"""Numbers for the values of a large partition, that many tasks agree on.

Values go to shards by their CRC32, and each shard numbers its own. Whoever compares them from there on compares
numbers, and who has to name one looks it up.
"""

import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import overload

import numpy as np

from raftka.check.log.columns import LogHistory, Numbers
from raftka.pipeline.audit.cluster import Cluster
from raftka.pipeline.audit.scratch import Kept, keep


@dataclass(slots=True)
class Names(Sequence[str]):
    """Values by their number, which is that in its shard times the shards, plus the shard's.

    Attributes:
        shards: The values of each, by their number there.
        largest: How many values the largest shard has.
        chosen: The numbers of the values, where only some are at hand.
    """

    shards: list[Kept]
    largest: int
    chosen: Numbers | None = None
    _loaded: dict[int, list[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.largest * len(self.shards) if self.chosen is None else len(self.chosen)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        number = int(at if self.chosen is None else self.chosen[at])
        shard = number % len(self.shards)
        if shard not in self._loaded:
            self._loaded[shard] = self.shards[shard].load()
        return self._loaded[shard][number // len(self.shards)]


@dataclass(frozen=True, slots=True)
class Numbered:
    """The numbers of the values of some pieces.

    Attributes:
        places: By piece and shard, which of the piece's values the shard has.
        numbers: By piece and shard, their numbers in the shard.
    """

    names: Names
    places: list[dict[int, Kept]]
    numbers: list[dict[int, Kept]]

    def of(self, piece: int) -> "PieceNumbers":
        """Return those of one piece."""
        return PieceNumbers(len(self.names.shards), self.places[piece], self.numbers[piece])


@dataclass(frozen=True, slots=True)
class PieceNumbers:
    """The numbers of the values of a piece; `load` brings them into its process."""

    shards: int
    places: dict[int, Kept]
    numbers: dict[int, Kept]

    def load(self, count: int) -> Numbers:
        """Return the number of each of the piece's values."""
        found = np.zeros(count, np.int64)
        for shard, kept in self.places.items():
            found[kept.load()] = self.numbers[shard].load() * self.shards + shard
        return found


def number_values(pieces: Sequence[Kept], shards: int, cluster: Cluster, scratch: Path) -> Numbered:
    """Return numbers for the values of pieces."""
    spread = cluster.map(partial(_spread, shards, scratch), pieces)
    lists = [
        [(piece, values[shard]) for piece, (_, values) in enumerate(spread) if shard in values]
        for shard in range(shards)
    ]
    numbered = cluster.map(partial(_number, scratch), lists)
    numbers: list[dict[int, Kept]] = [{} for _ in pieces]
    for shard, (_, _, its) in enumerate(numbered):
        for piece, kept in its.items():
            numbers[piece][shard] = kept
    names = Names([kept for kept, _, _ in numbered], max(count for _, count, _ in numbered))
    return Numbered(names, [places for places, _ in spread], numbers)


def _spread(shards: int, scratch: Path, piece: Kept) -> tuple[dict[int, Kept], dict[int, Kept]]:
    """Return which of a piece's values each shard has, and these values."""
    history: LogHistory = piece.load()
    places: dict[int, list[int]] = defaultdict(list)
    values: dict[int, list[str]] = defaultdict(list)
    for place, value in enumerate(history.values):
        shard = zlib.crc32(value.encode("utf-8", "surrogatepass")) % shards
        places[shard].append(place)
        values[shard].append(value)
    return keep(scratch, {shard: np.array(its) for shard, its in places.items()}), keep(scratch, values)


def _number(scratch: Path, lists: list[tuple[int, Kept]]) -> tuple[Kept, int, dict[int, Kept]]:
    """Return the values of a shard, how many they are, and for each piece the numbers of its own."""
    known: dict[str, int] = {}
    numbers = {}
    for piece, kept in lists:
        values = kept.load()
        numbers[piece] = np.fromiter((known.setdefault(each, len(known)) for each in values), np.int64, len(values))
    return keep(scratch, {"": list(known)})[""], len(known), keep(scratch, numbers)
