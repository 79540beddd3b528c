"""The table of what is refused in RFC 0020 names tests that there are."""

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_RFC = _ROOT / "rfcs" / "0020-brokers.md"


def test_each_refusal_names_a_test_that_there_is() -> None:
    _, _, section = _RFC.read_text().partition("### 5. What is refused\n")
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")][2:]
    named = [re.findall(r"`(test_\w+)`", row) for row in rows]
    assert rows
    assert all(named), [row for row, names in zip(rows, named, strict=True) if not names]
    defined = {
        name
        for path in (_ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert {name for names in named for name in names} <= defined
