"""`raftka check`: the verdict on histories of any Kafka-compatible cluster."""

import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from io import UnsupportedOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from raftka.cli.exit_codes import DONE, FAILED, UNJUDGED, UnjudgedError
from raftka.cli.lazy_group import Command
from raftka.cli.options import Format
from raftka.cli.param_types import PATH, EnumChoice
from raftka.cli.progress_bar import ProgressBar, underway
from raftka.error_text import reason_of, short_reason_of

if TYPE_CHECKING:
    from raftka.check.verdict import Verdict


class Model(StrEnum):
    """What the history is one of."""

    LOG = "log"
    REGISTER = "register"
    CAS = "cas"
    APPEND = "append"


class LevelName(StrEnum):
    """What acks=all promises on the topics of the history."""

    QUORUM_ACK = "quorum_ack"
    WRITE_CACHING = "write_caching"
    LEADER_ACK = "leader_ack"
    NO_ACK = "no_ack"


_JUDGING = "all is read, judging"

model_option = click.option(
    "--model", type=EnumChoice(Model), default=Model.LOG.value, help="Model of the system that the histories record."
)
level_option = click.option(
    "--level",
    type=EnumChoice(LevelName),
    default=LevelName.QUORUM_ACK.value,
    help="Guarantee of acks=all in the history; other records are checked by their acks.",
)
output_option = click.option(
    *("--format", "-f", "output"), type=EnumChoice(Format), default=Format.TEXT.value, help="Output format."
)
explain_option = click.option("--explain", is_flag=True, help="Explain each anomaly.")


@click.command("check", cls=Command)
@click.argument(
    "files", nargs=-1, required=True, type=PATH, metavar="FILE...", help="History files, read as one history."
)
@model_option
@level_option
@output_option
@explain_option
def check(files: tuple[Path, ...], model: Model, level: LevelName, output: Format, explain: bool) -> int:
    """Check histories (docs/history-format.md). Exit code: 0 valid, 1 anomalies, 2 cannot be judged."""
    return tell(lambda: _judged(files, model, level), model, output, explained=explain)


def tell(judge: Callable[[], "Verdict"], model: Model, output: Format, *, explained: bool) -> int:
    """Print a verdict and return its exit code; why there is none goes to stderr."""
    try:
        from raftka.check.errors import HistoryError
        from raftka.check.printable import printable
        from raftka.check.render import render
    except ImportError as error:
        raise UnjudgedError(f"{error}; this needs numpy: pip install 'raftka[check]'") from None
    try:
        verdict = judge()
    except (HistoryError, OSError) as error:
        reason = _why(error)
        # It may quote the history, which is anybody's.
        reason = printable(str(reason))
        print(f"raftka: cannot be judged: {reason}", file=sys.stderr)
        if output is Format.JSON:
            _print_json({"valid": None, "model": model.value, "unjudged": [reason]})
        return UNJUDGED
    if output is Format.JSON:
        _print_json({"valid": verdict.is_valid} | msgspec.to_builtins(verdict))
    else:
        for line in render(verdict, explained=explained):
            print(line)
    return DONE if verdict.is_valid else FAILED


def _why(error: Exception) -> str:
    if isinstance(error, UnsupportedOperation):
        return "a history must be a seekable file, and this is a pipe"
    is_named = isinstance(error, OSError) and error.filename is not None
    return f"{error.filename}: {short_reason_of(error)}" if is_named else reason_of(error)  # type: ignore[attr-defined]


def _print_json(document: dict[str, Any]) -> None:
    print(msgspec.json.format(msgspec.json.encode(document)).decode())


def _judged(files: Sequence[Path], model: Model, level: LevelName) -> "Verdict":
    done = 0

    def note(count: int) -> None:
        nonlocal done
        done += count
        bar.show(done)

    if model is Model.LOG:
        from raftka.check.levels import Level
        from raftka.check.log.builder import read_log_history
        from raftka.check.log.model import check_log

        with ProgressBar("bytes", _total_bytes(files)) as bar:
            log = read_log_history(files, note)
        with underway(_JUDGING):
            return check_log(log, Level[level.name])
    if model is Model.APPEND:
        from raftka.check.lists.history import read_list_history
        from raftka.check.lists.model import check_lists

        with ProgressBar("bytes", _total_bytes(files)) as bar:
            lists = read_list_history(files, note)
        with underway(_JUDGING):
            return check_lists(lists)
    from raftka.check.register_history import read_register_history
    from raftka.check.register_model import check_register

    with ProgressBar("bytes", _total_bytes(files)) as bar:
        registers = read_register_history(files, note, has_cas=model is Model.CAS)
    with underway(_JUDGING):
        return check_register(registers, model.value)


def _total_bytes(files: Sequence[Path]) -> int | None:
    """Return how much there is to read; None where a file does not tell, which reading will say, too."""
    try:
        return sum(path.stat().st_size for path in files)
    except OSError:
        return None
