"""The entry point of `raftka`. Importing the commands takes a while, in which Ctrl-C must not show a traceback."""

import os
import sys

from raftka.cli.exit_codes import FAILED, INTERRUPTED
from raftka.cli.interrupts import quiet_ctrl_c
from raftka.error_text import short_reason_of


def main() -> None:
    """Run the command of this process's arguments and exit."""
    _fill_closed_streams()
    if sys.stdout is None:
        print("raftka: cannot write to stdout: it is closed", file=sys.stderr)
        sys.exit(FAILED)
    code = INTERRUPTED
    try:
        with quiet_ctrl_c():
            from raftka.cli.root import run
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        _forget_output()
    except OSError as error:
        # A command whose own writing has failed has said so.
        if not code:
            print(f"raftka: cannot write to stdout: {short_reason_of(error)}", file=sys.stderr)
        code = FAILED
        _forget_output()
    sys.exit(code)


def _fill_closed_streams() -> None:
    """Let no file or connection have the number of a standard stream that is closed: what is said would go there.

    stdin and stdout stay None for whoever asks; stderr is one that nobody reads, for `print` takes None for stdout.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free.
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")


def _forget_output() -> None:
    # The interpreter would flush once more at exit, and complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
