"""Numbers that brokers of different versions must agree on: none is used twice, and the page tells all of them."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from enum import IntEnum
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from cluster import controller_blocks
from model.features import KNOWN, OFFERED, UNSTABLE
from storage.entry import EntryKind

ROOT = Path(__file__).parents[2]
# FORMAT_VERSION, FORMAT_IN_ONE, _FIRST_FORMAT; no size or position of a format.
_NAME_OF_FORMAT = re.compile(r"^_?(FORMAT_(?!.*(BYTES|POSITION))|\w+_FORMAT$)")
SCRIPT = ROOT / "docs" / "registry.py"


def aliases(kinds: type[IntEnum]) -> list[str]:
    return [name for name, kind in kinds.__members__.items() if kind.name != name]


@pytest.fixture(scope="module", name="registry")
def fixture_registry():
    spec = spec_from_file_location("registry_of_docs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def repeated(values: Iterable[object]) -> list[object]:
    return [value for value, count in Counter(values).items() if count > 1]


def test_the_page_says_what_the_code_says() -> None:
    checked = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr


def test_no_number_or_name_of_a_method_is_used_twice(registry) -> None:
    methods = [method for method, _ in registry.methods()]
    assert len(methods) > 15
    assert repeated(method.number for method in methods) == []
    assert repeated(method.name for method in methods) == []


def test_every_method_is_found(registry) -> None:
    calls = sum(registry.source(module).count("= Method(") for module in registry.modules())
    assert len(registry.methods()) == calls


def test_no_number_of_a_kind_is_used_twice() -> None:
    # A second name with a used number is an alias of the first one: an enumeration yields it nowhere else.
    assert aliases(EntryKind) == []


def test_a_kind_with_a_used_number_would_be_found() -> None:
    kinds = IntEnum("kinds", {**{kind.name: kind.value for kind in EntryKind}, "NEW": EntryKind.COMMAND.value})
    assert repeated(int(kind) for kind in kinds) == []
    assert aliases(kinds) == ["NEW"]


def test_no_name_of_a_block_is_used_twice() -> None:
    source = Path(controller_blocks.__file__).read_text(encoding="utf-8")
    (table,) = [
        statement.value
        for statement in ast.walk(ast.parse(source))
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "BLOCKS"
    ]
    assert isinstance(table, ast.Dict)
    names = [vars(controller_blocks)[ast.unparse(key)] for key in table.keys if key is not None]
    assert len(names) == len(controller_blocks.BLOCKS)
    assert repeated(names) == []


def test_nothing_takes_a_name_that_is_reserved(registry) -> None:
    assert controller_blocks.BLOCKS.keys() & set(registry.RESERVED_BLOCKS) == set()
    assert KNOWN.keys() & set(registry.RESERVED_FEATURES) == set()


def test_every_feature_is_offered_within_the_levels_that_are_known() -> None:
    assert OFFERED.keys() == UNSTABLE.keys() == KNOWN.keys()
    for name, levels in KNOWN.items():
        assert (
            levels.lowest <= OFFERED[name].lowest <= OFFERED[name].highest <= UNSTABLE[name].highest <= levels.highest
        )


def test_nothing_takes_a_number_that_is_reserved(registry) -> None:
    assert {method.number for method, _ in registry.methods()} & registry.RESERVED_METHODS.keys() == set()
    assert {int(kind) for kind in EntryKind} & registry.RESERVED_KINDS.keys() == set()


def test_no_module_has_a_format_above_its_newest_one(registry) -> None:
    for name, newest, _ in registry.formats():
        module = import_module(name)
        formats = {each: value for each, value in vars(module).items() if _NAME_OF_FORMAT.search(each)}
        assert [each for each, value in formats.items() if value > newest] == []


def test_no_tag_of_a_command_is_used_twice(registry) -> None:
    tags = [command.__struct_config__.tag for command in registry.commands()]
    assert len(tags) >= 6
    assert repeated(tags) == []
