"""The file `compacted` of a replica: how far its log may be compacted (RFC 0022, section 7). Blocking.

No state may be derived from entries up to there: records of them may be gone, here or where they came from. The mark is
durable before the first such entry is in the log, and it only rises. So what it says may be too high, and is never too
low; where the file is damaged, all that the log holds counts as compacted.
"""

import msgspec

from model.ids import NO_INDEX, Index
from runtime.files import FileSystem
from storage.checked_file import read_checked_file, write_checked_file

COMPACTED_NAME = "compacted"
FORMAT_VERSION = 1


class _Mark(msgspec.Struct, frozen=True):
    format_version: int
    index: Index


# As in `index_file`.
_decoder = msgspec.json.Decoder(_Mark)


def write_compacted_mark(files: FileSystem, directory: str, index: Index) -> None:
    """Replace the mark; it is durable when this returns.

    Raises:
        OSError: Which of the two a restart finds is not known.
    """
    write_checked_file(files, f"{directory}/{COMPACTED_NAME}", msgspec.json.encode(_Mark(FORMAT_VERSION, index)))


def read_compacted_mark(files: FileSystem, directory: str) -> Index | None:
    """Return the mark; NO_INDEX if nothing here was ever compacted, None if the file is damaged.

    Raises:
        OSError: The disk refuses.
    """
    path = f"{directory}/{COMPACTED_NAME}"
    if not files.exists(path):
        return NO_INDEX
    try:
        mark = _decoder.decode(read_checked_file(files, path))
    except (ValueError, msgspec.MsgspecError):
        return None
    return mark.index if mark.format_version == FORMAT_VERSION and mark.index > 0 else None
