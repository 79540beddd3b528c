"""Log compaction, part by part: each part fits a window of some minutes in which a machine is idle.

    python -m benchmarks compaction                              all parts, one after the other
    python -m benchmarks compaction_produce --pairs 5 --seconds 10 --warm-up 30
    python -m benchmarks compaction_latency --pairs 5

* `compaction_produce`: one producer to a compacted topic beside one that is not, at 1 KiB and at 100 B.
* `compaction_latency`: 1,000 records/s at acks=all while passes run all the time, beside the same without passes.
* `compaction_pass`: records/s of one pass with short and long keys, and the peak memory of its process.
* `compaction_overwrites`: 10^6 overwrites of ten keys, and the bytes that are left on each broker.
* `compaction_slices`: the longest slice on a broker's event loop while passes run, and which callback it was.

The first two start Apache Kafka as well; their pairs are runs of both systems, each with a topic that is compacted and
with one that is not. Each run needs (--seconds + 8 s). So `compaction_produce` takes 12 minutes with 5 pairs of 10 s,
and `compaction_latency` 7. Each part has a file of its own in benchmarks/results.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import compaction_overwrites, compaction_pass, compaction_slices
from benchmarks.compare import compacted_latency, compacted_produce
from benchmarks.plan import Plan

_Part = Callable[[Path, Plan], dict[str, Any]]

BESIDE_KAFKA: dict[str, _Part] = {
    "compaction_produce": compacted_produce.measure,
    "compaction_latency": compacted_latency.measure,
}
ALONE: dict[str, _Part] = {
    "compaction_pass": compaction_pass.measure,
    "compaction_overwrites": compaction_overwrites.measure,
    "compaction_slices": compaction_slices.measure,
}
PARTS = [*BESIDE_KAFKA, *ALONE]
