"""Positions in partitions as they are typed: start, end, N, -N and @timestamp, and as kcat has them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import click

from raftka.cli.exit_codes import CommandError
from raftka.kafka import offsets as kafka_offsets
from raftka.kafka.groups import Partition

POSITION_METAVAR = "start|end|N|-N|@TIME"
POSITION_HELP = (
    "N: that offset; -N: the last N offsets, of which markers of transactions take some;"
    " @TIME: the first record at that time or later, such as @2030-01-31,"
    " @2030-01-31T12:00:00Z (UTC if it has no zone), seconds or milliseconds since 1970, or @-1h30m (ago). kcat's"
    " beginning and s@MILLISECONDS work too"
)
_OFFSET_DIGITS_MAX = 18
# Seconds since 1970 have as many digits until the year 5138, milliseconds have more since 1973.
_SECONDS_DIGITS_MAX = 11
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(?:(\d{1,9})(ms|[smhd]))+")
_DURATION_PART = re.compile(r"(\d+)(ms|[smhd])")


class Anchor(StrEnum):
    """What the number of a position counts from."""

    START = "start"
    END = "end"
    OFFSET = "offset"
    LAST = "last"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Position:
    """A position; `value` is an offset, a number of records or milliseconds since 1970, as the anchor says."""

    anchor: Anchor
    value: int = 0

    def within(self, first: int, end: int, partition: Partition) -> int:
        """Return the offset in a partition that has the offsets from `first` to before `end`.

        Raises:
            CommandError: It has no such offset. `end` itself counts as one: the next record goes there.
        """
        match self.anchor:
            case Anchor.START:
                return first
            case Anchor.END:
                return end
            case Anchor.LAST:
                return max(first, end - self.value)
            case Anchor.OFFSET if first <= self.value <= end:
                return self.value
        raise CommandError(f"{_held(first, end, partition)}; {self.value} is out of range")

    def near(self, first: int, end: int, partition: Partition, note: Callable[[str], None]) -> int:
        """Return what `within` returns, or the nearest offset that the partition has; that is noted in words."""
        if self.anchor is not Anchor.OFFSET or first <= self.value <= end:
            return self.within(first, end, partition)
        nearest = min(max(first, self.value), end)
        note(f"{_held(first, end, partition)}; {nearest} is used instead of {self.value}")
        return nearest


def _held(first: int, end: int, partition: Partition) -> str:
    held = f"has offsets {first} to {end - 1}" if first < end else f"is empty, its next offset is {end}"
    return f"partition {partition[1]} of {partition[0]} {held}"


def parse_position(text: str, flag: str, now_ms: int) -> Position:
    """Return what a person means by `text`; durations count back from `now_ms`.

    Raises:
        click.BadParameter: Nothing that is understood; `flag` is named.
    """
    if text in {"start", "end"}:
        return Position(Anchor(text))
    # kcat's words for the same.
    if text == "beginning":
        return Position(Anchor.START)
    if text.startswith("s@"):
        return Position(Anchor.TIME, _parse_milliseconds(text, flag))
    if text.startswith("@"):
        return Position(Anchor.TIME, _parse_time(text, flag, now_ms))
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > _OFFSET_DIGITS_MAX:
        raise click.BadParameter(f"{flag} {text}: must be start, end, N, -N or @TIME")
    number = int(digits)
    if not text.startswith("-"):
        return Position(Anchor.OFFSET, number)
    # "-0" are the last 0 records, which is the end.
    return Position(Anchor.LAST, number) if number else Position(Anchor.END)


def _parse_milliseconds(text: str, flag: str) -> int:
    word = text.removeprefix("s@")
    if not word.isascii() or not word.isdigit() or len(word) > _OFFSET_DIGITS_MAX:
        raise click.BadParameter(f"{flag} {text}: must be s@MILLISECONDS since 1970")
    return int(word)


def _parse_time(text: str, flag: str, now_ms: int) -> int:
    word = text[1:]
    if word.isascii() and word.isdigit() and len(word) <= _OFFSET_DIGITS_MAX:
        return int(word) * (1_000 if len(word) <= _SECONDS_DIGITS_MAX else 1)
    if word.startswith("-") and _DURATION.fullmatch(word[1:]):
        ago = sum(int(count) * _UNIT_MS[unit] for count, unit in _DURATION_PART.findall(word[1:]))
        return max(0, now_ms - ago)
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise click.BadParameter(
            f"{flag} {text}: must be @ and a date, a date and time, seconds or milliseconds since 1970, or a duration"
            " such as -1h30m"
        ) from None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0, round(aware.timestamp() * 1_000))


def resolve(
    brokers: str,
    position: Position,
    partitions: Mapping[str, list[int]],
    *,
    note: Callable[[str], None] | None = None,
) -> dict[Partition, int]:
    """Return the offset of the position in each partition, in order.

    Args:
        brokers: HOST:PORT,...
        position: Where.
        partitions: Numbers by topic.
        note: Where it is given, a partition that has no such offset gets the nearest one, and words about that go here.

    Raises:
        CommandError: A partition has no such offset.
        KafkaClientError: A partition does not tell.
    """
    wanted = sorted((topic, number) for topic, numbers in partitions.items() for number in numbers)
    if position.anchor is Anchor.TIME:
        return kafka_offsets.offsets_at(brokers, wanted, position.value)
    firsts = kafka_offsets.first_offsets(brokers, wanted)
    ends = kafka_offsets.end_offsets(brokers, wanted)
    if note is None:
        return {each: position.within(firsts[each], ends[each], each) for each in wanted}
    return {each: position.near(firsts[each], ends[each], each, note) for each in wanted}
