"""The documentation site is built with warnings as errors, and what was built needs no network."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]

# What a browser would load by itself; a link that a reader may follow is none of it.
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"?((?:https?:)?//[^\"\s>]+)")
ADDRESS = re.compile(r"\b(?:src|href)=\"?([^\"\s>#?]+)")


def script(name: str) -> ModuleType:
    """Return a script of docs/, which is in no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def build() -> ModuleType:
    return script("build")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    into = tmp_path_factory.mktemp("docs")
    return subprocess.run(
        [sys.executable, ROOT / "docs" / "build.py", "--into", into], capture_output=True, text=True, timeout=300
    )


def test_the_site_is_built_without_a_warning(built: subprocess.CompletedProcess[str]) -> None:
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""


def test_no_page_of_the_site_loads_anything_from_elsewhere(built: subprocess.CompletedProcess[str]) -> None:
    site = Path(built.stdout.strip()).parent
    pages = sorted(site.rglob("*.html"))
    assert site / "tour.html" in pages
    found = [
        f"{page.relative_to(site).as_posix()}: {address}"
        for page in pages
        for address in LOADED.findall(page.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_everything_that_a_page_of_the_site_names_is_in_the_site(built: subprocess.CompletedProcess[str]) -> None:
    site = Path(built.stdout.strip()).parent
    found = [
        f"{page.relative_to(site).as_posix()}: {address}"
        for page in sorted(site.rglob("*.html"))
        # The page for addresses that do not exist is read from anywhere, so its own begin at the root of a server.
        if page.name != "404.html"
        for address in ADDRESS.findall(page.read_text(encoding="utf-8"))
        if not re.match(r"[a-z]+:", address) and not (page.parent / address).exists()
    ]
    assert found == []


def test_a_copied_block_is_what_its_source_says() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "docs" / "copies.py", "--check"], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stderr


def test_a_changed_copy_is_written_anew(tmp_path: Path) -> None:
    copies = script("copies")
    for page in ("README.md", "docs/consistency.md", "rfcs/0003-replication.md"):
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text((ROOT / page).read_text())
    (tmp_path / "README.md").write_text((ROOT / "README.md").read_text().replace("| no_ack |", "| never_ack |"))
    assert copies.copies(tmp_path)["README.md"] == (ROOT / "README.md").read_text()
    (tmp_path / "README.md").write_text("# No block\n")
    with pytest.raises(copies.CopyError, match=r"README\.md must have one block"):
        copies.copies(tmp_path)


def test_the_configuration_page_says_what_the_tables_of_options_say() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "docs" / "configuration.py", "--check"], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stderr


def moved(build: ModuleType, line: str, source: str = "docs/operations/disks.md") -> tuple[str, list[str]]:
    faults: list[str] = []
    return build.with_links(line, Path(source), build.staged_files(), faults), faults


@pytest.mark.parametrize(
    ("line", "in_the_site"),
    [
        ("[a tour](../tour.md#1-three-brokers)", "[a tour](../tour.md#1-three-brokers)"),
        ("[RFC](../../rfcs/0001-architecture.md#design)", "[RFC](../rfcs/0001-architecture.md#design)"),
        ("[changes](../../CHANGELOG.md) and [below](#backup)", "[changes](../CHANGELOG.md) and [below](#backup)"),
        ("![a log](../pictures/positions.svg)", "![a log](../pictures/positions.svg)"),
        ("see [the code](../../raft/consensus.py)", "see the code"),
        ("[elsewhere](https://kafka.apache.org/a.md)", "[elsewhere](https://kafka.apache.org/a.md)"),
        ("`[no](link.md)`", "`[no](link.md)`"),
        ("```\n[no](link.md)\n```", "```\n[no](link.md)\n```"),
    ],
)
def test_a_link_of_the_repository_leads_to_the_same_thing_in_the_site(
    build: ModuleType, line: str, in_the_site: str
) -> None:
    assert moved(build, line) == (in_the_site, [])


def test_a_link_to_nothing_is_a_fault_with_its_place(build: ModuleType) -> None:
    _, faults = moved(build, "first\n[nothing](nothing.md)")
    assert faults == ["docs/operations/disks.md:2: there is no docs/operations/nothing.md"]


def test_a_page_that_the_navigation_leaves_out_is_a_fault(build: ModuleType) -> None:
    files = build.staged_files() | {Path("docs/lost.md"): Path("lost.md")}
    assert build.navigation_faults(files) == ["docs/zensical.toml: the navigation leaves lost.md out"]
    del files[Path("docs/lost.md")], files[Path("docs/tour.md")]
    assert build.navigation_faults(files) == ["docs/zensical.toml: there is no page tour.md"]


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_has_a_title_and_stands_in_a_page(picture: Path) -> None:
    title = ElementTree.parse(picture).getroot().find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text
    pages = [page for page in (ROOT / "docs").rglob("*.md") if f"pictures/{picture.name})" in page.read_text()]
    assert len(pages) == 1
