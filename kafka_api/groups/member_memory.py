"""What the members of all groups at one broker take, and when no more may join."""


def text_bytes(text: str) -> int:
    """Return what the characters of a text take in memory at most: one that is not ASCII makes all of them larger."""
    return len(text) if text.isascii() else 4 * len(text)


class MemberMemory:
    """Bytes, about."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.used = 0

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more may be held. Who takes no more than before may always go on."""
        return size <= 0 or self.used + size <= self._bytes_max

    def change(self, difference: int) -> None:
        """A group has grown or shrunk."""
        self.used += difference
        assert self.used >= 0

    def release(self, size: int) -> None:
        """A group is gone."""
        # Given back twice, the members of other groups would pass the bound.
        assert 0 <= size <= self.used
        self.used -= size
