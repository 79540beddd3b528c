"""How many of something there are, in words for a message: `1 replica`, `3 replicas`, `brokers 3,4`.

As `model.counted`, which only the process of a broker can import; a test compares the two.
"""

from collections.abc import Sequence


def counted(count: int, one: str) -> str:
    """Return the count with its noun; the plural of `one` ends with an s."""
    return f"{count} {one}{'' if count == 1 else 's'}"


def brokers(nodes: Sequence[int]) -> str:
    """Return node ids with their noun, in the order given: `broker 3`, `brokers 3,4`."""
    return f"broker{'' if len(nodes) == 1 else 's'} {','.join(map(str, nodes))}"
