"""`raftka debug`: what somebody who looks for a fault needs."""

import os
import sys
from pathlib import Path

import click

from raftka.cli.exit_codes import CommandError
from raftka.cli.interrupts import sigterm_as_ctrl_c
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import DEFAULT_BROKERS, Format, check_brokers, data_dir_option, format_option, given_brokers
from raftka.cli.param_types import OUT_FILE, PATH, BoundedFloat, BoundedInt

_SHOWN_MAX = 10


@click.group("debug", cls=CommandGroup)
def app() -> None:
    """Read the log of a partition offline, or collect what helps to find a fault."""


@app.command("log")
@click.argument("directory", type=PATH, metavar="DIR", help="Directory of a partition's log, or a data directory.")
@click.option("--from", "first", type=BoundedInt(1), metavar="INDEX", help="First entry to show. [default: 1]")
@click.option("--limit", type=BoundedInt(1), metavar="N", help="Show at most N entries. [default: all]")
@format_option
def log(directory: Path, first: int | None, limit: int | None, output: Format) -> None:
    """Print the segments, entries and record batches of a log, and its damage. Exit with 1 if there is any.

    Of a data directory, list its logs. Nothing is changed, and records are never shown. The broker must not run.
    """
    # Another program: only that may import the broker's packages.
    arguments = ["--format", output.value]
    if first is not None:
        arguments += ["--from", str(first)]
    if limit is not None:
        arguments += ["--limit", str(limit)]
    command = [sys.executable, "-I", "-m", "raftka.broker.dump_log", *arguments, "--", str(directory)]
    sys.stdout.flush()
    os.execv(sys.executable, command)


def _given_admins(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each.strip() for text in texts for each in check_brokers(text).split(","))


@app.command("bundle")
@click.option(
    "--out",
    type=OUT_FILE,
    metavar="FILE",
    help="File to write. [default: raftka-debug-TIME.zip in the current directory]",
)
@click.option(
    "--brokers",
    envvar="RAFTKA_BROKERS",
    show_envvar=True,
    metavar="HOST:PORT,...",
    callback=given_brokers,
    help=f"Bootstrap addresses of the cluster. [default: the dev cluster, or {DEFAULT_BROKERS}]",
)
@click.option(
    "--admin",
    "admins",
    multiple=True,
    metavar="HOST:PORT",
    callback=_given_admins,
    help="Admin address of a broker; repeat for more. Brokers that answer tell theirs.",
)
@click.option(
    "--timeout", type=BoundedFloat(1.0, 3600.0), default=120.0, metavar="N", help="Timeout of all parts, in seconds."
)
@data_dir_option
def bundle(
    out: Path | None, brokers: str | None, admins: tuple[str, ...], timeout: float, data_dir: Path | None
) -> None:
    """Collect metrics, state, configuration and logs of a cluster into a zip file of at most 100 MiB.

    Secrets and records are not in it. What does not answer is left out; manifest.json in the file says why.
    """
    # Imported here, for the sake of `--help`.
    import time

    from raftka.debug.bundle import BundleRequest, make_bundle
    from raftka.debug.errors import BundleError
    from raftka.dev.operations import open_folder

    folder = open_folder(data_dir)
    if data_dir is not None:
        folder.load_existing()
    out = out or Path(time.strftime("raftka-debug-%Y%m%d-%H%M%SZ.zip", time.gmtime()))
    with sigterm_as_ctrl_c():
        try:
            made = make_bundle(BundleRequest(out, brokers, admins, folder, data_dir is not None, timeout))
        except BundleError as error:
            raise CommandError(str(error)) from None
    missing = [each for each in made.parts if "missing" in each]
    print(f"{out}: {len(made.parts) - len(missing)} parts, {made.size} bytes")
    for line in _missing_lines([(each["file"], each["missing"]) for each in missing]):
        print(line)


def _missing_lines(missing: list[tuple[str, str]]) -> list[str]:
    """Return what is said of parts that are missing, (name, reason) each: one line for all that one silence costs."""
    files: dict[str, list[str]] = {}
    for file, reason in missing:
        # Behind these words stands why the part before was missing.
        files.setdefault(reason.removeprefix("not asked for: "), []).append(file)
    lines = []
    for reason, names in list(files.items())[:_SHOWN_MAX]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        lines.append(f"missing {names[0]}{more}: {reason}")
    if hidden := sum(len(names) for names in list(files.values())[_SHOWN_MAX:]):
        lines.append(f"missing {hidden} more: manifest.json in the file says why")
    return lines
