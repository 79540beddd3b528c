"""Exit codes of `raftka`, and the errors that stand for them. 2 belongs to `raftka check`."""

DONE = 0
FAILED = 1
USAGE = 64


class CommandError(Exception):
    """A command that did not work: one line for stderr; exit code 1."""
