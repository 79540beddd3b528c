"""Types of options and arguments: choices that are enums, bounded numbers, and paths."""

import math
import os
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click

_Choice = TypeVar("_Choice", bound=StrEnum)

PATH = click.Path(path_type=Path)


class EnumChoice(click.Choice[_Choice]):
    """The values of a StrEnum; click itself would offer their names."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        """Return what is typed for a member."""
        return str(choice)


class OutFile(click.ParamType[Path]):
    """The path of a file to write; what can be none is refused before any work is done."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; raise click.BadParameter if the text is empty or names a directory."""
        text = os.fspath(value)
        if not text:
            self.fail("no file is named", param, ctx)
        if text.endswith("/") or os.path.isdir(text):
            self.fail(f"{text} is a directory", param, ctx)
        return Path(text)


OUT_FILE = OutFile()


class BoundedInt(click.IntRange):
    """An int within bounds, both included."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; raise click.BadParameter if it is no number or out of bounds."""
        try:
            number = int(value)
        except ValueError:
            self.fail("must be an integer", param, ctx)
        if words := _out_of_bounds(number, self.min, self.max):
            self.fail(words, param, ctx)
        return number


class BoundedFloat(click.FloatRange):
    """A float within bounds, both included."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raise click.BadParameter if it is no number or out of bounds."""
        try:
            number = float(value)
        except ValueError:
            self.fail("must be a number", param, ctx)
        # It is neither less nor more than anything, so no bound would refuse it.
        if math.isnan(number):
            self.fail("nan is not a number", param, ctx)
        if words := _out_of_bounds(number, self.min, self.max):
            self.fail(words, param, ctx)
        return number


def _out_of_bounds(number: float, low: float | None, high: float | None) -> str:
    """Return what is wrong with a number; an empty text if it is within the bounds."""
    if low is not None and number < low:
        return f"must be at least {low:.10g}"
    if high is not None and number > high:
        return f"must be at most {high:.10g}"
    return ""
