"""Bugs of leadership transfers (RFC 0003, transfer)."""

import pytest

import raft.leadership_transfer
from raft.leadership_transfer import LeadershipTransfer


def transfers_wait_for_whoever_lags(patch: pytest.MonkeyPatch) -> None:
    """A transfer takes a target however much it lacks, and writes wait for it."""
    patch.setattr(LeadershipTransfer, "_check_near", lambda transfer, follower: None)


def transfers_wait_an_election_timeout(patch: pytest.MonkeyPatch) -> None:
    """The target of a transfer has an election timeout for what it lacks, and writes wait for it."""
    patch.setattr(raft.leadership_transfer, "_CATCH_UP_SECONDS", 1.5)
