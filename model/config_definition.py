"""One configuration key: its name, type, default, bounds and words; how its values are read and shown.

Tables of definitions (`topic_config`, and the broker's own) are the only source of what is validated, described to
clients and listed in the documentation.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

ConfigValue = int | bool | float | str

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

# Of a client's own words an error repeats at most so many characters: it must fit into a response's string.
_SHOWN_MAX = 100
_BOOLEANS = ("true", "false")
# 19 digits hold every 64-bit number.
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,19}(?:\.[0-9]{0,19})?|\.[0-9]{1,19})(?:[eE][+-]?[0-9]{1,2})?")


class InvalidConfigError(ValueError):
    """An unknown key or a value out of range; the message names both."""


class ConfigType(IntEnum):
    """Types of values, with the numbers of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


def shorten(text: str) -> str:
    """Return a client's words, cut to what an error message may repeat of them."""
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def list_words(text: str) -> list[str]:
    """Return the words of a list, each once, in the order in which they come first; an empty text has none."""
    return list(dict.fromkeys(word.strip() for word in text.split(","))) if text.strip() else []


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDefinition:
    """One key.

    Attributes:
        key: Kafka's dotted name.
        kind: Type of the values.
        default: What holds where nobody has set it.
        doc: What it does, in a sentence or two.
        low: Smallest number allowed.
        high: Largest number allowed.
        choices: The only texts allowed for a string or a boolean, or as words of a list; empty for numbers.
        check: For a text: raises ValueError with what is wrong with it; `accepts` then says in words what it takes.
        waits_for: For a key with one choice only: the feature that is not built yet.
        broker_key: The broker's option that holds the default of topics that do not say; empty if there is none.
    """

    key: str
    kind: ConfigType
    default: ConfigValue
    doc: str
    low: int = 0
    high: int = LONG_MAX
    choices: tuple[str, ...] = ()
    check: Callable[[str], object] | None = None
    accepts: str = ""
    waits_for: str = ""
    broker_key: str = ""

    @property
    def attribute(self) -> str:
        """Name of the field that holds the value."""
        return self.key.replace(".", "_")

    @property
    def accepted(self) -> str:
        """The values that are accepted, in words."""
        if self.kind is ConfigType.BOOLEAN:
            return " or ".join(self.choices or _BOOLEANS)
        if self.accepts:
            return self.accepts
        if self.choices:
            return f"a list of {', '.join(self.choices)}" if self._is_words else " or ".join(self.choices)
        if self.low == self.high:
            return f"{self.low}"
        return f"{self.low} and more" if self.high == LONG_MAX else f"{self.low} to {self.high}"

    def parse(self, text: str) -> ConfigValue:
        """Read a value.

        Raises:
            InvalidConfigError: Another type, or out of range.
        """
        if self.kind is ConfigType.BOOLEAN:
            return self._chosen(text.strip().lower(), self.choices or _BOOLEANS) == "true"
        if self.check is not None:
            return self._checked(text, self.check)
        if self._is_words:
            return ",".join(self._words(text))
        if self.kind in (ConfigType.STRING, ConfigType.LIST):
            return self._chosen(text, self.choices)
        return self._decimal(text) if self.kind is ConfigType.DOUBLE else self._number(text)

    def show(self, value: ConfigValue) -> str:
        """Return a value as `parse` reads it."""
        return str(value).lower() if isinstance(value, bool) else str(value)

    @property
    def _is_words(self) -> bool:
        return self.kind is ConfigType.LIST and len(self.choices) > 1

    def _words(self, text: str) -> list[str]:
        """Return each word once, in the order in which they come first."""
        words = list_words(text)
        for word in words:
            if word not in self.choices:
                known = ", ".join(self.choices)
                raise InvalidConfigError(f"{self.key}={shorten(text)!r}: {shorten(word)!r} is none of {known}")
        return words

    def _chosen(self, text: str, choices: tuple[str, ...]) -> str:
        if text not in choices:
            why = f"; {self.waits_for} is not built yet" if self.waits_for else ""
            raise InvalidConfigError(f"{self.key}={shorten(text)!r}: only {' or '.join(choices)} is supported{why}")
        return text

    def _checked(self, text: str, check: Callable[[str], object]) -> str:
        try:
            check(text)
        except ValueError as error:
            raise InvalidConfigError(f"{self.key}={shorten(text)!r}: {error}") from error
        return text

    def _number(self, text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise InvalidConfigError(f"{self.key}={shorten(text)!r}: not a whole number of at most 19 digits")
        number = int(text)
        if not self.low <= number <= self.high:
            why = f"; {self.waits_for} is not built yet" if self.waits_for else ""
            raise InvalidConfigError(f"{self.key}={number}: must be {self._range()}{why}")
        return number

    def _decimal(self, text: str) -> float:
        if not _DECIMAL.fullmatch(text):
            raise InvalidConfigError(f"{self.key}={shorten(text)!r}: not a decimal number")
        number = float(text)
        if not self.low <= number <= self.high:
            raise InvalidConfigError(f"{self.key}={shorten(text)}: must be {self._range()}")
        return number

    def _range(self) -> str:
        return f"{self.low}" if self.low == self.high else f"from {self.low} to {self.high}"
