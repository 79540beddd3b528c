r"""The text of a record format, as kcat and rpk have it: %-directives, {modifiers}, and \-escapes between them."""

import re
from typing import NamedTuple

import typer

_TOKEN = re.compile(
    r"%(?P<directive>.?)(?:\{(?P<modifier>[^{}%\\]*)(?P<closed>\}?))?"
    r"|\\(?:x(?P<hex>[0-9a-fA-F]{2})|(?P<escape>.?))|(?P<text>[^%\\]+)",
    re.DOTALL,
)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
# rpk's letters for what kcat has others for.
_ALIASES = {"v": "s", "V": "S", "d": "T"}


def typed_bytes(text: str) -> bytes:
    """Return the bytes of what was typed as an argument; those that are no UTF-8 stay as they are."""
    return text.encode("utf-8", "surrogateescape")


class Directive(NamedTuple):
    """A field of a record; `modifier` is empty, or how the field is written."""

    letter: str
    modifier: str

    def __str__(self) -> str:
        return f"%{self.letter}" + (f"{{{self.modifier}}}" if self.modifier else "")


def parse_format(text: str, modifiers: dict[str, tuple[str, ...]], flag: str = "--format") -> list[bytes | Directive]:
    """Return what a format consists of; neighbouring literals are one.

    Args:
        text: As typed.
        modifiers: The letters there are, without aliases, and the modifiers that each one takes.
        flag: Named in errors.

    Raises:
        typer.BadParameter: A directive, modifier or escape that does not exist.
    """
    parts: list[bytes | Directive] = []
    for token in _TOKEN.finditer(text):
        part = _directive(token, modifiers, flag) if token["directive"] is not None else _literal(token, flag)
        if isinstance(part, bytes) and parts and isinstance(parts[-1], bytes):
            parts[-1] += part
        else:
            parts.append(part)
    return parts


def _directive(token: re.Match[str], modifiers: dict[str, tuple[str, ...]], flag: str) -> bytes | Directive:
    typed = token["directive"]
    if typed == "%":
        return typed_bytes(token.group()[1:])
    letter = _ALIASES.get(typed, typed)
    if letter not in modifiers:
        known = [*modifiers, *(alias for alias, meant in _ALIASES.items() if meant in modifiers)]
        raise typer.BadParameter(f"{flag}: %{typed}: the directives are %{', %'.join(known)} and %%")
    modifier = token["modifier"]
    if modifier is None:
        return Directive(letter, "")
    if not token["closed"]:
        raise typer.BadParameter(rf"{flag}: {token.group()}: the brace is not closed; one that is to be text is \x7b")
    if modifier not in modifiers[letter]:
        can = ", ".join(f"%{typed}{{{each}}}" for each in modifiers[letter]) or f"only %{typed} by itself"
        raise typer.BadParameter(f"{flag}: {token.group()}: there is {can}")
    return Directive(letter, modifier)


def _literal(token: re.Match[str], flag: str) -> bytes:
    if token["text"] is not None:
        return typed_bytes(token["text"])
    if token["hex"] is not None:
        return bytes.fromhex(token["hex"])
    if token["escape"] not in _ESCAPES:
        raise typer.BadParameter(rf"{flag}: {token.group()}: the escapes are \n, \t, \r, \0, \xHH and \\")
    return _ESCAPES[token["escape"]]
