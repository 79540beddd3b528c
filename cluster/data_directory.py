"""The identity of this node's disk: node id and directory id, written when the data directory is made.

It lies in two places, a checksummed file and the kvstore. If one is missing or they differ, somebody moved or wiped
part of the data: the node must not start, because a wiped disk that votes under an old name loses committed entries
(counterexample 4).

    format 1   as the directory is made
    format 2   the same record of a directory that may hold configurations (`directory_stamp`): a version that would
               skip them reads format 1 only, and refuses it
    format 3   with the levels of features that a version must have to open the directory; versions without any of
               them but membership read formats 1 and 2, and refuse it

Format 2 says level 1 of `raftka.membership`. The oldest format that can say the levels is written.
"""

from collections.abc import Mapping

import crc32c
import msgspec

from cluster.errors import PermanentStartupError, StartupError
from model.error_text import reason_of
from model.features import MEMBERSHIP, STAMP_LEVEL, highest_of
from model.ids import DirectoryId, NodeId, Replica
from runtime.environment import Environment
from runtime.files import DirectoryLock, FileSystem
from runtime.workers import Pool
from storage.kvstore import KvStore

FORMAT_VERSION = 3
# A version without membership refuses it.
_MEMBERSHIP_FORMAT = 2
# What it says.
MEMBERSHIP_LEVELS: Mapping[str, int] = {MEMBERSHIP: STAMP_LEVEL}
GROUPS = "groups"
KVSTORE = "kvstore"
_FILE = "directory.id"
_LOCK = "lock"
_KEY = "node/directory"
_FIRST_FORMAT = 1
# What a new directory may hold already: what a first start that was cut short has left, and a file system's own.
_OWN_NAMES = frozenset({_LOCK, _FILE, f"{_FILE}.tmp", KVSTORE, GROUPS, "lost+found"})


class DirectoryRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What both places say; `levels_of` reads `levels`, which older formats do not have."""

    format_version: int
    node_id: int
    directory_id: str
    levels: dict[str, int] = {}


def levels_of(record: DirectoryRecord) -> dict[str, int]:
    """Return the levels of features, above 0, that a version must have to open the directory."""
    if record.format_version == FORMAT_VERSION:
        return dict(record.levels)
    return dict(MEMBERSHIP_LEVELS) if record.format_version == _MEMBERSHIP_FORMAT else {}


def with_levels(record: DirectoryRecord, levels: Mapping[str, int]) -> DirectoryRecord:
    """Return the record of the same directory with other levels, in the oldest format that can say them."""
    if levels and levels != MEMBERSHIP_LEVELS:
        return DirectoryRecord(FORMAT_VERSION, record.node_id, record.directory_id, dict(sorted(levels.items())))
    return DirectoryRecord(_MEMBERSHIP_FORMAT if levels else _FIRST_FORMAT, record.node_id, record.directory_id)


class DataDirectoryLock:
    """The lock of a data directory that is held open; both until `release`."""

    def __init__(self, files: FileSystem, lock: DirectoryLock) -> None:
        self._files = files
        self._lock = lock

    def release(self) -> None:
        """Give the lock back and let the directory go, once nobody uses its files any more."""
        self._lock.release()
        self._files.let_go()


def lock_data_directory(env: Environment, path: str, *, create: bool = True) -> DataDirectoryLock:
    """Make the directory if needed, hold it open and take its lock; blocking, before anything else runs.

    From here on whatever lies in it is found through its descriptor (`FileSystem.hold`).

    Args:
        env: Its `files` hold the directory from here on.
        path: Of the directory.
        create: Whether a directory that does not exist is made; the one above it never is.

    Raises:
        PermanentStartupError: It does not exist and is not to be made, or it holds what is not a broker's.
        StartupError: Another process uses it, or the disk refuses.
    """
    files = env.files
    try:
        if create:
            files.mkdir(path)
        files.hold(path)
    except FileNotFoundError:
        if not create:
            raise PermanentStartupError(
                f"data directory {path} does not exist, and data.dir.create is false: mount its disk;"
                f" for a new broker, make it (mkdir -m 700 {path})"
            ) from None
        raise PermanentStartupError(
            f"cannot make data directory {path}: the directory above it does not exist; mount its disk, or make it"
        ) from None
    except (FileExistsError, NotADirectoryError):
        raise PermanentStartupError(
            f"cannot use data directory {path}: it is a file; name a directory as data.dir"
        ) from None
    except OSError as error:
        raise StartupError(f"cannot use data directory {path}: {reason_of(error)}") from error
    try:
        return _lock_held(files, path)
    except BaseException:
        files.let_go()
        raise


def _lock_held(files: FileSystem, path: str) -> DataDirectoryLock:
    try:
        names = set(files.listdir(path))
        if _FILE not in names and names - _OWN_NAMES:
            raise PermanentStartupError(
                f"{path} holds {_some(names - _OWN_NAMES)} and no {_FILE}: it is not a data directory;"
                " name an empty or a new one as data.dir"
            )
        return DataDirectoryLock(files, files.lock(f"{path}/{_LOCK}"))
    except BlockingIOError:
        raise StartupError(f"{path} is in use by another broker process") from None
    except OSError as error:
        raise StartupError(f"cannot use data directory {path}: {reason_of(error)}") from error


async def claim_data_directory(env: Environment, path: str, kvstore: KvStore, node_id: NodeId) -> Replica:
    """Return this node's identity, drawing and writing it if the directory is new.

    The directory of the groups is made here, where no replica was ever made, and never later: what is lost is not made
    again.

    Raises:
        PermanentStartupError: The directory is another node's, of another format, or incomplete.
    """
    on_disk = await env.workers.run(Pool.READ, lambda: read_identity(env, path))
    in_kvstore = kvstore.get(_KEY)
    if on_disk is None and in_kvstore is None:
        if await env.workers.run(Pool.READ, lambda: _holds_logs(env, path)):
            raise PermanentStartupError(
                f"{path}: its identity file and its kvstore are missing, but it holds logs; {_bring_back(node_id)}"
            )
        record = DirectoryRecord(_FIRST_FORMAT, node_id, env.rng.randbytes(16).hex())
        await put_record(kvstore, record)
        # The file last: a crash between the two leaves a kvstore without a file, which holds nothing else yet.
        await env.workers.run(Pool.APPEND, lambda: write_record(env, path, record))
        await _make_groups(env, path)
        return Replica(node_id, DirectoryId(record.directory_id))
    stored = None if in_kvstore is None else _decode(path, in_kvstore)
    for found in (on_disk, stored):
        if found is not None and not _FIRST_FORMAT <= found.format_version <= FORMAT_VERSION:
            raise PermanentStartupError(
                f"{path} has format {found.format_version}, this version reads {_FIRST_FORMAT} to {FORMAT_VERSION}:"
                " start the newer version that has written it"
            )
        if found is not None and with_levels(found, levels_of(found)) != found:
            raise PermanentStartupError(
                f"{path} has format {found.format_version} and the levels of another format: restore its directory.id"
                " and its kvstore from a copy"
            )
    if on_disk is None and stored is not None and not kvstore.items("raft/"):
        on_disk = lost = stored
        await env.workers.run(Pool.APPEND, lambda: write_record(env, path, lost))
    if on_disk is not None and stored is not None:
        on_disk, stored = await _stamped_alike(env, path, kvstore, on_disk, stored)
    if on_disk is None or stored is None or on_disk != stored:
        missing = "its kvstore is missing" if stored is None else "its identity file is missing"
        reason = missing if on_disk is None or stored is None else "its kvstore belongs to another directory"
        raise PermanentStartupError(f"{path}: {reason}; {_bring_back(node_id)}")
    if on_disk.node_id != node_id:
        raise PermanentStartupError(f"{path} belongs to node {on_disk.node_id}, but node.id is {node_id}")
    if not kvstore.items("raft/"):
        await _make_groups(env, path)
    return Replica(node_id, DirectoryId(on_disk.directory_id))


def _bring_back(node_id: NodeId) -> str:
    return (
        "bring the whole data directory back, parts of it are not enough; if it is lost: raftka broker replace"
        f" {node_id}, then start this broker with an empty data.dir"
    )


async def _stamped_alike(
    env: Environment, path: str, kvstore: KvStore, on_disk: DirectoryRecord, stored: DirectoryRecord
) -> tuple[DirectoryRecord, DirectoryRecord]:
    """Complete a stamp that a crash has cut short; return both records as they are then.

    The higher levels count: what the stamp allows may have been asked for, and an older version refuses the directory
    already. Where a founder was about to lower them (`founding`), nobody has heard of the lower ones.
    """
    levels = highest_of(levels_of(on_disk), levels_of(stored))
    stamped = with_levels(on_disk, levels)
    if stamped != with_levels(stored, levels):
        return on_disk, stored  # Not one directory's.
    if on_disk != stamped:
        await env.workers.run(Pool.APPEND, lambda: write_record(env, path, stamped))
    if stored != stamped:
        await put_record(kvstore, stamped)
    return stamped, stamped


async def _make_groups(env: Environment, path: str) -> None:
    await env.workers.run(Pool.APPEND, lambda: env.files.mkdir(f"{path}/{GROUPS}"))


def _some(names: set[str]) -> str:
    shown = sorted(names)[:3]
    return ", ".join(map(repr, shown)) + (" and more" if len(names) > len(shown) else "")


def _holds_logs(env: Environment, path: str) -> bool:
    groups = f"{path}/{GROUPS}"
    return env.files.exists(groups) and bool(env.files.listdir(groups))


def stored_record(kvstore: KvStore, path: str) -> DirectoryRecord:
    """Return what the kvstore of the claimed directory `path` says."""
    stored = kvstore.get(_KEY)
    assert stored is not None, "the directory was claimed"
    return _decode(path, stored)


async def put_record(kvstore: KvStore, record: DirectoryRecord) -> None:
    """Make the kvstore's record durable.

    Raises:
        KvStoreError: It is not known to be.
    """
    kvstore.put(_KEY, msgspec.json.encode(record))
    await kvstore.sync()


def _decode(path: str, stored: bytes) -> DirectoryRecord:
    try:
        return msgspec.json.decode(stored, type=DirectoryRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PermanentStartupError(f"{path}: its kvstore's record of the directory is damaged: {error}") from error


def read_identity(env: Environment, path: str) -> DirectoryRecord | None:
    """Return what the identity file of the data directory `path` says; None if there is none. Blocking.

    Raises:
        PermanentStartupError: It is damaged.
        OSError: The disk refuses.
    """
    name = f"{path}/{_FILE}"
    if not env.files.exists(name):
        return None
    file = env.files.open(name)
    try:
        content = file.pread(file.size(), 0)
    finally:
        file.close()
    try:
        checksum, body = content[:8], content[9:].rstrip(b"\n")
        if int(checksum, 16) != crc32c.crc32c(body):
            raise PermanentStartupError(
                f"{name} is damaged: wrong checksum; restore it from a copy of this data directory"
            )
        return msgspec.json.decode(body, type=DirectoryRecord)
    except (ValueError, msgspec.MsgspecError) as error:
        raise PermanentStartupError(
            f"{name} is damaged: {error}; restore it from a copy of this data directory"
        ) from error


def write_record(env: Environment, path: str, record: DirectoryRecord) -> None:
    """Replace the identity file of the data directory `path`; durable when this returns. Blocking.

    Raises:
        OSError: Which of the two a restart finds is not known.
    """
    name, temporary = f"{path}/{_FILE}", f"{path}/{_FILE}.tmp"
    body = msgspec.json.encode(record)
    if env.files.exists(temporary):
        env.files.unlink(temporary)
    file = env.files.open(temporary, create=True)
    try:
        file.pwritev([f"{crc32c.crc32c(body):08x} ".encode(), body, b"\n"], 0)
        file.fsync()
    finally:
        file.close()
    env.files.rename(temporary, name)
    env.files.fsync_dir(path)
