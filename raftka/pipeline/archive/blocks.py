"""Sums over blocks of offsets: two sides are compared block by block, and record by record only where they differ."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from raftka.pipeline.archive.records import OffsetRange

Partition = tuple[str, int]
BLOCK_OFFSETS = 65_536


class Span(NamedTuple):
    """Offsets from `begin` to before `end`."""

    begin: int
    end: int

    @property
    def offsets(self) -> int:
        """How many there are."""
        return max(0, self.end - self.begin)


class Block(NamedTuple):
    """Offsets of one partition from `number * BLOCK_OFFSETS` on."""

    partition: Partition
    number: int

    @property
    def span(self) -> Span:
        """Its offsets."""
        return Span(self.number * BLOCK_OFFSETS, (self.number + 1) * BLOCK_OFFSETS)


class BlockSum(NamedTuple):
    """What one side has in a block.

    Attributes:
        rows: Records.
        digest: Hashes (64 bits) of offset and CRC of each record, by exclusive or.
        damaged: Records whose value does not have the CRC that is stored with it.
    """

    rows: int
    digest: int
    damaged: int = 0


def differing(archive: Mapping[Block, BlockSum], log: Mapping[Block, BlockSum]) -> list[Block]:
    """Return the blocks in which the sides do not have the same records, or values are damaged.

    A record that is there twice makes the numbers of rows differ; where as many are missing, the digests do.
    """
    none = BlockSum(0, 0)
    return sorted(block for block in {*archive, *log} if archive.get(block, none) != log.get(block, none))


def spans(blocks: Iterable[Block]) -> dict[Partition, Span]:
    """Return the offsets from the first to behind the last of these blocks, by partition."""
    found: dict[Partition, Span] = {}
    for block in blocks:
        before = found.get(block.partition, block.span)
        found[block.partition] = Span(min(before.begin, block.span.begin), max(before.end, block.span.end))
    return dict(sorted(found.items()))


def common(one: Span, other: Span) -> Span:
    """Return what two spans share; an empty span where that is nothing."""
    begin = max(one.begin, other.begin)
    return Span(begin, max(begin, min(one.end, other.end)))


def never_read(ranges: Iterable[OffsetRange], within: Span) -> list[Span]:
    """Return the offsets of a span that no batch was asked to read; `ranges` are in order."""
    gaps = []
    at = within.begin
    for each in ranges:
        gaps.append(common(Span(at, each.begin), within))
        at = max(at, each.end)
    gaps.append(common(Span(at, within.end), within))
    return [gap for gap in gaps if gap.offsets]
