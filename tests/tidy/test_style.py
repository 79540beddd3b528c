"""What a machine can hold of the style in CONTRIBUTING.md: pages for users and contributors, and docstrings of modules."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "rfcs").glob("*.md")))
TREES = ("runtime", "model", "storage", "rpc", "raft", "cluster", "kafka_api", "raftka", "benchmarks", "tests")

# "Use at most about 30 words": of 100 sentences, 95 have no more than this.
SENTENCE_WORDS_OF_PAGES = 27
SENTENCE_WORDS_OF_DOCSTRINGS = 25
SENTENCE_WORDS_MAX = 40
TABLE_OF_CONTENTS_LINES = 300

# Riddles that the style page forbids, each with what to write instead.
BANNED = (
    # Not "told apart" and "told from", which are words for "distinguished".
    (r"\b(?:is|are|was|were) told\b(?! (?:apart|from)\b)", "name who does what: a reply says, a log reports"),
    (r"\bwhat (?:[\w-]+ ){1,4}(?:has|have) not\b", "features the client lacks"),
    (r"\btest_(?:it|they)_", "a test names its subject"),
    (r"\bthe dearest\b", "the slowest, the most expensive"),
    (r"\bit is proven that\b", "the run verifies"),
    (r"\bas it must be\b", "say which property holds"),
)
# A page says in its first paragraphs what it is for, and who needs it.
SUBJECT = re.compile(r"\bThis (?:page|RFC|tour)\b")
READERS = re.compile(
    r"\bfor (?:both )?(?:users|developers|contributors|operators|readers|everyone|anyone)\b"
    r"|\bRead (?:it|this page) (?:before|first|if)\b|\bUse it when\b"
)
ROADS = ("Use it", "Operate it", "Understand it")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """Return the paragraphs and items of a page or docstring: no code, no tables, no headings, no comments."""
    lines, is_code = [], False
    for line in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).splitlines():
        item = re.match(r"\s*(?:[-*]|\d+\.) (.*)", line)
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
            lines.append("")
        elif is_code or line.lstrip().startswith(("|", "#")) or (line.startswith("    ") and item is None):
            lines.append("")
        else:
            lines.append(f"\n{item[1]}" if item else line)
    return "\n".join(lines)


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield (words, sentence); code in a line counts as one word."""
    for paragraph in re.split(r"\n\s*\n", prose(text)):
        plain = re.sub(r"`[^`]*`", "x", " ".join(paragraph.split()))
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
        for sentence in re.split(r"(?<=[.!?:;])\s+", plain):
            words = len(re.findall(r"[A-Za-z0-9][\w'/.-]*", sentence))
            if words:
                yield words, sentence


def percentile_95(numbers: list[int]) -> int:
    return sorted(numbers)[max(0, -(-len(numbers) * 95 // 100) - 1)]


def module_docstrings(tree: str) -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", f"{tree}/*.py"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    found = {}
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            found[name] = ast.get_docstring(ast.parse((ROOT / name).read_text())) or ""
    return found


def banned_in(name: str, text: str) -> list[str]:
    plain = " ".join(re.sub(r"`[^`]*`", "x", text).split())
    return [
        f"{name}: {found[0]!r}: {instead}"
        for pattern, instead in BANNED
        for found in re.finditer(pattern, plain, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_sentences_of_a_page_are_short(page: Path) -> None:
    found = sorted(sentences(page.read_text()), reverse=True)
    words, longest = found[0]
    assert words <= SENTENCE_WORDS_MAX, longest
    long = [sentence for words, sentence in found if words > SENTENCE_WORDS_OF_PAGES]
    assert percentile_95([words for words, _ in found]) <= SENTENCE_WORDS_OF_PAGES, long


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
@pytest.mark.parametrize("tree", TREES)
def test_sentences_of_module_docstrings_are_short(tree: str) -> None:
    found = [each for text in module_docstrings(tree).values() for each in sentences(text)]
    long = [sentence for words, sentence in sorted(found, reverse=True) if words > SENTENCE_WORDS_OF_DOCSTRINGS]
    assert percentile_95([words for words, _ in found]) <= SENTENCE_WORDS_OF_DOCSTRINGS, long


def test_no_page_has_a_banned_phrase() -> None:
    assert [each for page in PAGES for each in banned_in(name_of(page), prose(page.read_text()))] == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
@pytest.mark.parametrize("tree", TREES)
def test_no_module_docstring_has_a_banned_phrase(tree: str) -> None:
    assert [each for name, text in module_docstrings(tree).items() for each in banned_in(name, text)] == []


@pytest.mark.parametrize(
    ("text", "is_banned"),
    [
        ("when it ends, who waits is told", True),
        ("features that the client lacks, that is what the client has not", True),
        ("damage is told\napart by its checksum", False),
        ("the leader tells its followers", False),
        ("`test_it_works` is a bad name", False),
        ("see test_it_works", True),
    ],
)
def test_a_banned_phrase_is_found_over_line_ends_and_not_in_code(text: str, is_banned: bool) -> None:
    assert bool(banned_in("page", text)) == is_banned


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_begins_with_what_it_is_for_and_who_needs_it(page: Path) -> None:
    before_first_section = page.read_text().partition("\n## ")[0]
    opening = " ".join(prose(before_first_section).split())
    assert SUBJECT.search(opening), "no sentence begins `This page ...`"
    assert READERS.search(opening), "no sentence names the readers, as in `It is for operators.`"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_long_page_has_a_table_of_contents(page: Path) -> None:
    text = page.read_text()
    if text.count("\n") > TABLE_OF_CONTENTS_LINES:
        # A link to a section, before the second section ends.
        assert re.search(r"^\s*- \[[^\]]+\]\(#", "\n## ".join(text.split("\n## ")[:2]), re.MULTILINE)


def test_the_first_page_of_the_documentation_has_three_roads() -> None:
    text = (ROOT / "docs" / "index.md").read_text()
    headings = re.findall(r"^### (.+)$", text, re.MULTILINE)
    assert headings == list(ROADS)
    for road, section in zip(ROADS, re.split(r"^### .+$", text, flags=re.MULTILINE)[1:], strict=True):
        links = re.findall(r"\]\(([^)#]+\.md)", section.partition("\n## ")[0])
        assert len(links) >= 3, road
        assert all((ROOT / "docs" / link).is_file() for link in links), road
