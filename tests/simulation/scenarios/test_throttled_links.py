"""RFC 0003 section 2: megabytes on a slow link do not hold heartbeats up (counterexample 14, simulated)."""

import sys

import pytest

from raft.options import RaftOptions
from rpc.writer import FrameWriter
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario

_OPTIONS = RaftOptions(unreplicated_bytes=4 << 20)
_BYTES_PER_SECOND = 100 * 1024
_BATCH = 100_000
_SECONDS = 12.0
# What TCP_NOTSENT_LOWAT leaves of a socket's buffer.
_KERNEL_BYTES = 32 * 1024


def _links_to_both_followers_are_throttled() -> None:
    with Scenario(401, raft=_OPTIONS) as story:
        leader, term = story.leader, story.replica(story.leader).term
        story.run_for(0.5)
        story.candidates = None
        story.bound_kernel_buffers(_KERNEL_BYTES)
        for follower in story.followers:
            story.world.network.link(leader, follower).bandwidth = _BYTES_PER_SECOND
        for number in range(int(_SECONDS)):
            for _ in range(4):
                story.write(leader, LEADER if number % 2 else QUORUM, size=_BATCH)
            story.run_for(1.0)
            assert story.cluster.leader_of(story.group) == leader, "heartbeats do not pass"
            assert all(story.replica(node_id).term == term for node_id in story.world.nodes)
        assert story.replica(leader).state.unreplicated.total > 10 * _BATCH, "much was waiting for the links"
        for follower in story.followers:
            story.world.network.link(leader, follower).bandwidth = None
        story.converge(60.0)


def test_full_windows_on_slow_links_cause_no_election() -> None:
    _links_to_both_followers_are_throttled()


def _the_kernel_takes_megabytes(patch: pytest.MonkeyPatch) -> None:
    """Nothing bounds the socket's buffer."""
    patch.setattr(sys.modules[__name__], "_KERNEL_BYTES", 4 << 20)


def _hands_over_everything(patch: pytest.MonkeyPatch) -> None:
    """Urgent frames go first as far as the socket, which takes whatever there is."""
    patch.setattr(FrameWriter, "pause", lambda writer: None)


def _sends_frames_whole(patch: pytest.MonkeyPatch) -> None:
    """A frame is not cut into chunks."""
    patch.setattr(FrameWriter, "_chunk_bytes", lambda writer: 1 << 30)


@pytest.mark.parametrize("mutant", [_the_kernel_takes_megabytes, _hands_over_everything, _sends_frames_whole])
def test_full_windows_cause_elections_if_priorities_end_at_the_socket(monkeypatch, mutant) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        _links_to_both_followers_are_throttled()
