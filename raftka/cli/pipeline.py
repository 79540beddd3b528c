"""`raftka pipeline`: Spark pipelines, run, looked at and stopped."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftka.cli.exit_codes import DONE, FAILED, CommandError
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import Format, check_brokers, format_option, parse_pairs
from raftka.cli.output import print_json, print_table
from raftka.cli.param_types import PATH, BoundedFloat
from raftka.kafka.client import DEFAULT_BROKERS, check_service

if TYPE_CHECKING:
    from raftka.pipeline.config_file import PipelineFile
    from raftka.pipeline.run_folder import RunFolder
    from raftka.pipeline.status import Status

file_option = click.option(
    "--file", type=PATH, metavar="FILE", help="TOML file of pipelines. [default: RAFTKA_PIPELINES, ./pipelines.toml]"
)
folder_option = click.option(
    *("--dir", "folder"),
    type=PATH,
    metavar="DIR",
    help="Directory of checkpoints, status and output. [default: dir of the file]",
)


@click.group("pipeline", cls=CommandGroup)
def app() -> None:
    """Run, list and stop Spark pipelines."""


@app.command("run")
@click.argument("name", metavar="NAME", help="Pipeline of the file, or a kind.")
@click.option(
    *("--set", "values"),
    multiple=True,
    metavar="KEY=VALUE",
    help="Key of the pipeline, overrides the file; repeat for more.",
)
@click.option("--brokers", metavar="HOST:PORT,...", help="Bootstrap addresses of the cluster.")
@file_option
@folder_option
def run(name: str, values: tuple[str, ...], brokers: str | None, file: Path | None, folder: Path | None) -> int:
    """Run a pipeline until it has read all records, or until SIGTERM or Ctrl-C.

    A stop waits for the end of the running batch, so that the next run reads nothing twice.
    """
    from raftka.pipeline.kinds import KINDS, load_kind
    from raftka.pipeline.run_folder import RunFolder
    from raftka.pipeline.runner import Runner, StopRequest, stop_on_signals
    from raftka.pipeline.settings import convert
    from raftka.pipeline.spark_session import require_spark

    found = _load(file, folder)
    flags = parse_pairs(values, "--set")
    if brokers is not None:
        flags["brokers"] = check_brokers(brokers)
    wanted = found.values_of(name, KINDS, flags)
    if not isinstance(wanted.get("kind"), str):
        raise CommandError(f"{found.where(name)}: kind is not set (there are {', '.join(KINDS)})")
    # Before Spark, which takes longer to start than this to ask; whether these are addresses is checked below.
    check_service(str(wanted.get("brokers", DEFAULT_BROKERS)))
    require_spark()
    stop = StopRequest()
    with stop_on_signals(stop):
        kind = load_kind(wanted["kind"])
        settings = convert(wanted, kind.settings, found.where(name))
        Runner(name, kind, settings, RunFolder(found.dir, name), stop).run()
    return DONE


@app.command("list")
@file_option
@folder_option
@format_option
def list_pipelines(file: Path | None, folder: Path | None, output: Format) -> None:
    """List the pipelines of the file and all kinds of pipelines."""
    from raftka.pipeline.kinds import KINDS
    from raftka.pipeline.run_folder import RunFolder

    found = _load(file, folder)
    rows = []
    for name, section in found.sections.items():
        state = _state(RunFolder(found.dir, name))
        reads = section.get("topics") or section.get("topics.pattern") or "-"
        rows.append(
            {
                "pipeline": name,
                "kind": section.get("kind", "-"),
                "topics": reads if isinstance(reads, str) else ",".join(map(str, reads)),
                "trigger": section.get("trigger", "available-now"),
                "state": state,
            }
        )
    if output is Format.JSON:
        print_json({"pipelines": rows, "kinds": {name: kind.summary for name, kind in KINDS.items()}})
        return
    if rows:
        print_table([key.upper() for key in rows[0]], [list(row.values()) for row in rows])
        print()
    print_table(["KIND", "WHAT IT DOES"], [[name, kind.summary] for name, kind in KINDS.items()])


@app.command("status")
@click.argument("name", required=False, metavar="[NAME]", help="Name of a pipeline. [default: all that have run]")
@file_option
@folder_option
@format_option
def status(name: str | None, file: Path | None, folder: Path | None, output: Format) -> int:
    """Show the state of runs. Exit code 1 if one failed or died."""
    from raftka.pipeline.run_folder import run_folders
    from raftka.pipeline.status import State

    found = _load(file, folder)
    folders = run_folders(found.dir) if name is None else [_folder(found, name)]
    statuses, unreadable = _loaded(folders)
    for reason in unreadable:
        print(f"raftka: {reason}", file=sys.stderr)
    if output is Format.JSON:
        print_json([_as_json(each) for each in statuses])
    elif not statuses and not unreadable:
        print(f"no pipeline has run in {found.dir}")
    elif statuses:
        header = ["PIPELINE", "KIND", "STATE", "PID", "SINCE", "BATCHES", "RECORDS", "BEHIND"]
        print_table(header, [_row(each) for each in statuses])
        for each in statuses:
            if each.error is not None:
                print(f"{each.name}: {each.error}")
    is_bad = unreadable or any(each.seen() in (State.FAILED, State.DIED) for each in statuses)
    return FAILED if is_bad else DONE


@app.command("stop")
@click.argument("name", metavar="NAME", help="Running pipeline.")
@file_option
@folder_option
@click.option(
    *("--timeout", "seconds"),
    type=BoundedFloat(0, 86_400),
    default=120.0,
    metavar="SECONDS",
    help="Seconds to wait for the end.",
)
def stop(name: str, file: Path | None, folder: Path | None, seconds: float) -> int:
    """Stop a pipeline after its running batch, and wait until it has ended."""
    found = _load(file, folder)
    run = _folder(found, name)
    status = run.load()
    assert status is not None
    if not status.runner.send_signal(signal.SIGTERM):
        raise CommandError(f"pipeline {name} does not run (its last run: {status.seen().value})")
    if not status.runner.wait_gone(seconds):
        raise CommandError(f"pipeline {name} has not ended within {seconds:g} s (pid {status.pid})")
    ended = run.load()
    assert ended is not None
    print(f"{name}: {ended.seen().value} after {ended.batches:,} batches, {ended.rows:,} records")
    return FAILED if ended.error is not None else DONE


def _load(file: Path | None, folder: Path | None) -> "PipelineFile":
    import dataclasses

    from raftka.pipeline.config_file import load_file

    found = load_file(file, os.environ)
    return found if folder is None else dataclasses.replace(found, dir=folder.absolute())


def _folder(found: "PipelineFile", name: str) -> "RunFolder":
    from raftka.pipeline.run_folder import RunFolder
    from raftka.pipeline.settings import check_name

    check_name(name)
    run = RunFolder(found.dir, name)
    if not run.status_path.exists():
        raise CommandError(f"pipeline {name} has never run in {found.dir}")
    return run


def _state(run: "RunFolder") -> str:
    from raftka.pipeline.errors import PipelineError

    try:
        status = run.load()
    except PipelineError:
        return "unreadable"
    return "never run" if status is None else status.seen().value


def _loaded(folders: "list[RunFolder]") -> "tuple[list[Status], list[str]]":
    """Return the statuses of those that have run, and why others cannot be read: one must not hide the rest."""
    from raftka.pipeline.errors import PipelineError

    found, unreadable = [], []
    for folder in folders:
        try:
            status = folder.load()
        except PipelineError as error:
            unreadable.append(str(error))
            continue
        if status is not None:
            found.append(status)
    return found, unreadable


def _row(status: "Status") -> list[Any]:
    behind = "-" if status.last is None else status.last.behind
    return [
        status.name,
        status.kind,
        status.seen().value,
        status.pid,
        status.since,
        status.batches,
        status.rows,
        behind,
    ]


def _as_json(status: "Status") -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(status)
    return found | {"state": status.seen().value}
