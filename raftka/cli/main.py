"""The entry point of `raftka`. Importing the commands takes a while, in which Ctrl-C must not show a traceback."""

import os
import sys

from raftka.cli.exit_codes import INTERRUPTED
from raftka.cli.interrupts import quiet_ctrl_c


def main() -> None:
    """Run the command of this process's arguments and exit."""
    code = INTERRUPTED
    try:
        with quiet_ctrl_c():
            from raftka.cli.root import run
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # The interpreter would flush once more at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
