"""Bugs of what watches a disk that hangs (RFC 0003 section 7)."""

import pytest

from raft.leader_watch import LeaderWatch


def only_fsyncs_are_watched(patch: pytest.MonkeyPatch) -> None:
    """A leader leaves office where its fsync hangs, and where nothing else of its writes does."""
    patch.setattr(LeaderWatch, "_stalls", lambda watch: [each for each in (watch._flush_stall(),) if each is not None])
