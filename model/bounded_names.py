"""Names that become labels of metrics: so many get series of their own, later ones share one (RFC 0017)."""

from collections.abc import Callable

# The label of those that share one; a topic of this name is among them.
OTHER = "_other"


class BoundedNames:
    """The first names that are asked for; each keeps its label until it is forgotten."""

    def __init__(self, limit: int, exists: Callable[[str], bool]) -> None:
        """Begin with no name.

        Args:
            limit: How many names get a label of their own; at least 1.
            exists: Whether there is such a thing: what is measured of one that was deleted comes late, and must not
                take a place that nobody gives back.
        """
        assert limit > 0
        self._limit = limit
        self._exists = exists
        self._names: set[str] = set()

    def label(self, name: str) -> str:
        """Return the label of a name."""
        if name in self._names:
            return name
        if name == OTHER or len(self._names) >= self._limit or not self._exists(name):
            return OTHER
        self._names.add(name)
        return name

    def forget(self, name: str) -> None:
        """The thing was deleted: another one may have its place."""
        self._names.discard(name)

    def __len__(self) -> int:
        return len(self._names)
