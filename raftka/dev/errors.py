"""What can go wrong in `raftka dev`."""


class DevError(Exception):
    """One line for the person at the terminal: what is wrong and what to do."""


class InterruptedStartError(DevError):
    """A signal asked to stop before the cluster was ready."""
