"""The identity file of one replica's directory: whose log it is, in which format."""

import msgspec

from model.ids import DirectoryId, GroupId
from runtime.files import FileSystem
from storage.checked_file import read_checked_file, write_checked_file
from storage.errors import ForeignDirectoryError, MismatchedLogError
from storage.options import LogIdentity

FORMAT_VERSION = 1
_NAME = "replica.id"


class _IdentityRecord(msgspec.Struct, frozen=True):
    format_version: int
    group: str
    directory_id: str


# As in `index_file`.
_decoder = msgspec.json.Decoder(_IdentityRecord)


def claim_log_directory(files: FileSystem, directory: str, identity: LogIdentity) -> None:
    """Make the directory for `identity`, or check that it already is its.

    Raises:
        ForeignDirectoryError: Another group's, another data directory's, another format's, or unreadable.
    """
    path = f"{directory}/{_NAME}"
    if files.exists(path):
        _check(files, path, identity)
        return
    files.mkdir(directory)
    strangers = _names_of_entries(files, directory)
    if strangers:
        raise ForeignDirectoryError(f"{directory} holds {strangers[0]} but no {_NAME}: not a replica of this broker")
    _write(files, path, identity)


def make_log_directory(files: FileSystem, directory: str, identity: LogIdentity) -> None:
    """Make the directory of a replica that has taken part in nothing yet; it is durable when this returns.

    A directory that an earlier try left is made durable again: it may be one whose fsync failed.

    Raises:
        ForeignDirectoryError: Another group's, another data directory's, another format's, or unreadable.
        MismatchedLogError: It is this replica's and holds entries: it has taken part.
    """
    path = f"{directory}/{_NAME}"
    if files.exists(path):
        _check(files, path, identity)
        entries = _names_of_entries(files, directory)
        if entries:
            raise MismatchedLogError(
                f"{directory} holds {entries[0]}, but the kvstore does not know that this replica was ever created:"
                " kvstore and logs do not belong together; bring the whole data directory back, parts are not enough"
            )
        _write(files, path, identity)
    else:
        claim_log_directory(files, directory, identity)
    # The names above it too: an earlier try may have made them, and failed at the fsync.
    for _ in range(2):
        directory = directory.rpartition("/")[0]
        files.fsync_dir(directory)


def require_log_directory(files: FileSystem, directory: str, identity: LogIdentity) -> None:
    """Check that the directory of a replica that may have taken part is still there; nothing is made.

    Raises:
        ForeignDirectoryError: Another group's, another data directory's, another format's, or unreadable.
        MismatchedLogError: It is gone, or its identity file is.
    """
    path = f"{directory}/{_NAME}"
    if not files.exists(path):
        raise MismatchedLogError(
            f"{path} is missing, but the kvstore says that this replica was created: its log was lost or moved away."
            " A replica without its log would forget what it has acknowledged, so it does not start; bring the whole"
            " data directory back, parts are not enough"
        )
    _check(files, path, identity)


def _names_of_entries(files: FileSystem, directory: str) -> list[str]:
    return [name for name in files.listdir(directory) if name != _NAME and not name.endswith(".tmp")]


def _write(files: FileSystem, path: str, identity: LogIdentity) -> None:
    record = _IdentityRecord(FORMAT_VERSION, identity.group, identity.directory_id)
    write_checked_file(files, path, msgspec.json.encode(record))


def read_log_identity(files: FileSystem, directory: str) -> LogIdentity | None:
    """Return whose log a directory is by its identity file; None if it has none. Blocking; changes nothing.

    Raises:
        ForeignDirectoryError: The file is damaged, or of another format.
        OSError: The disk refuses.
    """
    path = f"{directory}/{_NAME}"
    if not files.exists(path):
        return None
    record = _read(files, path)
    return LogIdentity(GroupId(record.group), DirectoryId(record.directory_id))


def _read(files: FileSystem, path: str) -> _IdentityRecord:
    try:
        record = _decoder.decode(read_checked_file(files, path))
    except (ValueError, msgspec.MsgspecError) as error:
        raise ForeignDirectoryError(f"{path} is damaged: {error}") from error
    if record.format_version != FORMAT_VERSION:
        raise ForeignDirectoryError(f"{path} has format {record.format_version}, this version reads {FORMAT_VERSION}")
    return record


def _check(files: FileSystem, path: str, identity: LogIdentity) -> None:
    record = _read(files, path)
    if (record.group, record.directory_id) != (identity.group, identity.directory_id):
        raise ForeignDirectoryError(
            f"{path} belongs to group {record.group} of data directory {record.directory_id},"
            f" not to {identity.group} of {identity.directory_id}"
        )


def remove_log_directory(files: FileSystem, directory: str) -> None:
    """Delete the directory: the identity file last, so that a half-deleted one is still known by name."""
    names = [name for name in files.listdir(directory) if name != _NAME]
    for name in reversed(names):
        files.unlink(f"{directory}/{name}")
    files.fsync_dir(directory)
    if files.exists(f"{directory}/{_NAME}"):
        files.unlink(f"{directory}/{_NAME}")
        files.fsync_dir(directory)
    parent = directory.rpartition("/")[0]
    files.rmdir(directory)
    files.fsync_dir(parent)


def discard_log_directory(files: FileSystem, directory: str, identity: LogIdentity) -> None:
    """Delete what there is of the directory, whole, damaged or half-deleted, without opening the log.

    Raises:
        ForeignDirectoryError: Another's, or its identity cannot be told; nothing was touched.
    """
    if not files.exists(directory):
        parent = directory.rpartition("/")[0]
        if files.exists(parent):
            files.fsync_dir(parent)  # Whoever removed it may have ended before it was durable.
        return
    path = f"{directory}/{_NAME}"
    if files.exists(path):
        _check(files, path, identity)
    elif strangers := _names_of_entries(files, directory):
        raise ForeignDirectoryError(f"{directory} holds {strangers[0]} but no {_NAME}: not a replica of this broker")
    remove_log_directory(files, directory)
