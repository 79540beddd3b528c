"""Names that somebody may have meant who has typed another one."""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that names the known names most like `name`; an empty text if none is like it."""
    # Imported here: only whoever has mistyped needs it.
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), n=3)
    return f"did you mean {' or '.join(found)}?" if found else ""
