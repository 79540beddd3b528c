"""What every command of `raftka generate` does with its text: print it, or write it into a new file."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from raftka.cli.exit_codes import CommandError
from raftka.cli.param_types import OUT_FILE
from raftka.error_text import short_reason_of

_Function = TypeVar("_Function", bound=Callable[..., Any])


def out_options(function: _Function) -> _Function:
    """Add the options `--out` and `--force`, which `write_generated` takes."""
    forced = click.option("--force", is_flag=True, help="Replace the file of --out if it exists.")
    out = click.option("--out", type=OUT_FILE, metavar="FILE", help="Write to this file. [default: stdout]")
    return out(forced(function))


def write_generated(text: str, out: Path | None, force: bool) -> None:
    """Print the text, or write all of it into a file; the file has the old content or the new one at any time.

    Raises:
        click.BadParameter: --force without --out.
        CommandError: The file exists, or cannot be written. A device, a pipe or a symbolic link is never replaced.
    """
    if out is None:
        if force:
            raise click.BadParameter("--force: there is no file to replace without --out")
        print(text, end="")
        return
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        if (flaw := _flaw_of_old(out, force)) is not None:
            raise CommandError(f"--out {out}: {flaw}")
        try:
            draft.write_text(text)
            # A link would fail if somebody has made the file meanwhile; os.replace would not.
            if force:
                os.replace(draft, out)
            else:
                os.link(draft, out)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(f"--out {out}: cannot be written: {short_reason_of(error)}") from None


def _flaw_of_old(out: Path, force: bool) -> str | None:
    """Return why what has the name is kept; None: it may be replaced, or there is nothing.

    Raises:
        OSError: It cannot be looked at.
    """
    try:
        kind = out.lstat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(kind):
        # To replace the link would leave the file that somebody meant as it was.
        return "it is a symbolic link, which is not replaced; name the file that it leads to"
    if not stat.S_ISREG(kind):
        # Whoever writes there next would write into a file of ours.
        return "it is no regular file, and is not replaced"
    return None if force else "the file exists; --force replaces it"
