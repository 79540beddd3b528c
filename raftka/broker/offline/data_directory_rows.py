"""The log directories of a data directory, with the names of their topics where raft0's log says them."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from cluster.commands import CreateTopic, decode_command
from cluster.controller_tables import ControllerTables
from cluster.data_directory import GROUPS
from cluster.errors import ClusterError
from model.error_text import reason_of
from model.ids import RAFT0
from model.topic_config import InvalidConfigError, TopicConfig
from raftka.broker.offline.lock_holder import LOCK_NAME
from raftka.broker.offline.log_rows import Row
from raftka.broker.offline.read_only_files import ReadOnlyFiles
from raftka.broker.offline.segment_walk import Found, walk
from storage.damaged_files import damaged_copies
from storage.entry import Entry, EntryKind
from storage.errors import StorageError
from storage.log_directory import read_log_identity
from storage.segment_loader import list_segments
from storage.snapshot_file import read_snapshot


class Place(NamedTuple):
    """What a directory is.

    Attributes:
        path: Where it is.
        is_log: It is a log directory; else a data directory.
        data_directory: The data directory that it is or lies in; None where there is none.
    """

    path: str
    is_log: bool
    data_directory: str | None


def place_of(files: ReadOnlyFiles, path: str) -> Place | None:
    """Return what the directory `path` is; None: neither a log directory nor a data directory.

    Raises:
        OSError: It cannot be listed.
    """
    # Through links: the lock lies in the directory above.
    path = os.path.realpath(path)
    names = files.listdir(path)
    if "replica.id" in names or list_segments(files, path):
        parent = os.path.dirname(path)
        above = os.path.dirname(parent)
        is_inside = os.path.basename(parent) == GROUPS and files.exists(f"{above}/{LOCK_NAME}")
        return Place(path, True, above if is_inside else None)
    if GROUPS in names:
        return Place(path, False, path)
    return None


def group_rows(files: ReadOnlyFiles, data_directory: str) -> Iterator[Row]:
    """Yield a row of the type `group` for each log directory, raft0 first, then in the order of names.

    Raises:
        OSError: The directory of the groups cannot be listed.
    """
    groups = f"{data_directory}/{GROUPS}"
    names = topic_names(files, groups)
    rows = [_group_row(files, f"{groups}/{each}", names) for each in files.listdir(groups)]
    yield from sorted(rows, key=lambda row: (row["group"] != RAFT0, row["name"] is None, row["sort"], row["directory"]))


def _group_row(files: ReadOnlyFiles, directory: str, names: dict[str, str]) -> Row:
    row: Row = {"type": "group", "directory": directory, "name": None, "group": None, "segments": 0, "bytes": 0}
    row |= {"damaged_copies": 0, "flaw": None, "sort": ("", 0)}
    try:
        identity = read_log_identity(files, directory)
        segments = list_segments(files, directory)
        row |= {"segments": len(segments), "bytes": sum(os.stat(each.path).st_size for each in segments)}
        row["damaged_copies"] = len(damaged_copies(files, directory))
    except (StorageError, OSError) as error:
        row["flaw"] = reason_of(error)
        return row
    if identity is None:
        row["flaw"] = f"{directory} holds no replica.id"
        return row
    row |= {"group": identity.group, "name": name_of(identity.group, names)}
    topic_id, _, number = identity.group.partition("/")
    row["sort"] = (names.get(topic_id, ""), int(number) if number.isdecimal() else 0)
    return row


def name_of(group: str, names: dict[str, str]) -> str | None:
    """Return what people call a group: `orders-0`, `raft0`; None if its topic is not known."""
    topic_id, _, number = group.partition("/")
    if group == RAFT0:
        return str(RAFT0)
    return f"{names[topic_id]}-{number}" if topic_id in names else None


def topic_names(files: ReadOnlyFiles, groups: str) -> dict[str, str]:
    """Return topic names by topic id, as far as raft0's log in the directory of the groups can be read.

    Deleted topics are among them: their directories may be left. Damage costs names and nothing else.
    """
    names: dict[str, str] = {}
    directory = f"{groups}/{RAFT0}"
    try:
        snapshot = read_snapshot(files, directory)
        if snapshot is not None and snapshot.state:
            names |= _saved_names(snapshot.state)
    except (StorageError, ClusterError, InvalidConfigError, OSError):
        pass
    try:
        for entry in _entries(files, directory):
            if entry.kind is EntryKind.COMMAND:
                command = decode_command(entry.payload)
                if isinstance(command, CreateTopic):
                    names[command.topic_id] = command.name
    except (StorageError, OSError):
        pass
    return names


def _saved_names(state: bytes) -> dict[str, str]:
    decoding = ControllerTables(TopicConfig()).decode(state)
    while True:
        try:
            next(decoding)
        except StopIteration as end:
            return {str(topic.topic_id): topic.name for topic in end.value.topics}


def _entries(files: ReadOnlyFiles, directory: str) -> Iterator[Entry]:
    for named in list_segments(files, directory):
        file = files.open(named.path)
        try:
            for found in walk(file, named.path, file.size()):
                if isinstance(found, Found):
                    yield found.parsed.entry
        finally:
            file.close()
