"""How files become part of an archive.

The record's rename is the commit. Everything before it can be thrown away, everything behind it can be repeated.
"""

import shutil
from pathlib import Path

from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.manifest import load_commit
from raftka.pipeline.archive.records import (
    BatchCommit,
    Commit,
    CompactionCommit,
    batch_name,
    encode_commit,
)
from raftka.pipeline.durable_files import replace_file, sync_file, sync_folder


def staging_of_batch(folder: ArchiveFolder, checkpoint: str, batch: int) -> Path:
    """Return where a batch is written, and make sure that nothing of an earlier attempt is there."""
    return _emptied(folder.staging / batch_name(checkpoint, batch).removesuffix(".json"))


def staging_of_compaction(folder: ArchiveFolder, number: int) -> Path:
    """Return where a compaction writes, and make sure that nothing of an earlier attempt is there."""
    return _emptied(folder.staging / f"c{number:010}")


def find_batch(folder: ArchiveFolder, checkpoint: str, batch: int) -> BatchCommit | None:
    """Return the record of a batch; None: it has not been committed."""
    path = folder.commits / batch_name(checkpoint, batch)
    if not path.exists():
        return None
    found = load_commit(path)
    assert isinstance(found, BatchCommit)
    return found


def commit(folder: ArchiveFolder, record: Commit) -> None:
    """Make the files of a record part of the archive, durably; they lie in staging."""
    for file in record.files:
        sync_file(folder.staging / file.staged)
    for parent in sorted(
        {parent for file in record.files for parent in _parents(folder.staging / file.staged, folder)}
    ):
        sync_folder(parent)
    replace_file(folder.commits / record.name, encode_commit(record))


def settle(folder: ArchiveFolder, record: Commit) -> None:
    """Move a record's files to where they belong, and remove what it replaces; what is done already is skipped."""
    changed = set()
    for file in record.files:
        staged, place = folder.staging / file.staged, folder.path / file.path
        if staged.exists():
            for parent in (place.parent.parent, place.parent):
                if not parent.exists():
                    parent.mkdir()
                    changed.add(parent.parent)
            staged.replace(place)
            changed.add(place.parent)
    for path in record.replaces if isinstance(record, CompactionCommit) else []:
        if (folder.path / path).exists():
            (folder.path / path).unlink()
            changed.add((folder.path / path).parent)
    for parent in sorted(changed):
        sync_folder(parent)
    shutil.rmtree(folder.staging / record.name.removesuffix(".json"), ignore_errors=True)


def settle_batches(folder: ArchiveFolder) -> None:
    """Finish what a crash has left between the commit of a batch and its moves; the pipeline's lock is held."""
    _settle_staged(folder, "b")


def settle_compactions(folder: ArchiveFolder) -> None:
    """Finish what a crash has left of compactions; their lock is held."""
    _settle_staged(folder, "c")


def _settle_staged(folder: ArchiveFolder, mark: str) -> None:
    for staged in sorted(folder.staging.iterdir()):
        if staged.name.startswith(mark):
            record = folder.commits / f"{staged.name}.json"
            if record.exists():
                settle(folder, load_commit(record))
            else:
                shutil.rmtree(staged)


def _emptied(path: Path) -> Path:
    if path.exists():
        shutil.rmtree(path)
    return path


def _parents(path: Path, folder: ArchiveFolder) -> list[Path]:
    return [parent for parent in path.parents if parent == folder.staging or folder.staging in parent.parents]
