"""Inputs worth keeping: each reaches something that no smaller one does. `corpus/TARGET/HASH.bin`."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
# Of one target; the whole corpus stays below a megabyte.
FILES_MAX = 60
BYTES_MAX = 48 * 1024


def file_name(data: bytes) -> str:
    """Return the name of an input's file: the same for the same bytes."""
    return f"{hashlib.sha256(data).hexdigest()[:16]}.bin"


def read_corpus(target: str, folder: Path = CORPUS) -> list[bytes]:
    """Return the inputs kept for a target, in the order of their names."""
    return [path.read_bytes() for path in sorted((folder / target).glob("*.bin"))]


def add(target: str, inputs: Iterable[bytes], folder: Path = CORPUS) -> int:
    """Add inputs to what is kept for a target, the small ones first, as far as there is room; return how many."""
    kept = read_corpus(target, folder)
    files, room = FILES_MAX - len(kept), BYTES_MAX - sum(map(len, kept))
    new = sorted(set(inputs) - set(kept), key=lambda each: (len(each), each))
    added = 0
    for data in new[: max(0, files)]:
        if len(data) > room:
            break
        room -= len(data)
        _write(folder / target, data)
        added += 1
    return added


def replace(target: str, inputs: Iterable[bytes], folder: Path = CORPUS) -> int:
    """Let these be the target's corpus, of every length some, as far as there is room; return how many are kept."""
    kept: list[bytes] = []
    room = BYTES_MAX
    by_length = sorted(set(inputs), key=lambda each: (len(each), each))
    for data in by_length[:: max(1, -(-len(by_length) // FILES_MAX))]:
        if len(data) > room:
            break
        room -= len(data)
        kept.append(data)
    names = set(map(file_name, kept))
    for path in (folder / target).glob("*.bin"):
        if path.name not in names:
            path.unlink()
    for data in kept:
        _write(folder / target, data)
    return len(kept)


def _write(place: Path, data: bytes) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / file_name(data)).write_bytes(data)
