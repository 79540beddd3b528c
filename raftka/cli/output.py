"""Tables, JSON and %-formats on stdout."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


def print_json(value: Any) -> None:
    """Print one JSON value, indented."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_line(value: Any) -> None:
    """Print one JSON value on one line."""
    print(json.dumps(value, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns as wide as their widest cell, numbers to the right; neither colours nor frames, so grep works."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [list(header), *cells]) for column in range(len(header))]
    numeric = [all(isinstance(row[column], int) for row in rows) and bool(rows) for column in range(len(header))]
    for row in [list(header), *cells]:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        print("  ".join(padded).rstrip())


def bytes_as_json(data: bytes | None) -> Any:
    """Return bytes as JSON: a string where they are UTF-8, else {"base64": ...}; None stays None."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


class RecordFormat:
    r"""A %-format for records: each directive is replaced by its field, and \n, \t, \r and \\ are understood.

    Raises:
        typer.BadParameter: A directive that does not exist.
    """

    def __init__(self, text: str, directives: str) -> None:
        self._parts: list[tuple[str, bool]] = []
        position = 0
        while position < len(text):
            pair = text[position : position + 2]
            if pair[0] == "%":
                if len(pair) < 2 or pair[1] not in directives + "%":
                    raise typer.BadParameter(f"{pair}: the directives are %{', %'.join(directives)} and %%")
                self._parts.append(("%", False) if pair[1] == "%" else (pair[1], True))
            elif pair[0] == "\\" and len(pair) == 2 and pair[1] in _ESCAPES:
                self._parts.append((_ESCAPES[pair[1]], False))
            else:
                self._parts.append((pair[0], False))
                position += 1
                continue
            position += 2

    def render(self, fields: Mapping[str, bytes]) -> bytes:
        """Return one record as bytes; `fields` has a value for every directive."""
        return b"".join(fields[text] if is_directive else text.encode() for text, is_directive in self._parts)
