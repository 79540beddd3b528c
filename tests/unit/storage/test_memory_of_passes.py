"""How much memory the process of a pass takes at its bounds (RFC 0022, Limits)."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from test_segment_cleaning import Original, request_of, save

from model.ids import Index, Offset, Term
from model.key_value_batch import KeyValue, encode_key_values
from model.record_batch import stamp
from storage.cleaning_process import CleaningJob, CleaningOutcome
from storage.entry import Entry, EntryKind
from tests.unit.model.record_batches import ZSTD, build_batch, packed
from tests.unit.model.test_record_filter import record

_MIB = 1024 * 1024
_MAP_BYTES, _BOUND_MIB = 64 * _MIB, 160
# Linux counts for a process what its parent had when it forked. So a small process starts the child and measures it.
_MEASURED = """
import resource, subprocess, sys
code = subprocess.run([sys.executable, "-I", "-m", "storage.cleaning_process"]).returncode
sys.stderr.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""
# The map takes 200 bytes of its bound for a key.
_KEYS = 340_000


def batches() -> Iterator[tuple[bytearray, int]]:
    """Yield batches that unpack to 16 MiB, of which a pass leaves parts; then as many keys as the map has room for."""
    for keys in (range(16), range(8, 24)):
        records = b"".join(record(delta, b"large %d" % key, bytes(_MIB)) for delta, key in enumerate(keys))
        yield bytearray(build_batch(*[b""] * 16, codec=ZSTD, payload=packed(ZSTD, records))), 16
    for first in range(0, _KEYS, 1000):
        pairs = [KeyValue(b"%036d" % number, b"v") for number in range(first, first + 1000)]
        yield encode_key_values(pairs, 1000), 1000


def a_request(folder: Path) -> bytes:
    entries, offset = [], 0
    for number, (batch, count) in enumerate(batches(), start=1):
        stamp(batch, offset, 1)
        entries.append(Entry(Index(number), Term(1), EntryKind.DATA, Offset(offset), count, batch))
        offset += count
    original = Original(entries, [entries])
    changes = {"map_bytes": _MAP_BYTES, "segment_bytes": 1 << 30, "index_interval_bytes": 32 * 1024}
    return msgspec.msgpack.encode(CleaningJob(request_of(folder, [save(folder, entries)], original, **changes), 0))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in KiB on Linux")
def test_the_process_of_a_pass_with_a_full_map_and_batches_of_16_mib_takes_at_most_160_mib(tmp_path: Path) -> None:
    request = a_request(tmp_path)
    answers = tmp_path / "answer"
    command = [sys.executable, "-I", "-c", _MEASURED]
    with (
        answers.open("wb") as answer,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=answer, stderr=subprocess.PIPE) as child,
    ):
        assert child.stdin is not None
        assert child.stderr is not None
        child.stdin.write(len(request).to_bytes(8, "big") + request)
        # It stays open: the child ends with it.
        child.stdin.flush()
        words = child.stderr.read().decode()
    assert child.returncode == 0, words
    result = msgspec.msgpack.decode(answers.read_bytes(), type=CleaningOutcome).result
    assert result is not None
    assert result.counts.superseded == 8
    # The map was full before the last batch.
    assert result.cleaned_to < request_end(request)
    assert int(words) / 1024 <= _BOUND_MIB


def request_end(request: bytes) -> int:
    return msgspec.msgpack.decode(request, type=CleaningJob).request.sources[-1].last_index
