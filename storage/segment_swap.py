"""Putting a cleaned segment in the place of its sources: the blocking halves, and what a start finishes (RFC 0022, 6).

    commit   `<base>-<term>.log.cleaned` becomes `<base>-<term>-<last>.swap`; durable
    finish   the sources go, durably, and the file becomes `<base>-<term>.log`; durable

Both may be repeated where they failed. The fsync between the removal and the second rename is needed: a power loss may
keep the rename and bring back a source, and then two files would hold the same entries.
"""

import re
from typing import NamedTuple

from model.ids import Index, Term
from runtime.files import FileSystem
from storage.cleaned_output import CLEANED_SUFFIX, CleanedSegment
from storage.index_file import index_path
from storage.segment import parse_segment_name, segment_name

SWAP_SUFFIX = ".swap"
_NAME = re.compile(r"(\d{20})-(\d+)-(\d{20})\.swap")


class Swap(NamedTuple):
    """A committed swap: its file stands for the entries from `base_index` to `last_index`."""

    directory: str
    base_index: Index
    term: Term
    last_index: Index

    @property
    def path(self) -> str:
        """Where the file is until the swap is finished."""
        return f"{self.directory}/{self.base_index:020d}-{self.term}-{self.last_index:020d}{SWAP_SUFFIX}"

    @property
    def final_path(self) -> str:
        """Where it is after that."""
        return f"{self.directory}/{segment_name(self.base_index, self.term)}"


def swap_of(directory: str, output: CleanedSegment) -> Swap:
    """Return the swap that puts `output` in the place of its sources."""
    return Swap(directory, output.base_index, output.term, output.last_index)


def commit_swap(files: FileSystem, swap: Swap, output: str) -> None:
    """Make it certain that the file `output` takes the place of its sources."""
    if files.exists(output):
        files.rename(output, swap.path)
    files.fsync_dir(swap.directory)


def finish_swap(files: FileSystem, swap: Swap) -> None:
    """Remove the sources, and give the file its name."""
    if not files.exists(swap.path):
        # Only the last fsync has failed.
        files.fsync_dir(swap.directory)
        return
    for name in files.listdir(swap.directory):
        parsed = parse_segment_name(name)
        if parsed is not None and swap.base_index <= parsed[0] <= swap.last_index:
            path = f"{swap.directory}/{name}"
            for each in (index_path(path), path):
                if files.exists(each):
                    files.unlink(each)
    files.fsync_dir(swap.directory)
    files.rename(swap.path, swap.final_path)
    files.fsync_dir(swap.directory)


def finish_swaps(files: FileSystem, directory: str) -> None:
    """At a start: finish what is committed, and remove what never was."""
    for name in files.listdir(directory):
        match = _NAME.fullmatch(name)
        if match is not None:
            finish_swap(files, Swap(directory, Index(int(match[1])), Term(int(match[2])), Index(int(match[3]))))
    remove_outputs(files, directory)


def remove_outputs(files: FileSystem, directory: str) -> None:
    """Remove what passes have written, as far as no swap of it is committed."""
    outputs = [name for name in files.listdir(directory) if name.endswith(CLEANED_SUFFIX)]
    for name in outputs:
        files.unlink(f"{directory}/{name}")
    if outputs:
        files.fsync_dir(directory)
