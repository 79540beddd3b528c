"""How fast a pass of log compaction is, and how much memory its process takes.

One closed segment of uncompressed batches; each key is written five times, at random. The pass is that of a broker: a
child process, which reads, filters and writes, without a bound on its rate. Its start is in the time.
"""

import asyncio
import multiprocessing
import random
import resource
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.cluster import BenchmarkError
from benchmarks.compare.verdict import Target, row
from benchmarks.plan import Plan
from model.ids import Index, Offset, Term
from model.key_value_batch import KeyValue, encode_key_values
from model.record_batch import stamp
from runtime.files import OsFileSystem
from storage.cleaning_process import clean_in_child
from storage.entry import Entry, EntryKind, pack_header
from storage.log_start import ORIGIN
from storage.segment import segment_name
from storage.segment_cleaning import CleaningRequest, Source

_RECORDS, _QUICK_RECORDS = 1_000_000, 100_000
_PER_BATCH = 100
_WRITES_PER_KEY = 5
_VALUE = b"v" * 100
# By bytes of a key: records/s.
_TARGETS = {16: 250_000, 36: 150_000}
_MEMORY_MIB = 160
_SECONDS_MAX = 600.0


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return records/s of passes over records with short and with long keys, and the child's peak memory.

    Raises:
        BenchmarkError: A pass has not removed what it should.
    """
    count = _QUICK_RECORDS if plan.is_quick else _RECORDS
    rows, peaks = [], []
    for key_bytes, least in _TARGETS.items():
        folder = data_dir / f"keys-{key_bytes}"
        folder.mkdir()
        try:
            request = _written(folder, count, key_bytes)
            # In a process of its own: the peak memory of children is that of all that a process has had, JVMs too.
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                rates, peak = pool.submit(_passes, request, count, plan.pairs).result()
        finally:
            shutil.rmtree(folder)
        what = f"a pass over {count:,} records with keys of {key_bytes} bytes and values of 100"
        rows.append(row(what, "records/s", rates, [], Target(">=", least, "value")))
        peaks.append(peak)
    limit = Target("<=", _MEMORY_MIB, "value")
    rows.append(row("peak memory of the process of a pass", "MiB", [max(peaks)], [], limit))
    return {"what": f"each key is written {_WRITES_PER_KEY} times; not compressed", "rows": rows}


def _passes(request: CleaningRequest, count: int, times: int) -> tuple[list[float], float]:
    """Return records/s of each of so many passes, and the MiB of the largest process of them."""
    rates = [_pass(request, count) for _ in range(times)]
    return rates, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def _pass(request: CleaningRequest, count: int) -> float:
    began = time.perf_counter()
    result = asyncio.run(clean_in_child(OsFileSystem(), request, 0, _SECONDS_MAX))
    seconds = time.perf_counter() - began
    left = count - result.counts.superseded
    if result.cleaned_to != request.sources[-1].last_index or not 0 < left <= count // _WRITES_PER_KEY + _PER_BATCH:
        raise BenchmarkError(f"a pass has left {left} of {count} records")
    for output in result.outputs:
        Path(output.path).unlink()
    return count / seconds


def _written(folder: Path, count: int, key_bytes: int) -> CleaningRequest:
    """Write the segment, and return the request for a pass over it."""
    chance = random.Random(key_bytes)
    keys = [chance.randbytes(key_bytes) for _ in range(count // _WRITES_PER_KEY)]
    path, index = folder / segment_name(1, 1), 0
    with path.open("wb") as file:
        for first in range(0, count, _PER_BATCH):
            batch = encode_key_values([KeyValue(chance.choice(keys), _VALUE) for _ in range(_PER_BATCH)], 1000)
            stamp(batch, first, 1)
            index += 1
            entry = Entry(Index(index), Term(1), EntryKind.DATA, Offset(first), _PER_BATCH, batch)
            file.write(pack_header(entry, Index(index - 1)) + batch)
    source = Source(str(path), Index(1), Term(1), Index(index), path.stat().st_size, 0, 0)
    return CleaningRequest(
        directory=str(folder),
        sources=[source],
        start=ORIGIN,
        clean_index=Index(0),
        kept_index=Index(0),
        aborted=(b"", b"", b""),
        deletes_to=Index(0),
        delete_retention_ms=0,
        now_ms=1000,
        times=[],
        segment_bytes=1 << 30,
        joins=True,
        map_bytes=64 * 1024 * 1024,
        index_interval_bytes=32 * 1024,
    )
