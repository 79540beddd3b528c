"""Write docs/architecture/registry.md from the code: `python docs/registry.py`.

With `--check` nothing is written, and the exit code is 1 if the page is not what the code says; the suite does that.
"""

import argparse
import importlib
import pkgutil
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from cluster.commands import Command
from cluster.controller_blocks import BLOCKS
from model.features import KNOWN, OFFERED, UNSTABLE
from model.ids import FORCED_MARK, RAFT0, TopicId, link_name, partition_group
from rpc.methods import Method
from storage.entry import EntryKind

PAGE = Path(__file__).parent / "architecture" / "registry.md"
# What brokers send each other and keep on disk is told by these.
PACKAGES = ("model", "storage", "rpc", "raft", "cluster", "kafka_api")

# Numbers of capabilities that are planned and not built: nothing else takes them.
RESERVED_METHODS = {
    7: "link renewal",
    25: "node report",
    26: "reads of visible entries",
    **dict.fromkeys((40, 41), "security"),
    **dict.fromkeys(range(60, 68), "tables"),
    71: "offer of whole segments",
    72: "chunk of a segment",
    74: "report of a broker",
    **dict.fromkeys(range(80, 84), "in-sync replicas as a commit policy"),
}
RESERVED_KINDS: dict[int, str] = {}
RESERVED_BLOCKS = ("isr", "security", "transactions")
RESERVED_FEATURES = ("raftka.isr", "raftka.security", "raftka.tables")

HEAD = """\
# Registry

<!-- Written by `python docs/registry.py` from the code. -->

This page lists what brokers of different versions must agree on. These are the numbers of methods of links, of kinds of
entries, of commands of raft0, and of formats of files and messages. The names of groups, of features, and of the blocks
of raft0's state are here, too. The page is for contributors who add one. A number or a name is never used for something
else, also when what it stood for is gone. A test compares this page with the code.

"""


def modules() -> Iterator[ModuleType]:
    """Yield every module of PACKAGES."""
    for package in PACKAGES:
        root = importlib.import_module(package)
        yield root
        for found in pkgutil.walk_packages(root.__path__, f"{package}."):
            yield importlib.import_module(found.name)


def source(module: ModuleType) -> str:
    """Return the text of a module."""
    return Path(str(module.__file__)).read_text(encoding="utf-8")


def methods() -> list[tuple[Method[typing.Any, typing.Any], str]]:
    """Return each method and the module that names it, by number."""
    found = [
        (value, module.__name__)
        for module in modules()
        for value in vars(module).values()
        if isinstance(value, Method) and f"= Method({value.number}," in source(module)
    ]
    return sorted(found, key=lambda each: each[0].number)


def commands() -> list[type]:
    """Return the commands of raft0 by tag."""
    return sorted(typing.get_args(Command), key=lambda each: str(each.__struct_config__.tag))


def formats() -> list[tuple[str, int, str]]:
    """Return each module that has a format, its newest version, and what the module is about."""
    return [
        (module.__name__, module.FORMAT_VERSION, (module.__doc__ or "").split("\n\n", 1)[0].replace("\n", " "))
        for module in modules()
        if "\nFORMAT_VERSION = " in source(module)
    ]


def page() -> str:
    """Return the page as the code has it."""
    parts = (
        *(_method_lines, _kind_lines, _command_lines, _format_lines),
        *(_block_lines, _feature_lines, _group_name_lines),
    )
    return HEAD + "\n".join(line for part in parts for line in part()) + "\n"


def _method_lines() -> Iterator[str]:
    yield from ("## Methods of links", "", "The envelope of a request names its method (`rpc/codec.py`).", "")
    yield from ("| number | method | request | what is special | named in |", "| ---: | --- | --- | --- | --- |")
    rows: dict[int, str] = {}
    for method, module in methods():
        flags = ("urgent", "takes_payload", "before_founding")
        special = ", ".join(flag.replace("_", " ") for flag in flags if getattr(method, flag))
        rows[method.number] = f"`{method.name}` | `{method.request.__name__}` | {special} | `{module}`"
    rows |= {number: f"reserved: {what} | | |" for number, what in RESERVED_METHODS.items()}
    yield from (f"| {number} | {rows[number]} |" for number in sorted(rows))
    yield ""


def _kind_lines() -> Iterator[str]:
    yield from ("## Kinds of entries", "", "The header of an entry has its kind (`storage/entry.py`).", "")
    yield from ("| number | kind |", "| ---: | --- |")
    rows = {int(kind): f"`{kind.name}`" for kind in EntryKind}
    rows |= {number: f"reserved: {what}" for number, what in RESERVED_KINDS.items()}
    yield from (f"| {number} | {rows[number]} |" for number in sorted(rows))
    yield ""


def _command_lines() -> Iterator[str]:
    yield from ("## Commands of raft0", "", "Entries of raft0 are tagged (`cluster/commands.py`).", "")
    yield from ("| tag | what it says |", "| --- | --- |")
    for command in commands():
        said = (command.__doc__ or "").split("\n\n", 1)[0].replace("\n", " ")
        yield f"| `{command.__struct_config__.tag}` | {' '.join(said.split())} |"  # type: ignore[attr-defined]
    yield ""


def _format_lines() -> Iterator[str]:
    yield from ("## Formats", "", "The newest version that the code writes; an older one may be written as well.", "")
    yield from ("| module | version | what it is about |", "| --- | ---: | --- |")
    yield from (f"| `{module}` | {version} | {about} |" for module, version, about in formats())
    yield ""


def _block_lines() -> Iterator[str]:
    where = "Format 2 of the state names them (`cluster/controller_blocks.py`, RFC 0018 section 3)."
    yield from ("## Blocks of raft0's state", "", where, "")
    yield from ("| block | version |", "| --- | ---: |")
    yield from (f"| `{name}` | {version} |" for name, version in sorted(BLOCKS.items()))
    yield from (f"| reserved: `{name}` | |" for name in RESERVED_BLOCKS)
    yield ""


def _feature_lines() -> Iterator[str]:
    yield from ("## Features", "", "The levels that brokers of this version have (`model/features.py`, RFC 0018).", "")
    yield from ("| feature | levels | levels that are being built | planned levels |", "| --- | --- | --- | --- |")
    for name, levels in sorted(KNOWN.items()):
        offered, built = OFFERED[name], UNSTABLE[name]
        told = f"{offered.lowest} to {offered.highest}" if offered.highest else "0"
        more = [_numbers(offered.highest, built.highest), _numbers(built.highest, levels.highest)]
        yield f"| `{name}` | {told} | {more[0]} | {more[1]} |"
    yield from (f"| reserved: `{name}` | | | |" for name in RESERVED_FEATURES)
    yield ""


def _numbers(above: int, highest: int) -> str:
    return ", ".join(map(str, range(above + 1, highest + 1)))


def _group_name_lines() -> Iterator[str]:
    partition = partition_group(TopicId("0123456789abcdef" * 2), 4)
    yield from ("## Names of groups", "", "What messages call a group (`raft/link_names.py`, RFC 0019 section 8).", "")
    yield from ("| name | form | example |", "| --- | --- | --- |")
    yield f"| raft0 | `{RAFT0}` | `{RAFT0}` |"
    yield f"| a partition | `TOPIC_ID/NUMBER` | `{partition}` |"
    forced = link_name(partition, (0, 71))
    yield f"| one whose configuration was forced | `TOPIC_ID/NUMBER{FORCED_MARK}GENERATION.INDEX` | `{forced}` |"
    yield from ("", f"`{FORCED_MARK}` is in no other name. No command of this version forces a configuration.")


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description="Write docs/architecture/registry.md from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page is not up to date")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    print(f"{PAGE.name} is not what the code says: run `python docs/registry.py`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
