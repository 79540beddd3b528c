"""`python -m benchmarks.table`: the rows of all results as a table in docs/performance.md, the lost ones too."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS, ROOT

_PAGE = ROOT / "docs" / "performance.md"
BEGIN = "<!-- rows of benchmarks/results, written by `make bench-table`: begin -->"
END = "<!-- rows of benchmarks/results: end -->"
_HEADER = ["what", "Raftka", "beside it", "ratio", "pairs from ... to", "target", "verdict"]
_TITLE = "## Targets"
_LOST = "**missed**"


class TableError(Exception):
    """The page or a result cannot be used; one line."""


def main() -> int:
    """Write the table between its markers, or print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of NAME.json files")
    parser.add_argument("--page", type=Path, default=_PAGE, help="the page with the markers [default: %(default)s]")
    parser.add_argument("--print", action="store_true", dest="only_print", help="print the table and change nothing")
    arguments = parser.parse_args()
    try:
        table = render(load(arguments.results))
        if arguments.only_print:
            print(table)
        else:
            arguments.page.write_text(replace_table(arguments.page.read_text(), table))
    except TableError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    return 0


def load(folder: Path) -> list[dict[str, Any]]:
    """Return the results of a folder that have rows, by name.

    Raises:
        TableError: A file is not a result.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            document = json.loads(path.read_text())
            if "rows" in document["result"]:
                found.append(document)
        except (ValueError, KeyError, TypeError) as error:
            raise TableError(f"{path} is not a result: {error!r}") from error
    if not found:
        raise TableError(f"no result with rows in {folder}")
    return found


def render(documents: Sequence[dict[str, Any]]) -> str:
    """Return the table, how many targets were met, and where the numbers come from."""
    rows = [found for document in documents for found in document["result"]["rows"]]
    judged = [found for found in rows if found["met"] is not None]
    lines = [_line(_HEADER), _line(["---"] * len(_HEADER)), *(_line(_cells(found)) for found in rows)]
    met = sum(found["met"] for found in judged)
    return "\n".join([*lines, "", f"{met} of {len(judged)} targets are met.", "", *_origins(documents)])


def _cells(found: dict[str, Any]) -> list[str]:
    unit = found["unit"]
    own = "could not run" if found["raftka"] is None else _number(found["raftka"], unit)
    if "refused" in found:
        own = f"refused: {found['refused']}"
    ratio = f"{found['ratio']:.2f}x" if "ratio" in found else ""
    spread = found.get("ratio_range") or []
    return [
        found["what"],
        own,
        f"{_number(found['peer'], unit)} ({found['peer_name']})" if "peer" in found else "",
        ratio,
        " to ".join(f"{each:.2f}" for each in spread),
        " and ".join(found["targets"]),
        {True: "met", False: _LOST, None: ""}[found["met"]],
    ]


def _number(value: float, unit: str) -> str:
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".strip()


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(each.replace('|', '/') for each in cells)} |"


def _origins(documents: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for each machine, date and commit that results were made with."""
    names: dict[str, list[str]] = {}
    for document in documents:
        machine = document["machine"]
        pairs = f", {document['pairs']} pairs of {document['seconds']:g} s" if "matches" in document["result"] else ""
        origin = (
            f"{document['measured_on']}, commit {document['source']}, {machine['cores']} cores of {machine['cpu']}, "
            f"{machine['memory_gib']} GiB, Linux {machine['kernel']}, Python {machine['python']}, "
            f"{machine['disk_file_system']} with "
            f"{machine['disk_fdatasync_ms']} ms for an fdatasync{pairs}"
        )
        names.setdefault(origin, []).append(document["benchmark"])
    return [f"* {', '.join(each)}: {origin}." for origin, each in names.items()]


def replace_table(page: str, table: str) -> str:
    """Return the page with another table between the markers; a page without them gets a section at its end.

    Raises:
        TableError: One of the markers is missing.
    """
    if BEGIN not in page and END not in page:
        page = f"{page.rstrip()}\n\n{_TITLE}\n\n{BEGIN}\n{END}\n"
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise TableError(f"the page has only one of these lines: {BEGIN} {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
