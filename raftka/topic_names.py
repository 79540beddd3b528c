"""Which names a topic may have, for whoever has no broker's packages."""

import re

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_name_problem(name: str) -> str:
    """Return what is wrong with the name of a topic, in words; empty: brokers take it."""
    if _NAME.fullmatch(name) and name not in (".", ".."):
        return ""
    return "a topic name has 1 to 249 characters of a-z, A-Z, 0-9, '.', '_', '-', and is neither '.' nor '..'"
