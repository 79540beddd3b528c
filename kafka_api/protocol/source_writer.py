"""Text of a generated function: lines, indentation, and the constants that it refers to."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any

# Numbers by struct letter. Booleans are read with "?", but written with "b": that refuses None.
NUMBER_LETTERS = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d"}
NUMBER_BYTES = {name: Struct(">" + letter).size for name, letter in NUMBER_LETTERS.items()}
UUID_BYTES = 16


class SourceWriter:
    """Lines of one function and the namespace it is compiled in.

    Several functions of one message may share a namespace, each with a writer of its own.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self._lines: list[str] = []
        self._depth = 1

    def emit(self, line: str) -> None:
        """Add a line at the current depth."""
        self._lines.append(" " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a head such as `else:`, and indent what follows by one."""
        self.emit(head)
        self._depth += 1
        yield
        self._depth -= 1

    def constant(self, prefix: str, key: str, value: Callable[[], object]) -> str:
        """Return the name under which the function finds a constant; equal keys share it."""
        keys: dict[tuple[str, str], str] = self.namespace.setdefault("__constants__", {})
        name = keys.get((prefix, key))
        if name is None:
            name = keys[prefix, key] = f"{prefix}{len(keys)}"
            self.namespace[name] = value()
        return name

    def compile(self, name: str, parameters: str, what: str) -> Callable[..., Any]:
        """Compile the lines to a function, which is then in the namespace too."""
        source = f"def {name}({parameters}):\n" + "\n".join(self._lines) + "\n"
        exec(compile(source, f"<{what}>", "exec"), self.namespace)
        function: Callable[..., Any] = self.namespace[name]
        return function
