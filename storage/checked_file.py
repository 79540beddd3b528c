"""Small files that hold one fact, as text: CRC32C in hex, a space, the fact, a newline. Blocking."""

import crc32c

from runtime.files import FileSystem


def write_checked_file(files: FileSystem, path: str, body: bytes) -> None:
    """Replace the file; it is durable when this returns.

    Raises:
        OSError: Which of the two a restart finds is not known.
    """
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
    files.fsync_dir(path.rpartition("/")[0])


def read_checked_file(files: FileSystem, path: str) -> bytes:
    """Return the fact in a file that is there.

    Raises:
        ValueError: The file is damaged; the message says how.
        OSError: The disk refuses.
    """
    file = files.open(path)
    try:
        content = file.pread(file.size(), 0)
    finally:
        file.close()
    checksum, _, body = content.rstrip(b"\n").partition(b" ")
    if int(checksum, 16) != crc32c.crc32c(body):
        raise ValueError("wrong checksum")
    return body
