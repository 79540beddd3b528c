"""Commits of the archive, cut at every step: the next start reaches the state that there would be without the cut."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from raftka.pipeline.archive import commits
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.manifest import load_manifest
from raftka.pipeline.errors import FolderBusyError, PipelineError
from tests.unit.pipeline.archives import CHECKPOINT, contents, new_archive, staged_batch, staged_compaction

# Every call by which the folder changes, or becomes durable.
STEPS = {
    (Path, "replace"),
    (Path, "unlink"),
    (Path, "mkdir"),
    (os, "fsync"),
    (shutil, "rmtree"),
}


class PowerLossError(Exception):
    """The machine went away."""


@contextmanager
def cut_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> Iterator[list[int]]:
    """Let so many steps happen, and none after them; yields a list with the number of those that happened."""
    done = [0]

    def counted(step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            if done[0] >= steps:
                raise PowerLossError
            done[0] += 1
            return step(*arguments, **named)

        return run

    with monkeypatch.context() as patched:
        for owner, name in STEPS:
            patched.setattr(owner, name, counted(getattr(owner, name)))
        yield done


def archive_batch(folder: ArchiveFolder, batch: int) -> None:
    """Do what the pipeline does for one batch, which may have been begun before."""
    commits.settle_batches(folder)
    record = commits.find_batch(folder, CHECKPOINT, batch)
    if record is None:
        record = staged_batch(folder, batch)
        commits.commit(folder, record)
    commits.settle(folder, record)


def compact_once(folder: ArchiveFolder) -> None:
    """Join the files of the first day, unless that was done before."""
    commits.settle_compactions(folder)
    manifest = load_manifest(folder)
    small = [file for file in manifest.files_of("orders") if file.day == "2026-01-01"]
    if len(small) > 1:
        record = staged_compaction(folder, manifest.compactions, small)
        commits.commit(folder, record)
        commits.settle(folder, record)


def test_a_batch_that_is_cut_at_any_step_is_there_once_after_its_repetition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = new_archive(tmp_path / "whole")
    for batch in (0, 1):
        archive_batch(whole, batch)
    for steps in range(1000):
        folder = new_archive(tmp_path / f"cut-{steps}")
        archive_batch(folder, 0)
        is_cut = False
        with cut_after(monkeypatch, steps):
            try:
                archive_batch(folder, 1)
            except PowerLossError:
                is_cut = True
        archive_batch(folder, 1)
        assert contents(folder) == contents(whole), f"cut after {steps} steps"
        assert load_manifest(folder) == load_manifest(whole)
        assert list(folder.staging.iterdir()) == []
        if not is_cut:
            assert steps > 10
            return
    raise AssertionError("a batch has no end")


def test_a_compaction_that_is_cut_at_any_step_is_done_or_not_begun_for_who_reads_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for steps in range(1000):
        folder = new_archive(tmp_path / f"cut-{steps}")
        archive_batch(folder, 0)
        archive_batch(folder, 1)
        is_cut = False
        with cut_after(monkeypatch, steps):
            try:
                compact_once(folder)
            except PowerLossError:
                is_cut = True
        assert sum(file.rows for file in load_manifest(folder).files.values()) == 40, f"cut after {steps} steps"
        compact_once(folder)
        assert sorted(contents(folder).values()) == ["b0f0+b1f0", "b0f1", "b1f1"], f"cut after {steps} steps"
        assert sorted(load_manifest(folder).files) == sorted(contents(folder))
        assert list(folder.staging.iterdir()) == []
        if not is_cut:
            assert steps > 10
            return
    raise AssertionError("a compaction has no end")


def test_batches_of_another_checkpoint_have_records_of_their_own(tmp_path: Path) -> None:
    folder = new_archive(tmp_path)
    archive_batch(folder, 0)
    assert commits.find_batch(folder, "ffff0000-0000", 0) is None


def test_one_process_writes_and_one_compacts_and_nobody_compacts_what_is_verified(tmp_path: Path) -> None:
    folder = new_archive(tmp_path)
    with folder.written(), folder.compacted():
        with pytest.raises(FolderBusyError, match="another pipeline writes to it"), folder.written():
            pass
        with pytest.raises(FolderBusyError, match="another process compacts"), folder.compacted():
            pass
    busy = pytest.raises(FolderBusyError, match="verifies")
    with folder.kept(), folder.kept(), folder.written(), busy, folder.compacted():
        pass
    with folder.compacted():
        pass


def test_a_folder_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is not an archive"):
        ArchiveFolder.open(tmp_path)
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(PipelineError, match="has other content"):
        ArchiveFolder.create(tmp_path)
    with pytest.raises(PipelineError, match="an archive is a local folder"):
        ArchiveFolder.create("s3://bucket/cold")
    other = new_archive(tmp_path / "other")
    (other.path / "_raftka" / "archive.json").write_text('{"format": 2}')
    with pytest.raises(PipelineError, match="is an archive of format 2; this version reads 1"):
        ArchiveFolder.open(other.path)
