"""Small files that are there as a whole or not at all."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Give a file this content: after a crash it has the former content or this one, and this one once we return."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Have a file's content reach the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Have a folder's names reach the disk."""
    sync_file(path)
