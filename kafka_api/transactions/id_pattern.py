r"""Patterns of transactional ids (ListTransactions 2, KIP-1152), matched in a time that is linear in the id.

A pattern comes from a client. Python's own expressions go back and forth over a text, and a short pattern of somebody
who means harm would hold up the broker for hours. So a pattern becomes a nondeterministic automaton, and an id goes
through all of its states at once. The sets of states that were met are remembered, up to a bound. An id may have 32,767
characters, and each may cost all states: so `match` says when other tasks should run.

    pattern    branch | branch            item    literal  .  [a-z]  [^a-z]  \d \w \s \D \W \S  ( )  (?: )
    branch     item with * + ? {m} {m,} {m,n}     ^ and $ only at the ends

It has to match the whole id, as in Kafka. What is not listed here is refused: Kafka takes all of RE2.

Source: K. Thompson, "Regular Expression Search Algorithm", CACM 1968.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

# Of a pattern: characters, and states of its automaton once repetitions are written out.
_LENGTH_MAX = 300
_STATES_MAX = 500
# How often one item may be repeated by {m,n}, as in RE2.
_REPEAT_MAX = 1000
_DEPTH_MAX = 50
# Sets of states that are remembered, and steps between them.
_SETS_MAX = 2000
_STEPS_MAX = 20_000
# States and characters that are looked at before other tasks run: some 0.5 ms.
_WORK_PER_SLICE = 1500

_Test = Callable[[str], bool]
_SPECIAL = frozenset("|()[]{}*+?.^$\\")


class InvalidPatternError(ValueError):
    """Not a pattern that is understood here, or too large."""


@dataclass(slots=True, eq=False)
class _State:
    """Goes to `following` by a character that passes `test`, or to all of `free` without one."""

    test: _Test | None = None
    following: "_State | None" = None
    free: "list[_State]" = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _States:
    """States that are met at once, and what follows by each character that was met there."""

    states: tuple[_State, ...]
    after: "dict[str, _States]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the automaton between two states."""

    first: _State
    last: _State


class IdPattern:
    """One pattern.

    Raises:
        InvalidPatternError: See the module.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _LENGTH_MAX:
            raise InvalidPatternError(f"a pattern of {len(pattern)} characters, {_LENGTH_MAX} are allowed")
        piece = _Parser(pattern.removeprefix("^")).parse()
        self._last = piece.last
        self._begin = _States(_closed([piece.first]))
        self._known = {self._begin.states: self._begin}
        self._steps = 0
        self._work = 0

    def match(self, text: str) -> Iterator[bool | None]:
        """Yield None whenever other tasks should run, and last whether the pattern matches the whole text."""
        current = self._begin
        for character in text:
            # A set that was met before costs one look, however large it is.
            after = current.after.get(character)
            self._work += 1 if after is not None else len(current.states)
            current = self._step(current, character) if after is None else after
            if not current.states:
                yield False
                return
            if self._work >= _WORK_PER_SLICE:
                self._work = 0
                yield None
        yield self._last in current.states

    def _step(self, current: "_States", character: str) -> "_States":
        reached = [each.following for each in current.states if each.test is not None and each.test(character)]
        states = _closed(each for each in reached if each is not None)
        if len(self._known) >= _SETS_MAX or self._steps >= _STEPS_MAX:
            for each in self._known.values():
                each.after.clear()
            self._known, self._steps = {self._begin.states: self._begin}, 0
        self._steps += 1
        after = self._known.setdefault(states, _States(states))
        current.after[character] = after
        return after


def _closed(states: Iterable[_State]) -> tuple[_State, ...]:
    """Return the states, and those that are reached from them without a character."""
    found: dict[_State, None] = {}
    waiting = list(states)
    while waiting:
        state = waiting.pop()
        if state not in found:
            found[state] = None
            waiting += state.free
    return tuple(found)


class _Parser:
    """Builds the automaton from left to right. Each piece is built once for each of its repetitions."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._states = 0
        self._depth = 0

    def parse(self) -> _Piece:
        """Return the automaton of the whole pattern."""
        piece = self._branches()
        if self._position < len(self._pattern):
            raise InvalidPatternError("a bracket is closed that was not opened")
        return piece

    # -- parts --------------------------------------------------------------------------------------------------

    def _branches(self) -> _Piece:
        branches = [self._branch()]
        while self._takes("|"):
            branches.append(self._branch())
        if len(branches) == 1:
            return branches[0]
        first, last = self._new(), self._new()
        for branch in branches:
            first.free.append(branch.first)
            branch.last.free.append(last)
        return _Piece(first, last)

    def _branch(self) -> _Piece:
        first = last = self._new()
        while self._position < len(self._pattern) and self._peek() not in "|)":
            if self._peek() == "$" and self._position == len(self._pattern) - 1:
                self._position += 1
                break
            piece = self._repeated()
            last.free.append(piece.first)
            last = piece.last
        return _Piece(first, last)

    def _repeated(self) -> _Piece:
        begin = self._position
        piece = self._item()
        end = self._position
        least, most = self._count()
        if (least, most) == (1, 1):
            return piece
        # Lazy or not, the whole text matches or it does not.
        self._takes("?")
        behind = self._position
        copies = [piece]
        while len(copies) < max(least, most or 1, 1):
            copies.append(self._again(begin, end))
        self._position = behind
        return self._joined(copies, least, most)

    def _again(self, begin: int, end: int) -> _Piece:
        self._position = begin
        piece = self._item()
        assert self._position == end
        return piece

    def _joined(self, copies: list[_Piece], least: int, most: int | None) -> _Piece:
        first = last = self._new()
        leaving = self._new()
        for number, copy in enumerate(copies):
            if number >= least:
                last.free.append(leaving)
            if most == 0:
                break
            last.free.append(copy.first)
            last = copy.last
        if most is None:
            last.free.append(copies[-1].first)
        last.free.append(leaving)
        return _Piece(first, leaving)

    def _count(self) -> tuple[int, int | None]:
        if self._takes("*"):
            return 0, None
        if self._takes("+"):
            return 1, None
        if self._takes("?"):
            return 0, 1
        if not self._takes("{"):
            return 1, 1
        text, closed, _ = self._pattern[self._position :].partition("}")
        low, comma, high = text.partition(",")
        if not closed or not low.isdecimal() or (high and not high.isdecimal()) or len(text) > 10:
            raise InvalidPatternError("a repetition is {m}, {m,} or {m,n}")
        self._position += len(text) + 1
        least = int(low)
        most = least if not comma else int(high) if high else None
        if max(least, most or 0) > _REPEAT_MAX or (most is not None and most < least):
            raise InvalidPatternError(f"a repetition goes from a number to a larger one, up to {_REPEAT_MAX}")
        return least, most

    # -- items --------------------------------------------------------------------------------------------------

    def _item(self) -> _Piece:
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return self._one(self._class())
        if character == "\\":
            return self._one(self._escape())
        if character == ".":
            return self._one(lambda found: found != "\n")
        if character in _SPECIAL:
            raise InvalidPatternError(f"{character!r} stands where it means nothing")
        return self._one(lambda found: found == character)

    def _group(self) -> _Piece:
        if self._peek() == "?":
            if not self._pattern.startswith("?:", self._position):
                raise InvalidPatternError("groups have no options here")
            self._position += 2
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise InvalidPatternError(f"groups within groups, more than {_DEPTH_MAX}")
        piece = self._branches()
        if not self._takes(")"):
            raise InvalidPatternError("a bracket is not closed")
        self._depth -= 1
        return piece

    def _class(self) -> _Test:
        is_negated = self._takes("^")
        tests: list[_Test] = []
        while not tests or self._peek() != "]":
            character = self._take()
            if character == "\\":
                tests.append(self._escape())
            elif self._peek() == "-" and self._pattern[self._position + 1 : self._position + 2] not in ("", "]"):
                self._position += 1
                tests.append(_between(character, self._take()))
            else:
                tests.append(_between(character, character))
        self._position += 1
        return lambda found: any(test(found) for test in tests) is not is_negated

    def _escape(self) -> _Test:
        character = self._take()
        match character:
            case "d" | "D":
                return lambda found: ("0" <= found <= "9") is (character == "d")
            case "w" | "W":
                return lambda found: (found.isascii() and (found.isalnum() or found == "_")) is (character == "w")
            case "s" | "S":
                return lambda found: (found in " \t\n\r\f") is (character == "s")
        if character.isalnum():
            raise InvalidPatternError(f"\\{character} is not known here")
        return lambda found: found == character

    # -- characters ---------------------------------------------------------------------------------------------

    def _new(self, test: _Test | None = None, following: _State | None = None) -> _State:
        self._states += 1
        if self._states > _STATES_MAX:
            raise InvalidPatternError("the pattern is too large once its repetitions are written out")
        return _State(test, following)

    def _one(self, test: _Test) -> _Piece:
        last = self._new()
        return _Piece(self._new(test, last), last)

    def _peek(self) -> str:
        return self._pattern[self._position : self._position + 1]

    def _take(self) -> str:
        if self._position == len(self._pattern):
            raise InvalidPatternError("the pattern ends too early")
        self._position += 1
        return self._pattern[self._position - 1]

    def _takes(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._position += 1
        return True


def _between(low: str, high: str) -> _Test:
    if low > high:
        raise InvalidPatternError(f"a range from {low!r} to {high!r}")
    return lambda found: low <= found <= high
