"""The kinds of pipelines there are. A kind's module imports PySpark, so it is imported when it runs."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.settings import PipelineSettings


class KindName(NamedTuple):
    """Where a kind is, and what it does in a line."""

    module: str
    summary: str


class Kind(NamedTuple):
    """A kind that was imported.

    Attributes:
        settings: Its keys.
        build: Takes a `PipelineRun` and returns a query that is not started yet, a DataStreamWriter.
    """

    settings: type[PipelineSettings]
    build: Callable[[Any], Any]


KINDS = {
    "archive": KindName("raftka.pipeline.archive.kind", "topics to Parquet, every offset exactly once"),
    "telemetry": KindName("raftka.pipeline.telemetry.kind", "lag, latency, elections and unavailability in windows"),
    "windowed-count": KindName("raftka.pipeline.examples.windowed_count", "records per key and window, to a topic"),
    "join": KindName("raftka.pipeline.examples.join", "two topics joined by an id within a time, duplicates left out"),
    "copy": KindName("raftka.pipeline.examples.copy", "records of topics that match a pattern, to another topic"),
    "to-sqlite": KindName(
        "raftka.pipeline.examples.to_sqlite", "the newest value of each key, as text, in a table of SQLite"
    ),
}


def load_kind(name: str) -> Kind:
    """Import a kind: one of `KINDS`, or a module that has `Settings` and `build`.

    Raises:
        PipelineError: There is none, or it is not a kind.
    """
    if name not in KINDS and "." not in name:
        raise PipelineError(f"there is no kind {name} (known: {', '.join(KINDS)}, or a module with a dot in its name)")
    module_name = KINDS[name].module if name in KINDS else name
    if name not in KINDS and str(Path.cwd()) not in sys.path:
        # The command `raftka` does not look into the folder where it was started, `python -m` would.
        sys.path.append(str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise PipelineError(f"kind {name} cannot be imported: {error}") from None
    settings, build = getattr(module, "Settings", None), getattr(module, "build", None)
    if not (isinstance(settings, type) and issubclass(settings, PipelineSettings)) or not callable(build):
        raise PipelineError(
            f"{module_name} is not a kind of pipeline: it needs Settings, a PipelineSettings, and build(run)"
        )
    return Kind(settings, build)
