"""RFC 0001 section 3: one bit of a reply makes a refused vote a granted one; the frame's checksum notices."""

import re

import pytest

import rpc.framing
import tests.simulation.world.observer
from model.ids import NodeId
from rpc.framing import PREFIX_BYTES
from tests.simulation.scenarios.scenario import QUORUM, Scenario, _steer
from tests.simulation.world.sim_switch import Link

# [REPLY, request id, [term, granted, last index, last term, reason]], as far as `granted`: cbor's false is F4, true F5.
_REFUSAL = re.compile(rb"(\x83\x01.{1,3}\x85.)\xf4", re.DOTALL)


class _FlipsVotes:
    """The link from the voter to the candidate: whatever was refused arrives as granted."""

    def __init__(self, patch: pytest.MonkeyPatch, link: Link) -> None:
        self.flipped = 0
        self._link = link
        patch.setattr(Link, "flipped", lambda link, piece: self._arrives(link, piece))

    def _arrives(self, link: Link, piece: bytes) -> bytes:
        if link is not self._link:
            return piece
        changed, count = _REFUSAL.subn(lambda found: found[1] + b"\xf5", piece)
        self.flipped += count
        return changed


def _a_refused_vote_arrives_as_granted(patch: pytest.MonkeyPatch) -> None:
    with Scenario(503) as story:
        leader, voter, candidate = story.leader, *story.followers
        story.connect([leader, voter])
        write = story.write(leader, QUORUM)
        story.wait(lambda: write.is_answered)
        assert write.result is not None
        story.kill(leader)
        flips = _FlipsVotes(patch, story.world.network.link(voter, candidate))
        story.connect([voter, candidate])
        story.candidates = {candidate}
        story.run_for(0.5)
        for _ in range(8):
            story.machine(candidate).spawn(_steer(story.replica(candidate), stands=True))
            story.machine(voter).spawn(_steer(story.replica(voter), stands=False))
            story.run_for(1.0)
            assert not story._leads(candidate), "it leads, and lacks what was acknowledged"
        assert flips.flipped > 0
        assert story.cluster.nodes[candidate].links.damaged[NodeId(voter)] > 0
        patch.undo()
        story.converge()


def test_a_refused_vote_that_arrives_as_granted_elects_nobody(monkeypatch) -> None:
    _a_refused_vote_arrives_as_granted(monkeypatch)


def test_a_refused_vote_elects_a_leader_if_headers_are_not_compared_with_their_checksums(monkeypatch) -> None:
    monkeypatch.setattr(rpc.framing, "_sound_header", lambda data: data[PREFIX_BYTES:])
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="lacks what was acknowledged"):
        _a_refused_vote_arrives_as_granted(monkeypatch)
