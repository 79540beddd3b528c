"""docs/operations/health.md has a section for each rule, with what the rule says in its examples."""

import re
from pathlib import Path

import pytest

from raftka.health.rules import RULES, Rule
from tests.unit.raftka.health_examples import shown

_PAGE = Path(__file__).parents[3] / "docs" / "operations" / "health.md"


def _sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", _PAGE.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_page_has_a_section_for_each_rule_in_their_order() -> None:
    assert list(_sections())[1:] == [rule.name for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_section_of_a_rule_shows_its_findings(rule: Rule) -> None:
    section = _sections()[rule.name]
    (block,) = re.findall(r"^```text\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL)
    assert block == shown(rule), "`python -m tests.unit.raftka.health_examples` prints it"
    assert len(section.partition("```")[0].split()) > 5, "and says in words what it means"
