"""Tables and JSON on stdout."""

import base64
import json
from collections.abc import Sequence
from typing import Any


def print_json(value: Any) -> None:
    """Print one JSON value, indented."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_line(value: Any) -> None:
    """Print one JSON value on one line."""
    print(json.dumps(value, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns as wide as their widest cell, numbers to the right; neither colours nor frames, so grep works."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [list(header), *cells]) for column in range(len(header))]
    numeric = [_is_numeric([row[column] for row in rows]) for column in range(len(header))]
    for row in [list(header), *cells]:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        print("  ".join(padded).rstrip())


def node_list(nodes: Sequence[int]) -> str:
    """Return node ids as one cell."""
    return ",".join(map(str, nodes)) or "-"


def printable(text: str) -> str:
    """Return a text with escapes for what a terminal would obey: clients may give groups and themselves any name."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode() for each in text
    )


def _is_numeric(cells: Sequence[object]) -> bool:
    """Return whether there are numbers only, and `-` where one is missing."""
    numbers = [cell for cell in cells if cell != "-"]
    return bool(numbers) and all(isinstance(cell, int | float) for cell in numbers)


def bytes_as_json(data: bytes | None) -> Any:
    """Return bytes as JSON: a string where they are UTF-8, else {"base64": ...}; None stays None.

    `record_input.bytes_from_json` is the way back.
    """
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
