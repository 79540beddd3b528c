"""Write docs/configuration.md from the tables of options: `python docs/configuration.py`.

With `--check` nothing is written, and the exit code is 1 if the page is not what the tables say; the suite does that.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from model.config_definition import INT_MAX, LONG_MAX, ConfigType
from model.topic_config import TOPIC_CONFIGS
from raftka.config_options import OPTIONS, Option

PAGE = Path(__file__).with_suffix(".md")

# Where each section of the page begins, in the order of the options.
SECTIONS = {
    "node.id": "The broker and its listeners",
    "seeds": "The cluster",
    "num.partitions": "Topics that are created",
    "raft.heartbeat.interval.ms": "Elections, flushes and back-pressure",
    "disk.reserve.bytes": "Disk, segments and retention",
    "log.cleaner.min.cleanable.ratio": "Log compaction",
    "log.message.timestamp.type": "Timestamps and producers",
    "group.min.session.timeout.ms": "Consumer groups",
    "transaction.max.timeout.ms": "Transactions",
    "socket.request.max.bytes": "Clients and the log of the broker",
}

HEAD = """\
# Configuration

<!-- Written by `python docs/configuration.py` from raftka/config_options.py and model/topic_config.py. -->

This page lists every option of a broker and of a topic, with its default and its values. It is for operators.

## Where options come from

A broker reads its options when it starts, and refuses to start with one that does not exist or has a bad value. In this
order, the first that has an option wins, unless it was [set while brokers run](#options-that-change-while-brokers-run):

1. the command line: `raftka start --kafka-port 9092`
2. the environment: `RAFTKA_KAFKA_PORT=9092`
3. the file of `raftka start --config FILE`: TOML, `kafka.port = 9092`
4. the default

So each option has three spellings, made of its key: `--` and dashes, `RAFTKA_` with capitals and underscores, and the
dotted key itself. `raftka config example` prints a file with all of them; `raftka cluster config list` shows what
running brokers have.

## Options that change while brokers run

The column "live" marks the options that can also be set while brokers run: for all brokers, or on one of them, which
precedes what is set for all. Both precede everything in the list above. What is set is in force at once, and stays
until it is unset; no restart ends it.

```console
$ raftka cluster config set log.retention.ms=86400000
$ raftka cluster config set replica.lag.time.max.ms=3000 --node 1
$ raftka cluster config unset replica.lag.time.max.ms --node 1
```

The cluster must use the feature `raftka.membership` at level 1. A new cluster does; in one that an older version has
made, such a request is refused until you [raise the level](operations/upgrade.md#features). A value is checked as at a
start, by the broker that leads raft0. If it does not fit to how another broker was started, that broker passes it over
and logs a warning.
`replica.lag.time.max.ms` may be set as `replication.max.time.lag.millis`, too.

"""

TOPICS = """\
## Topics

`raftka topic create NAME -c KEY=VALUE` and `raftka topic alter-config` set these on a topic, at any time; running
partitions follow within a heartbeat. If a topic does not set an option, the partition's leader uses its own broker
option, which the last column names. Any other key is refused.
[Compatibility](compatibility.md#topic-configuration) has the notes on single keys.

"""


def amount(number: int, key: str) -> str:
    """Return a number, and beside a large one what it is in the unit that a person would use."""
    if number in (LONG_MAX, INT_MAX):
        return f"{number} (no limit)"
    units: dict[str, int] = {}
    if key.endswith("bytes"):
        units = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024}
    elif key.endswith(".ms"):
        units = {"days": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000}
    elif key.endswith(".minutes"):
        units = {"days": 1_440}
    for unit, size in units.items():
        if number >= size and number % size == 0:
            count = number // size
            return f"{number} ({count} {unit.removesuffix('s') if unit == 'days' and count == 1 else unit})"
    return str(number)


def accepted(option: Option) -> str:
    """Return in words what an option may be."""
    if option.kind == "int":
        if option.high >= LONG_MAX // 2:
            return f"{option.low} and more"
        return f"{option.low} to {option.high}"
    if option.kind == "float":
        return f"{option.low} to {option.high}, with decimals"
    if option.choices:
        return ", ".join(" or ".join(f"`{name}`" for name in names) for names in option.names_of_choices)
    words = {"bool": "`true`, `false`", "list": "a list of texts", "host": "a host name or IP address"}
    return words.get(option.kind, "a text")


def default(option: Option) -> str:
    """Return what holds where nobody says."""
    if option.default_text:
        return option.default_text
    if isinstance(option.default, bool):
        return f"`{str(option.default).lower()}`"
    if isinstance(option.default, float):
        return str(option.default)
    if isinstance(option.default, int):
        return amount(option.default, option.key)
    return f"`{option.default}`" if option.default else "empty"


def broker_lines() -> Iterator[str]:
    """Yield the broker's options, in tables with a heading each."""
    for option in OPTIONS:
        if option.key in SECTIONS:
            yield from ("", f"## {SECTIONS[option.key]}", "")
            yield from ("| option | default | accepted | live | what it does |", "| --- | --- | --- | --- | --- |")
        cells = (f"`{option.key}`", default(option), accepted(option), "yes" if option.is_dynamic else "")
        yield f"| {' | '.join(cells)} | {option.doc.replace('|', '&#124;')} |"
    yield ""


def topic_lines() -> Iterator[str]:
    """Yield the table of topic options."""
    yield from ("| option | default | accepted | what it does | broker's option |", "| --- | --- | --- | --- | --- |")
    for each in TOPIC_CONFIGS.values():
        shown = f"`{each.show(each.default)}`" if each.default != "" else "empty"
        is_number = each.kind in (ConfigType.INT, ConfigType.LONG)
        value = amount(int(each.default), each.key) if is_number else shown
        broker = f"`{each.broker_key}`" if each.broker_key else "-"
        yield f"| `{each.key}` | {value} | {each.accepted} | {each.doc} | {broker} |"


def page() -> str:
    """Return the page as the tables have it."""
    missing = SECTIONS.keys() - {option.key for option in OPTIONS}
    assert not missing, f"SECTIONS names no option: {missing}"
    return HEAD + "\n".join(broker_lines()).lstrip() + "\n" + TOPICS + "\n".join(topic_lines()) + "\n"


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description="Write docs/configuration.md from the tables of options.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page is not up to date")
    if parser.parse_args().check:
        if PAGE.read_text(encoding="utf-8") == page():
            return 0
        print(f"{PAGE.name} is not what the code says: run `python docs/configuration.py`", file=sys.stderr)
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
