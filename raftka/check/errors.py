"""Why a history cannot be judged: exit code 2 of `raftka check`."""


class HistoryError(Exception):
    """A history that proves nothing either way: broken, contradictory, or without what a verdict needs; one line."""
