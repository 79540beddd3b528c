"""Where settings come from: `--set` over the environment over pipelines.toml over defaults."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raftka.error_text import short_reason_of
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.settings import check_name

DEFAULT_FILE = "pipelines.toml"
DEFAULT_DIR = "raftka-pipelines"
_TOP_KEYS = ("brokers", "dir")
# Kinds whose `to` is a place on this machine; of other kinds it is a topic.
_KINDS_TO_FOLDER = ("archive", "telemetry", "to-sqlite")


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """A file of pipelines, as it was read; there may be none.

    Attributes:
        path: None: there is no file.
        dir: Where checkpoints, status and output of the pipelines are.
        brokers: For pipelines that name none themselves; None: the default.
        sections: Values by dotted key, by name of the pipeline.
    """

    path: Path | None
    dir: Path
    brokers: str | None = None
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def where(self, name: str) -> str:
        """Return how errors name a pipeline's section."""
        return f"{self.path}: pipelines.{name}" if self.path is not None and name in self.sections else name

    def values_of(self, name: str, kinds: Mapping[str, object], flags: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of one pipeline by dotted key.

        Args:
            name: A section, or a kind, which then runs with its defaults and the flags.
            kinds: Kinds that need no section.
            flags: Values that go over all others.

        Raises:
            PipelineError: There is neither such a section nor such a kind.
        """
        check_name(name)
        if name in self.sections:
            own = dict(self.sections[name])
        elif name in kinds:
            own = {"kind": name}
        else:
            known = sorted({*self.sections, *kinds})
            raise PipelineError(
                f"there is no pipeline {name}: {self.path or DEFAULT_FILE} does not define it, and no kind has"
                f" this name (known: {', '.join(known)})"
            )
        if self.brokers is not None:
            own.setdefault("brokers", self.brokers)
        return own | dict(flags)


def load_file(path: Path | None, environment: Mapping[str, str]) -> PipelineFile:
    """Read the file of pipelines.

    Args:
        path: None: RAFTKA_PIPELINES names it, or it is ./pipelines.toml, if there is one.
        environment: Where variables are looked up.

    Raises:
        PipelineError: It cannot be read, or is not such a file.
    """
    if path is None and (file := environment.get("RAFTKA_PIPELINES")):
        path = Path(file)
    if path is None and Path(DEFAULT_FILE).exists():
        path = Path(DEFAULT_FILE)
    document: dict[str, Any] = {} if path is None else _read(path)
    sections = document.pop("pipelines", {})
    top = dict(_flattened(document, ""))
    if unknown := sorted(set(top) - set(_TOP_KEYS)):
        raise PipelineError(f"{path}: unknown key {unknown[0]} (known: {', '.join(_TOP_KEYS)} and [pipelines.NAME])")
    for key, value in top.items():
        if not isinstance(value, str):
            raise PipelineError(f"{path}: {key} must be text")
    if not isinstance(sections, dict) or not all(isinstance(each, dict) for each in sections.values()):
        raise PipelineError(f"{path}: pipelines must be tables, as in [pipelines.NAME]")
    for name in sections:
        check_name(name)
    # A variable that is set to nothing is not set.
    named = environment.get("RAFTKA_PIPELINE_DIR")
    folder = Path(named or top.get("dir") or DEFAULT_DIR)
    # What a file says of places is meant from where the file lies.
    if path is not None and not named and "dir" in top:
        folder = path.parent / folder
    brokers = environment.get("RAFTKA_BROKERS") or top.get("brokers")
    flat = {name: _placed(dict(_flattened(section, "")), path) for name, section in sections.items()}
    if environment.get("RAFTKA_BROKERS"):
        for section in flat.values():
            section["brokers"] = brokers
    return PipelineFile(path, folder.absolute(), brokers, flat)


def _placed(section: dict[str, Any], path: Path | None) -> dict[str, Any]:
    """Return a section whose relative `to` begins in the folder of the file, as `dir` does."""
    to = section.get("to")
    if path is None or section.get("kind") not in _KINDS_TO_FOLDER or not isinstance(to, str) or "://" in to:
        return section
    return section | {"to": str((path.parent / to).absolute())}


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            return tomllib.load(stream)
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: cannot be read: {short_reason_of(error)}") from None
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{path}: not TOML: {error}{_hint(str(error))}") from None


def _hint(error: str) -> str:
    """Return what most likely is the reason for a name that is a value and a beginning of others."""
    if "Cannot mutate immutable namespace" in error or "Cannot overwrite a value" in error:
        return ": a key is there twice, or topics beside topics.pattern, of which a pipeline has one"
    return ""


def _flattened(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
