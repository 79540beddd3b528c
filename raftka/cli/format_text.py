r"""The text of a record format, as kcat and rpk have it: %-directives, {modifiers}, and \-escapes between them."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import click

_DIRECTIVE = re.compile(r"%(?P<letter>.?)(?P<brace>\{?)", re.DOTALL)
_MODIFIER = re.compile(r"(?P<modifier>[^{}%\\]*)(?P<closed>\}?)")
# Brackets, braces or #, as many as one likes, which end with as many, so that any others may stand between them.
_WRAPPED = re.compile(r"(?P<name>strftime|go|unpack|re)(?P<open>\[+|\{+|#+)")
_CLOSING = str.maketrans("[{", "]}")
_LITERAL = re.compile(r"\\(?:x(?P<hex>[0-9a-fA-F]{2})|(?P<escape>.?))|(?P<brace>[{}])|(?P<text>[^%\\{}]+)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_SIZE = re.compile(r"[1-9][0-9]{0,9}")
# rpk's letters for what kcat has others for.
_ALIASES = {"v": "s", "V": "S", "d": "T"}
# kcat's letter for what rpk has a modifier for.
_SIZE_IN_BINARY = {"R": ("S", "big32")}
# What rpk has beyond that, and why it is not here.
_UNKNOWN_TO_CLIENT = "the client library does not report it"
_REFUSED = {
    **dict.fromkeys(("x", "y"), f"{_UNKNOWN_TO_CLIENT} of a record"),
    "a": "the client library reports only the timestamp type, no other attributes",
    **dict.fromkeys(("[", "|", "]"), f"{_UNKNOWN_TO_CLIENT} with a record; `raftka topic describe` shows it"),
}
_INSTEAD = {"go": "use strftime[...] instead", "unpack": "use hex instead"}


def typed_bytes(text: str) -> bytes:
    """Return the bytes of what was typed as an argument; those that are no UTF-8 stay as they are."""
    return text.encode("utf-8", "surrogateescape")


class Takes(NamedTuple):
    """What may stand in the braces behind a letter.

    Attributes:
        words: Modifiers as they are.
        size: Whether a number of bytes may stand there.
        time: Whether strftime[...] may.
        inner: The letters of a format that may, which is one for each header.
    """

    words: tuple[str, ...] = ()
    size: bool = False
    time: bool = False
    inner: "Mapping[str, Takes] | None" = None

    def shown(self, letter: str) -> str:
        """Return what there is, for errors."""
        can = [f"%{letter}{{{each}}}" for each in self.words]
        can += [f"%{letter}{{N}}"] if self.size else []
        can += [f"%{letter}{{strftime[...]}}"] if self.time else []
        can += [f"%{letter}{{ %k=%v }}"] if self.inner else []
        return ", ".join(can) or f"only %{letter} by itself"


class Directive(NamedTuple):
    """A field of a record.

    Attributes:
        letter: Which one; kcat's where rpk has another.
        modifier: Empty, or how the field is written.
        argument: What stands in the brackets of a modifier that has some.
        inner: The format of each header.
    """

    letter: str
    modifier: str = ""
    argument: str = ""
    inner: "tuple[bytes | Directive, ...]" = ()

    def __str__(self) -> str:
        return f"%{self.letter}" + (f"{{{self.modifier}}}" if self.modifier else "")

    @property
    def size(self) -> int | None:
        """How many bytes the modifier says that there are."""
        return int(self.modifier) if _SIZE.fullmatch(self.modifier) else None


def parse_format(text: str, letters: Mapping[str, Takes], flag: str = "--format") -> list[bytes | Directive]:
    """Return what a format consists of; neighbouring literals are one.

    Args:
        text: As typed.
        letters: The letters there are, without aliases, and what each one takes.
        flag: Named in errors.

    Raises:
        click.BadParameter: A directive, modifier or escape that does not exist.
    """
    return _Parser(text, flag).parts(letters, ends_with_brace=False)


class _Parser:
    """Takes a text apart, from its beginning to where it is at."""

    def __init__(self, text: str, flag: str) -> None:
        self._text = text
        self._flag = flag
        self._at = 0

    def parts(self, letters: Mapping[str, Takes], *, ends_with_brace: bool) -> list[bytes | Directive]:
        begin = self._at
        parts: list[bytes | Directive] = []
        while self._at < len(self._text):
            if ends_with_brace and self._text[self._at] == "}":
                self._at += 1
                return parts
            part = self._directive(letters) if self._text[self._at] == "%" else self._literal(is_inner=ends_with_brace)
            if isinstance(part, bytes) and parts and isinstance(parts[-1], bytes):
                parts[-1] += part
            else:
                parts.append(part)
        if ends_with_brace:
            raise self._not_closed(self._text[begin:])
        return parts

    def _directive(self, letters: Mapping[str, Takes]) -> bytes | Directive:
        token = _DIRECTIVE.match(self._text, self._at)
        assert token is not None
        typed = token["letter"]
        if typed and typed in "%{}":
            self._at += 2
            return typed.encode()
        self._at = token.end()
        letter, modifier = _SIZE_IN_BINARY.get(typed, (_ALIASES.get(typed, typed), ""))
        if letter not in letters:
            raise self._error(f"%{typed}: {self._why_no_letter(typed, letters)}")
        if not token["brace"]:
            return Directive(letter, modifier)
        if modifier:
            raise self._error(f"%{typed}{{: there is only %{typed} by itself, which is %{letter}{{{modifier}}}")
        takes = letters[letter]
        if takes == Takes():
            raise self._error(f"%{typed}{{: not supported; use {takes.shown(typed)}")
        if takes.inner is not None:
            inner = tuple(self.parts(takes.inner, ends_with_brace=True))
            if not inner:
                raise self._error(f"%{typed}{{}}: not supported; use {takes.shown(typed)}")
            return Directive(letter, inner=inner)
        return self._modified(typed, letter, takes)

    def _modified(self, typed: str, letter: str, takes: Takes) -> Directive:
        wrapped = _WRAPPED.match(self._text, self._at)
        if wrapped is not None:
            return self._wrapped(typed, letter, takes, wrapped)
        found = _MODIFIER.match(self._text, self._at)
        assert found is not None
        shown = f"%{typed}{{{found.group()}"
        if not found["closed"]:
            raise self._not_closed(shown)
        self._at = found.end()
        modifier = found["modifier"]
        if modifier not in takes.words and not (takes.size and _SIZE.fullmatch(modifier)):
            raise self._error(f"{shown}: not supported; use {takes.shown(typed)}")
        return Directive(letter, "" if modifier == "ascii" else modifier)

    def _wrapped(self, typed: str, letter: str, takes: Takes, found: re.Match[str]) -> Directive:
        name, closing = found["name"], found["open"].translate(_CLOSING) + "}"
        end = self._text.find(closing, found.end())
        shown = f"%{typed}{{{name}{found['open']}"
        if end < 0:
            raise self._error(f"{shown}: is not closed by {closing}")
        if name != "strftime" or not takes.time:
            why = f"; {_INSTEAD[name]}" if name in _INSTEAD and (takes.time or name != "go") else ""
            raise self._error(f"{shown}...{closing}: not supported; use {takes.shown(typed)}{why}")
        self._at = end + len(closing)
        return Directive(letter, name, self._text[found.end() : end])

    def _literal(self, *, is_inner: bool) -> bytes:
        token = _LITERAL.match(self._text, self._at)
        assert token is not None
        self._at = token.end()
        if token["hex"] is not None:
            return bytes.fromhex(token["hex"])
        if token["escape"] is not None:
            if token["escape"] not in _ESCAPES:
                raise self._error(rf"{token.group()}: the escapes are \n, \t, \r, \0, \xHH and \\")
            return _ESCAPES[token["escape"]]
        if token["brace"] and is_inner:
            raise self._error("a brace that is to be text within %h{...} is %{ or %}")
        return typed_bytes(token.group())

    def _why_no_letter(self, typed: str, letters: Mapping[str, Takes]) -> str:
        # Of the letters of a whole record, offsets are there where records are printed.
        if typed in _REFUSED and "o" in letters:
            return f"is rpk's, and not here: {_REFUSED[typed]}"
        aliases = [alias for alias, meant in _ALIASES.items() if meant in letters]
        binary = [alias for alias, (meant, _) in _SIZE_IN_BINARY.items() if meant in letters]
        return f"the directives are %{', %'.join([*letters, *aliases, *binary])} and %%"

    def _not_closed(self, shown: str) -> click.BadParameter:
        return self._error(rf"{shown}: the brace is not closed; one that is to be text is %{{ or \x7b")

    def _error(self, words: str) -> click.BadParameter:
        return click.BadParameter(f"{self._flag}: {words}")
