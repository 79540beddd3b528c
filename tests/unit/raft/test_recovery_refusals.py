"""A recovery that storage refuses begins again with each answer of the follower, and is logged once a minute."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from model.ids import Index, NodeId
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.recovery_stm import RecoveryStm
from storage.errors import OpenFilesError


def test_a_refused_recovery_is_logged_at_most_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    context: Any = SimpleNamespace(
        state=SimpleNamespace(term=1),
        log=SimpleNamespace(dirty_index=Index(9), compacted_index=Index(0)),
        probe=SimpleNamespace(recoveries_started=0),
        logger=logging.getLogger("raft"),
        now=lambda: now[0],
    )
    follower = FollowerIndexMetadata(NodeId(2), Index(5), needs_recovery=True)
    texts = iter(f"no descriptor for segment {number}" for number in range(100))

    async def fill(stm: RecoveryStm) -> None:
        raise OpenFilesError(next(texts))

    monkeypatch.setattr(RecoveryStm, "_goes_on", lambda stm: True)
    monkeypatch.setattr(RecoveryStm, "_fill", fill)

    def refuse() -> int:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            asyncio.run(RecoveryStm(context, follower).run())
        assert not follower.is_recovering
        return len(caplog.records)

    assert refuse() == 1
    assert refuse() == 0
    now[0] += 59.0
    assert refuse() == 0
    now[0] += 1.0
    assert refuse() == 1
    assert context.probe.recoveries_started == 4
