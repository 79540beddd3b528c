"""`python -I -m raftka.broker.dump_log DIR`: what the files of a log say; `raftka debug log` runs it.

It starts no broker and changes nothing. A data directory that a running broker holds is refused.
"""

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from raftka.broker.package_path import add_broker_packages
from raftka.error_text import reason_of, short_reason_of

if TYPE_CHECKING:
    from raftka.broker.offline.data_directory_rows import Place
    from raftka.broker.offline.log_rows import Row
    from raftka.broker.offline.read_only_files import ReadOnlyFiles

_INTERRUPTED = 130


class DumpError(Exception):
    """The directory cannot be read: one line for stderr."""


def main() -> int:
    """Print a log, or the logs of a data directory; return 0, or 1 if something is damaged or cannot be read."""
    parser = argparse.ArgumentParser(prog="raftka.broker.dump_log")
    parser.add_argument("directory", metavar="DIR", help="log directory or data directory")
    parser.add_argument("--from", dest="first", type=int, metavar="INDEX", help="first entry that is shown")
    parser.add_argument("--limit", type=int, metavar="N", help="at most so many entries")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    arguments = parser.parse_args()
    add_broker_packages()
    try:
        code = _dump(arguments.directory, arguments.first, arguments.limit, is_json=arguments.format == "json")
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter would flush once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except DumpError as error:
        print(f"raftka: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # A disk that is full, where stdout is a file.
        print(f"raftka: cannot write to stdout: {short_reason_of(error)}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _dump(directory: str, first: int | None, limit: int | None, *, is_json: bool) -> int:
    from raftka.broker.offline.data_directory_rows import place_of
    from raftka.broker.offline.read_only_files import ReadOnlyFiles

    files = ReadOnlyFiles()
    try:
        place = place_of(files, directory)
    except OSError as error:
        raise DumpError(f"{directory} cannot be read: {short_reason_of(error)}") from error
    if place is None:
        raise DumpError(
            f"{directory} is neither a log directory nor a data directory: it holds no replica.id, no segment"
            " and no groups; name a data directory (data.dir) or a directory in its groups"
        )
    if not place.is_log and (first is not None or limit is not None):
        raise DumpError(
            f"{directory} is a data directory: --from and --limit choose entries of one log; name a directory in its"
            " groups"
        )
    _refuse_held(place, "stop that broker, or read a copy of the directory")
    code = _dump_log(files, place, first or 1, limit, is_json=is_json) if place.is_log else _list(files, place, is_json)
    sys.stdout.flush()
    _refuse_held(place, "it was taken meanwhile, so what was read may have changed; read it again")
    return code


def _refuse_held(place: "Place", cure: str) -> None:
    from raftka.broker.offline.lock_holder import holder_of

    if place.data_directory is None:
        return
    try:
        holder = holder_of(place.data_directory)
    except OSError as error:
        raise DumpError(f"{place.data_directory} cannot be read: {reason_of(error)}") from error
    if holder is not None:
        raise DumpError(f"{place.data_directory} is in use by {holder}: {cure}")


def _dump_log(files: "ReadOnlyFiles", place: "Place", first: int, limit: int | None, *, is_json: bool) -> int:
    from raftka.broker.offline.data_directory_rows import name_of, topic_names
    from raftka.broker.offline.log_rows import LogRows, Wanted
    from raftka.broker.offline.row_text import lines_of
    from storage.errors import StorageError
    from storage.log_directory import read_log_identity

    name = None
    try:
        identity = read_log_identity(files, place.path)
        if identity is not None:
            name = name_of(identity.group, topic_names(files, os.path.dirname(place.path)))
    except (StorageError, OSError):
        pass  # The rows say what is wrong with it.
    log = LogRows(files, place.path, name, Wanted(first, limit))
    rows = log.rows()
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return 1 if log.damages else 0
        except OSError as error:
            raise DumpError(f"{place.path} cannot be read: {short_reason_of(error)}") from error
        _print(json.dumps(row) if is_json else "\n".join(lines_of(row)))


def _list(files: "ReadOnlyFiles", place: "Place", is_json: bool) -> int:
    from raftka.broker.offline.data_directory_rows import group_rows
    from raftka.broker.offline.row_text import group_lines

    try:
        rows: list[Row] = list(group_rows(files, place.path))
    except OSError as error:
        raise DumpError(f"{place.path} cannot be read: {short_reason_of(error)}") from error
    for row in rows:
        del row["sort"]
    for line in map(json.dumps, rows) if is_json else group_lines(rows):
        _print(line)
    return 1 if any(row["flaw"] is not None for row in rows) else 0


def _print(line: str) -> None:
    # A name on a disk may have bytes that are no text.
    sys.stdout.write(line.encode(errors="backslashreplace").decode() + "\n")


if __name__ == "__main__":
    sys.exit(main())
