"""Of which replica a log line speaks: the prefix of the line, and fields of its own where lines are JSON."""

from typing import NamedTuple


class ReplicaTag(NamedTuple):
    """`[orders-0 n2 t1 L]`: partition, node, term, role. What is None is left out."""

    partition: str
    node: int | None = None
    term: int | None = None
    role: str | None = None

    def __str__(self) -> str:
        parts = [self.partition]
        if self.node is not None:
            parts.append(f"n{self.node}")
        if self.term is not None:
            parts.append(f"t{self.term}")
        if self.role is not None:
            parts.append(self.role)
        return f"[{' '.join(parts)}]"

    def on(self, message: object) -> str:
        """Return a log message of this replica: prefix, space, message."""
        return f"{self} {message}"


# The attribute of a log record that holds the tag, for `extra=`.
TAG = "replica"
