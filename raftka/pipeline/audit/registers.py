"""The audit of registers: read in parts, judged key by key, and said as one verdict.

A key is one task's, however long its history is: see RFC 0014 for why a long one is not cut.
"""

import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from raftka.check.places import Places
from raftka.check.register_history import check_answers
from raftka.check.register_model import CONFIGURATIONS_MAX, KeyVerdict, check_key, verdict_on_keys
from raftka.check.register_pieces import RegisterPart, Steps, check_parts, key_history, read_register_part
from raftka.check.verdict import Verdict
from raftka.pipeline.audit.cluster import Cluster
from raftka.pipeline.audit.parts import CHUNKS_PER_PART, FilePart, HistoryFile, divide
from raftka.pipeline.audit.scratch import Kept, keep

BUCKETS = 64


@dataclass(frozen=True, slots=True)
class _Read:
    part: RegisterPart
    pieces: dict[int, Kept]


@dataclass(frozen=True, slots=True)
class _KeyFound:
    """The verdict on a key, and the first line that has it, which orders keys."""

    line: int
    verdict: KeyVerdict


def audit_registers(
    files: Sequence[HistoryFile],
    model: str,
    cluster: Cluster,
    scratch: Path,
    chunks: int = CHUNKS_PER_PART,
    configurations_max: int = CONFIGURATIONS_MAX,
) -> Verdict:
    """Return the verdict of `check_register` on the history of these files.

    Args:
        files: One history; all workers see them.
        model: register or cas.
        cluster: What does the work.
        scratch: An empty folder, that all workers see, too.
        chunks: Of a part of a file.
        configurations_max: Ways to explain a window, before nothing is claimed of it.

    Raises:
        HistoryError: It cannot be judged.
        OSError: A file cannot be read.
    """
    parts = divide(files, cluster, chunks)
    read = cluster.map(partial(_read, parts.places, scratch, model == "cas"), parts.parts)
    check_parts([each.part for each in read], parts.places)
    if parts.error is not None:
        raise parts.error
    operations = sum(each.part.operations for each in read)
    check_answers(operations, is_answered=any(each.part.is_answered for each in read))
    buckets = sorted({bucket for each in read for bucket in each.pieces})
    tasks = [[each.pieces[bucket] for each in read if bucket in each.pieces] for bucket in buckets]
    found = [
        each for several in cluster.map(partial(_judge, parts.places, configurations_max), tasks) for each in several
    ]
    found.sort(key=lambda each: each.line)
    return verdict_on_keys((each.verdict for each in found), model, operations)


def _read(places: Places, scratch: Path, has_cas: bool, part: FilePart) -> _Read:
    said, steps = read_register_part(part.path, part.part, part.before, places, has_cas=has_cas)
    buckets: dict[int, dict[str, Steps]] = defaultdict(dict)
    if said.error is None:
        for key, its in steps.items():
            # Not hash(), which differs from process to process.
            buckets[zlib.crc32(key.encode("utf-8", "surrogatepass")) % BUCKETS][key] = its
    return _Read(said, keep(scratch, buckets))


def _judge(places: Places, configurations_max: int, pieces: list[Kept]) -> list[_KeyFound]:
    keys: dict[str, list[Steps]] = defaultdict(list)
    for kept in pieces:
        for key, steps in kept.load().items():
            keys[key].append(steps)
    found = []
    for key, several in keys.items():
        history = key_history(several, places)
        found.append(_KeyFound(several[0][0][0], check_key(history, key, configurations_max)))
    return found
