"""The folder of a run: what the last one has left there is removed, and nothing else ever is."""

import shutil
from pathlib import Path

from raftka.error_text import short_reason_of
from raftka.pipeline.errors import PipelineError

_MARK = ".raftka-pipeline-story"


def prepare(path: Path) -> Path:
    """Make the folder of a run, without what an earlier run has left; returns its absolute path.

    Raises:
        PipelineError: It has other content, or cannot be made.
    """
    path = path.absolute()
    try:
        if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not (path / _MARK).exists())):
            raise PipelineError(f"{path} has other content: the story needs a folder of its own (--out)")
        if path.exists():
            shutil.rmtree(path)
        path.mkdir(parents=True)
        (path / _MARK).touch()
    except OSError as error:
        raise PipelineError(f"{error.filename}: {short_reason_of(error)}") from None
    return path


def shown(path: Path) -> str:
    """Return a path as a person would type it here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
