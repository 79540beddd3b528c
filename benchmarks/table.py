"""`python -m benchmarks.table`: the results as tables: all rows in docs/performance.md, a choice in README.md."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import readme_figures
from benchmarks.figures import FigureError, line, number, replace_between
from benchmarks.report import RESULTS, ROOT

_PAGE = ROOT / "docs" / "performance.md"
_README = ROOT / "README.md"
BEGIN = "<!-- rows of benchmarks/results, written by `make bench-table`: begin -->"
END = "<!-- rows of benchmarks/results: end -->"
_HEADER = ["what", "Raftka", "beside it", "ratio", "pairs from ... to", "target", "verdict"]
_TITLE = "## Targets"
_LOST = "**missed**"


def main() -> int:
    """Write both tables between their markers, or print the one of all rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of NAME.json files")
    parser.add_argument("--page", type=Path, default=_PAGE, help="the page with the markers [default: %(default)s]")
    parser.add_argument("--readme", type=Path, default=_README, help="the page of few figures [default: %(default)s]")
    parser.add_argument("--print", action="store_true", dest="only_print", help="print the table and change nothing")
    arguments = parser.parse_args()
    try:
        documents = load(arguments.results)
        if arguments.only_print:
            print(render(documents))
        else:
            arguments.page.write_text(replace_table(arguments.page.read_text(), render(documents)))
            arguments.readme.write_text(with_figures(arguments.readme.read_text(), documents))
    except FigureError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    return 0


def load(folder: Path) -> list[dict[str, Any]]:
    """Return the results of a folder that have rows, by name.

    Raises:
        FigureError: A file is not a result.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            document = json.loads(path.read_text())
            if "rows" in document["result"]:
                found.append(document)
        except (ValueError, KeyError, TypeError) as error:
            raise FigureError(f"{path} is not a result: {error!r}") from error
    if not found:
        raise FigureError(f"no result with rows in {folder}")
    return found


def render(documents: Sequence[dict[str, Any]]) -> str:
    """Return the table, how many targets were met, and where the numbers come from."""
    rows = [found for document in documents for found in document["result"]["rows"]]
    judged = [found for found in rows if found["met"] is not None]
    lines = [line(_HEADER), line(["---"] * len(_HEADER)), *(line(_cells(found)) for found in rows)]
    met = sum(found["met"] for found in judged)
    return "\n".join([*lines, "", f"{met} of {len(judged)} targets are met.", "", *_origins(documents)])


def _cells(found: dict[str, Any]) -> list[str]:
    unit = found["unit"]
    own = "could not run" if found["raftka"] is None else number(found["raftka"], unit)
    if "refused" in found:
        own = f"refused: {found['refused']}"
    ratio = f"{found['ratio']:.2f}x" if "ratio" in found else ""
    spread = found.get("ratio_range") or []
    return [
        found["what"],
        own,
        f"{number(found['peer'], unit)} ({found['peer_name']})" if "peer" in found else "",
        ratio,
        " to ".join(f"{each:.2f}" for each in spread),
        " and ".join(found["targets"]),
        {True: "met", False: _LOST, None: ""}[found["met"]],
    ]


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
        FigureError: One of the markers is missing.
    """
    if BEGIN not in page and END not in page:
        page = f"{page.rstrip()}\n\n{_TITLE}\n\n{BEGIN}\n{END}\n"
    return replace_between(page, BEGIN, END, table)


def with_figures(page: str, documents: Sequence[dict[str, Any]]) -> str:
    """Return README with the figures of the results.

    Raises:
        FigureError: README lacks a marker, or the results lack a row that README shows.
    """
    return replace_between(page, readme_figures.BEGIN, readme_figures.END, readme_figures.render(documents))


if __name__ == "__main__":
    sys.exit(main())
