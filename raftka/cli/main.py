"""The entry point of `raftka`. Importing the commands takes a while, in which Ctrl-C must not show a traceback."""

import os
import signal
import sys

from raftka.cli.exit_codes import INTERRUPTED


def main() -> None:
    """Run the command of this process's arguments and exit."""
    # Somebody who starts us with Ctrl-C ignored, as nohup and `&` in a script do, means it.
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from raftka.cli.root import run

    code = INTERRUPTED
    try:
        if is_heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # The interpreter would flush once more at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
