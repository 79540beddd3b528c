"""Copy blocks of one page into others: `python docs/copies.py`.

A block begins and ends with a comment that has its name. One page is its source; in every other page the block is a
copy. With `--check` nothing is written, and the exit code is 1 if a copy is not what the source says; the suite does
that.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# By the name of a block: the page that is its source, and the pages with a copy, from the root.
BLOCKS = {
    "levels": ("docs/consistency.md", ("README.md", "rfcs/0003-replication.md")),
}


class CopyError(Exception):
    """A page has no such block, or more than one; one line."""


def begin_line(name: str, source: str, page: str) -> str:
    """Return the comment before a block; in a copy it names the source."""
    origin = "" if page == source else f", copied by docs/copies.py from {source}"
    return f"<!-- {name}{origin}: begin -->"


def split(text: str, page: str, begin: str, end: str) -> tuple[str, str, str]:
    """Return what is before the block, the block, and what follows it.

    Raises:
        CopyError: The page does not have one such block.
    """
    found = re.split(f"({re.escape(begin)}\n|{re.escape(end)}\n)", text)
    if [each.rstrip("\n") for each in found[1::2]] != [begin, end]:
        raise CopyError(f"{page} must have one block between the lines {begin} and {end}")
    return found[0] + found[1], found[2], found[3] + found[4]


def copies(root: Path = ROOT) -> dict[str, str]:
    """Return the text that each page with copies must have, by its path from the root.

    Raises:
        CopyError: A page lacks a block.
    """
    pages: dict[str, str] = {}
    for name, (source, targets) in BLOCKS.items():
        end = f"<!-- {name}: end -->"
        _, block, _ = split((root / source).read_text(encoding="utf-8"), source, begin_line(name, source, source), end)
        for page in targets:
            text = pages.get(page) or (root / page).read_text(encoding="utf-8")
            before, _, after = split(text, page, begin_line(name, source, page), end)
            pages[page] = before + block + after
    return pages


def main() -> int:
    """Write the copies, or compare them."""
    parser = argparse.ArgumentParser(description="Copy blocks of one page into others.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a copy is not up to date")
    check = parser.parse_args().check
    try:
        differing = {page: text for page, text in copies().items() if (ROOT / page).read_text(encoding="utf-8") != text}
    except CopyError as error:
        print(error, file=sys.stderr)
        return 1
    for page, text in differing.items():
        if check:
            print(f"{page} has a copy that differs from its source: run `python docs/copies.py`", file=sys.stderr)
        else:
            (ROOT / page).write_text(text, encoding="utf-8")
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
