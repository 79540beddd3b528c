"""Build the documentation site: `python docs/build.py`, or `make docs`.

The pages are those of docs/, the RFCs, and two pages of the root. They are copied side by side, because the site
generator takes one folder, and their links follow them: in the repository a link leads to a file as it lies there, in
the site to the page that was made of it. A link to a source file becomes plain text, since the site holds no sources.
A link to nothing, a page that the navigation leaves out and a warning of the generator end the build.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "docs" / "zensical.toml"
ROOT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")
PICTURES = {".svg"}
BUILD_SECONDS_MAX = 300

_FENCE = re.compile(r"^\s*(```|~~~)")
# A link or an image in the text of a page, but not in `code`.
_LINK = re.compile(r"(?P<code>`+[^`]*`+)|(?P<mark>!?)\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\((?P<target>[^)\s]+)\)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


class BuildError(Exception):
    """What a person has to repair, one fault per line."""


def staged_files() -> dict[Path, Path]:
    """Return which file of the repository becomes which file of the site's source, both relative."""
    files = {
        path.relative_to(ROOT): path.relative_to(ROOT / "docs")
        for path in sorted((ROOT / "docs").rglob("*"))
        if path.suffix == ".md" or path.suffix in PICTURES
    }
    files |= {path.relative_to(ROOT): path.relative_to(ROOT) for path in sorted((ROOT / "rfcs").glob("*.md"))}
    return files | {Path(name): Path(name) for name in ROOT_PAGES}


def with_links(text: str, source: Path, files: dict[Path, Path], faults: list[str]) -> str:
    """Return a page with its links as they lead in the site; what leads nowhere is added to the faults."""
    lines, fence = [], ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1] == fence:
            fence = ""
        elif not fence:
            line = _with_links(line, source, number, files, faults)
        lines.append(line)
    return "\n".join(lines)


def _with_links(line: str, source: Path, number: int, files: dict[Path, Path], faults: list[str]) -> str:
    def moved(found: re.Match[str]) -> str:
        if found["code"] or _ELSEWHERE.match(found["target"]) or found["target"].startswith("#"):
            return found[0]
        target, _, anchor = found["target"].partition("#")
        path = Path(os.path.normpath(source.parent / target))
        if path not in files:
            if not (ROOT / path).exists():
                faults.append(f"{source.as_posix()}:{number}: there is no {path.as_posix()}")
            return found["text"]
        link = os.path.relpath(files[path], files[source].parent)
        return f"{found['mark']}[{found['text']}]({link}{'#' + anchor if anchor else ''})"

    return _LINK.sub(moved, line)


def pages_of(nav: Any) -> Iterator[str]:
    """Yield every page that a navigation leads to."""
    if isinstance(nav, str):
        yield nav
    for entry in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from pages_of(entry)


def navigation_faults(files: dict[Path, Path]) -> list[str]:
    """Return what is a page and not in the navigation, and the other way round."""
    named = list(pages_of(tomllib.loads(CONFIG.read_text(encoding="utf-8"))["project"]["nav"]))
    pages = {page.as_posix() for page in files.values() if page.suffix == ".md"}
    name = CONFIG.relative_to(ROOT).as_posix()
    return [
        *(f"{name}: there is no page {page}" for page in named if page not in pages),
        *(f"{name}: the navigation leaves {page} out" for page in sorted(pages - set(named))),
        *(f"{name}: the navigation has {page} twice" for page in sorted(pages) if named.count(page) > 1),
    ]


def stage(into: Path) -> None:
    """Write what the generator reads into a folder: its configuration, and `pages`.

    Raises:
        BuildError: A link leads nowhere, or the navigation and the pages differ.
    """
    files = staged_files()
    faults = navigation_faults(files)
    shutil.rmtree(into / "pages", ignore_errors=True)
    for source, page in files.items():
        place = into / "pages" / page
        place.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / source).read_text(encoding="utf-8")
        place.write_text(with_links(text, source, files, faults) if page.suffix == ".md" else text, encoding="utf-8")
    if faults:
        raise BuildError("\n".join(faults))
    shutil.copyfile(CONFIG, into / CONFIG.name)


def generate(into: Path) -> None:
    """Have the generator make `site` of what was staged.

    Raises:
        BuildError: It had something to warn of.
    """
    made = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=into,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    if made.returncode != 0:
        # Behind its report the generator prints how it came to its own end, which helps nobody.
        report = _COLOUR.sub("", made.stderr).partition("Traceback (most recent call last)")[0].strip()
        raise BuildError(report or made.stderr)


def main() -> int:
    """Build the site; the exit code is 1 if there is something to repair."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--into", type=Path, default=ROOT / "build", help="folder of `site` (default: build)")
    into = parser.parse_args().into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    try:
        stage(into)
        generate(into)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(into / "site" / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
