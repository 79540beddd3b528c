"""Which offsets a batch was asked to read: Spark writes them to its checkpoint before the batch begins."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from raftka.error_text import reason_of
from raftka.pipeline.archive.records import OffsetRange
from raftka.pipeline.errors import PipelineError

Partition = tuple[str, int]


def checkpoint_id(checkpoint: Path) -> str:
    """Return the id that Spark has given a checkpoint.

    Raises:
        PipelineError: It cannot be read.
    """
    path = checkpoint / "metadata"
    try:
        return str(json.loads(path.read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"{path}: no checkpoint of Spark's: {reason_of(error)}") from None


def completed_batch(checkpoint: Path) -> int | None:
    """Return the last batch that Spark has noted as done; None: it has done none."""
    folder = checkpoint / "commits"
    numbers = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    return max(numbers, default=None)


def begins_known(checkpoint: Path, batch: int, ranges: Iterable[OffsetRange]) -> dict[Partition, int]:
    """Return where a checkpoint's query began, by partition.

    A partition that was not there then begins with its first range, or, while nothing is there, where it stands.

    Raises:
        PipelineError: The checkpoint cannot be read.
    """
    stands = _read_offsets(checkpoint / "offsets" / str(batch))
    read = {(each.topic, each.partition): each.begin for each in ranges}
    return stands | read | _read_offsets(checkpoint / "sources" / "0" / "0")


def topics_of_batch(checkpoint: Path, batch: int) -> list[str]:
    """Return the topics at which a batch looks, in order; of some of them it may have nothing.

    Raises:
        PipelineError: The checkpoint cannot be read.
    """
    return sorted({topic for topic, _ in _read_offsets(checkpoint / "offsets" / str(batch))})


def offset_ranges(
    checkpoint: Path, batch: int, seen: Mapping[Partition, tuple[int, int, int]], *, is_gapless: bool
) -> list[OffsetRange]:
    """Return the ranges of a batch, by partition.

    Args:
        checkpoint: Spark's folder; the query has one source.
        batch: The batch's number.
        seen: Lowest offset, highest offset and number of the batch's records, by partition.
        is_gapless: Whether Spark would have failed if records had been gone (fail.on.data.loss). If not, what was asked
            for proves nothing about gaps, and ranges are what was seen.

    Raises:
        PipelineError: The checkpoint cannot be read, or the records are not those that it speaks of.
    """
    if not is_gapless:
        return [
            OffsetRange(topic=topic, partition=partition, begin=low, end=high + 1, rows=rows)
            for (topic, partition), (low, high, rows) in sorted(seen.items())
        ]
    ends = _read_offsets(checkpoint / "offsets" / str(batch))
    previous = checkpoint / "offsets" / str(batch - 1) if batch else checkpoint / "sources" / "0" / "0"
    begins = _read_offsets(previous)
    ranges = []
    for key, end in sorted(ends.items()):
        low, high, rows = seen.get(key, (end, end - 1, 0))
        # A partition that was not there before is read from its beginning.
        begin = begins.get(key, low)
        if not begin <= low <= high + 1 <= end:
            raise PipelineError(
                f"batch {batch} has offsets {low} to {high} of {key[0]}-{key[1]}, and should have {begin} to {end - 1}"
            )
        if begin < end:
            ranges.append(OffsetRange(topic=key[0], partition=key[1], begin=begin, end=end, rows=rows))
    if strange := sorted(set(seen) - set(ends)):
        raise PipelineError(f"batch {batch} has records of {strange[0][0]}-{strange[0][1]}, which it should not read")
    return ranges


def _read_offsets(path: Path) -> dict[Partition, int]:
    """Return the offsets in the last line of a file of Spark's; before it stand a version and what the query was."""
    try:
        found = json.loads(path.read_text().strip().splitlines()[-1].lstrip("\0"))
        return {
            (topic, int(partition)): int(offset)
            for topic, partitions in found.items()
            for partition, offset in partitions.items()
        }
    except (OSError, ValueError, IndexError, AttributeError) as error:
        raise PipelineError(f"{path}: no offsets of Spark's: {reason_of(error)}") from None
