"""Who names an invariant of an RFC names one that this RFC has: `L9 of RFC 0020`, or `RFC 0020, L9`."""

import re
import subprocess
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_NAME = r"[A-Z][0-9]{1,2}"
_REFERENCE = re.compile(rf"\b({_NAME}(?:(?:, | and ){_NAME})*) of\s+RFC ([0-9]{{4}})\b")
_REFERENCE_BEHIND = re.compile(rf"\bRFC ([0-9]{{4}})(?: section [0-9]+)?, ({_NAME}(?:(?:, | and ){_NAME})*)\b")
_DEFINITION = re.compile(rf"^(?:- |\| )({_NAME})(?: \||[ :])", re.MULTILINE)


def _files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=_ROOT, capture_output=True, text=True, check=True)
    return [_ROOT / name for name in listed.stdout.split()]


def test_every_invariant_that_is_named_with_its_rfc_stands_there() -> None:
    defined = {path.name[:4]: set(_DEFINITION.findall(path.read_text())) for path in (_ROOT / "rfcs").glob("*.md")}
    missing, count = [], 0
    for path in _files():
        text = path.read_text()
        named = _REFERENCE.findall(text)
        named += [(names, number) for number, names in _REFERENCE_BEHIND.findall(text)]
        for names, number in named:
            for name in re.findall(_NAME, names):
                count += 1
                if name not in defined.get(number, set()):
                    missing.append(f"{path.relative_to(_ROOT)}: {name} of RFC {number}")
    assert count > 20, "the names are found"
    assert not missing
