"""Records in batches that no leader refuses: so many replicas, so many bytes."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cluster.partition import Partition
from model.key_value_batch import KeyValue
from raft.interval_figures import TakenFigures

REPLICAS_PER_BATCH = 200
BATCH_BYTES_MAX = 512 * 1024


class Sample(NamedTuple):
    """One replica's record, and what has to be put back if it reaches nobody."""

    partition: Partition
    taken: TakenFigures
    record: KeyValue

    def put_back(self) -> None:
        """Let the replica's next record tell what this one did."""
        if self.partition.figures is not None:
            self.partition.figures.put_back(self.taken)


def batches(
    samples: Sequence[Sample], replicas_max: int = REPLICAS_PER_BATCH, bytes_max: int = BATCH_BYTES_MAX
) -> Iterator[list[Sample]]:
    """Yield the samples in their order; a batch exceeds `bytes_max` only where one record alone does."""
    batch: list[Sample] = []
    size = 0
    for sample in samples:
        length = len(sample.record.key) + len(sample.record.value or b"")
        if batch and (len(batch) >= replicas_max or size + length > bytes_max):
            yield batch
            batch, size = [], 0
        batch.append(sample)
        size += length
    if batch:
        yield batch
