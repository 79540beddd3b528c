"""How many of something there are, in words for a message: `1 replica`, `3 replicas`.

As `model.counted`, which only the process of a broker can import; a test compares the two.
"""


def counted(count: int, one: str) -> str:
    """Return the count with its noun; the plural of `one` ends with an s."""
    return f"{count} {one}{'' if count == 1 else 's'}"
