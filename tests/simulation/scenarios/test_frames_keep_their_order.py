"""RFC 0003 section 2: two appends of one group to one follower never change order (counterexample 6)."""

from dataclasses import replace

import pytest

import raft.links_raft_client
import raft.replicate_entries_stm
from raft.append_dispatch import send_append
from raft.options import RaftOptions
from tests.simulation.scenarios.scenario import LEADER, Scenario, Write

_OPTIONS = RaftOptions(follower_window=2)
_BATCH = 2_000
_BYTES_PER_SECOND = 300_000.0
_WRITES_PER_SECOND = 100
# Less than a frame: there is something to be overtaken.
_KERNEL_BYTES = 16 * 1024


def _offer(story: Scenario, leader: int, seconds: float) -> list[Write]:
    writes = []
    for _ in range(int(seconds * _WRITES_PER_SECOND)):
        writes.append(story.write(leader, LEADER, size=_BATCH))
        story.run_for(1 / _WRITES_PER_SECOND)
    return writes


def _what_was_left_out_and_rounds_share_a_slow_link() -> None:
    with Scenario(341, raft=_OPTIONS) as story:
        leader, slow = story.leader, story.followers[0]
        story.run_for(0.5)
        story.bound_kernel_buffers(_KERNEL_BYTES)
        story.world.network.link(leader, slow).bandwidth = _BYTES_PER_SECOND
        # It falls behind: what its window leaves out goes in large frames, with rounds behind them.
        burst = [story.write(leader, LEADER, size=40_000) for _ in range(6)]
        begun = story.probe(leader).recoveries_started
        writes = burst + _offer(story, leader, 3.0)
        story.run_for(0.5)
        assert story.probe(leader).recoveries_started == begun, "nothing was refused as a gap"
        assert all(story.holds(slow, write) for write in writes)
        story.world.network.link(leader, slow).bandwidth = None
        story.converge()


def test_a_follower_on_a_slow_link_catches_up_under_load() -> None:
    _what_was_left_out_and_rounds_share_a_slow_link()


def test_a_follower_never_catches_up_if_rounds_pass_what_was_sent_before(monkeypatch) -> None:
    whole = raft.links_raft_client.APPEND_ENTRIES

    def send_urgently(*arguments):
        monkeypatch.setattr(raft.links_raft_client, "APPEND_ENTRIES", replace(whole, urgent=True))
        try:
            return send_append(*arguments)
        finally:
            monkeypatch.setattr(raft.links_raft_client, "APPEND_ENTRIES", whole)

    monkeypatch.setattr(raft.replicate_entries_stm, "send_append", send_urgently)
    with pytest.raises(AssertionError):
        _what_was_left_out_and_rounds_share_a_slow_link()
