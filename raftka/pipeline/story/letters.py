"""The dead letters against the log: one for each order that is no JSON, and none for any other."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from raftka.pipeline.story.orders import is_order
from raftka.pipeline.story.waiting import StoryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A partition as histories name it, and an offset.
Place = tuple[str, int]


class _Line(msgspec.Struct):
    f: str
    tp: str = ""
    recs: list[tuple[int, str]] = []
    final: bool = False


def broken_orders(history: Path) -> set[Place]:
    """Return where the log has an order that is no JSON, by the final reads of a history."""
    decoder = msgspec.json.Decoder(_Line)
    found: set[Place] = set()
    with history.open("rb") as lines:
        for text in lines:
            line = decoder.decode(text)
            if line.f == "poll" and line.final:
                found.update((line.tp, offset) for offset, value in line.recs if not is_order(value))
    return found


def read_letters(spark: "SparkSession", brokers: str, topic: str) -> list[Place]:
    """Return whose letters a topic has, repetitions included."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", brokers).option("includeHeaders", "true")
    rows = reader.option("subscribe", topic).load().select("headers").collect()
    return places(row.headers for row in rows)


def places(letters: Iterable[Iterable[Any]]) -> list[Place]:
    """Return where each letter comes from, by its headers."""
    found = []
    for headers in letters:
        named = {each.key: bytes(each.value).decode() for each in headers}
        found.append((f"{named['raftka.topic']}-{named['raftka.partition']}", int(named["raftka.offset"])))
    return found


def compared(broken: set[Place], letters: Sequence[Place]) -> str:
    """Return what is said of dead letters; repetitions are allowed.

    Raises:
        StoryError: One is missing, or there is one for an order that is JSON.
    """
    told = set(letters)
    if not broken or told != broken:
        raise StoryError(
            f"{len(broken):,} orders are no JSON; {len(broken - told):,} have no dead letter, and"
            f" {len(told - broken):,} dead letters are of others"
        )
    again = f" ({len(letters) - len(told):,} told twice)" if len(letters) > len(told) else ""
    return f"{len(told):,} dead letters{again}, one for each order that is no JSON"
