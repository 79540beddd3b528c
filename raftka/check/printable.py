"""What a stranger's file says, on a terminal: never as it stands."""


def printable(text: str) -> str:
    """Return text with what is not to be printed written as an escape: control characters, other directions, breaks."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
