"""Functions of `storage` run on threads, so none of them may be the first to use a type of msgspec.

Where two threads are, msgspec 0.22 ends the process with a segmentation fault (in `get_class_annotations`). A `Decoder`
in the module knows its type once the module is imported.
"""

import ast
from pathlib import Path

STORAGE = Path(__file__).parents[2] / "storage"


def decodes_by_type(source: str) -> list[int]:
    """Return the lines that call `msgspec.json.decode` or `msgspec.msgpack.decode` with a type, or `convert`."""
    names = ("msgspec.json.decode", "msgspec.msgpack.decode", "msgspec.convert")
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if ast.unparse(call.func) in names]


def test_storage_decodes_by_decoders_that_its_modules_have() -> None:
    assert {path.name: lines for path in STORAGE.glob("*.py") if (lines := decodes_by_type(path.read_text()))} == {}


def test_the_check_finds_a_type_that_is_used_first_in_a_function() -> None:
    assert decodes_by_type("def read(data):\n    return msgspec.msgpack.decode(data, type=Record)\n") == [2]
    assert decodes_by_type("def read(data):\n    return _decoder.decode(data)\n") == []
