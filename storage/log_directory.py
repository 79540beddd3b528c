"""The identity file of one replica's directory: whose log it is, in which format."""

import crc32c
import msgspec

from runtime.files import FileSystem
from storage.errors import ForeignDirectoryError
from storage.options import LogIdentity

FORMAT_VERSION = 1
_NAME = "replica.id"


class _IdentityRecord(msgspec.Struct, frozen=True):
    format_version: int
    group: str
    directory_id: str


def claim_log_directory(files: FileSystem, directory: str, identity: LogIdentity) -> None:
    """Make the directory for `identity`, or check that it already is its.

    Raises:
        ForeignDirectoryError: Another group's, another data directory's, another format's, or unreadable.
    """
    path = f"{directory}/{_NAME}"
    files.mkdir(directory)
    if files.exists(path):
        _check(files, path, identity)
        return
    strangers = [name for name in files.listdir(directory) if not name.endswith(".tmp")]
    if strangers:
        raise ForeignDirectoryError(f"{directory} holds {strangers[0]} but no {_NAME}: not a replica of this broker")
    record = _IdentityRecord(FORMAT_VERSION, identity.group, identity.directory_id)
    body = msgspec.json.encode(record)
    temporary = f"{path}.tmp"
    if files.exists(temporary):
        files.unlink(temporary)
    file = files.open(temporary, create=True)
    try:
        file.pwritev([f"{crc32c.crc32c(body):08x} ".encode(), body, b"\n"], 0)
        file.fsync()
    finally:
        file.close()
    files.rename(temporary, path)
    files.fsync_dir(directory)


def _check(files: FileSystem, path: str, identity: LogIdentity) -> None:
    file = files.open(path)
    try:
        content = file.pread(file.size(), 0)
    finally:
        file.close()
    checksum, _, body = content.rstrip(b"\n").partition(b" ")
    try:
        if int(checksum, 16) != crc32c.crc32c(body):
            raise ForeignDirectoryError(f"{path} is damaged: wrong checksum")
        record = msgspec.json.decode(body, type=_IdentityRecord)
    except ValueError as error:
        raise ForeignDirectoryError(f"{path} is damaged: {error}") from error
    if record.format_version != FORMAT_VERSION:
        raise ForeignDirectoryError(f"{path} has format {record.format_version}, this version reads {FORMAT_VERSION}")
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
