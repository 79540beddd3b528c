"""Figures and lines of the generated tables, and the markers between which a page keeps one."""

from collections.abc import Iterable


class FigureError(Exception):
    """A page or a result cannot be used; one line."""


def number(value: float, unit: str) -> str:
    """Return a value with about three digits, and its unit; an empty unit is left out."""
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".strip()


def line(cells: Iterable[str]) -> str:
    """Return one line of a Markdown table; a `|` of a cell becomes a `/`."""
    return f"| {' | '.join(each.replace('|', '/') for each in cells)} |"


def replace_between(page: str, begin: str, end: str, text: str) -> str:
    """Return the page with another text between two lines.

    Raises:
        FigureError: One of the lines is missing.
    """
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise FigureError(f"the page lacks one of these lines: {begin} {end}")
    return f"{before}{begin}\n{text}\n{end}{after}"
