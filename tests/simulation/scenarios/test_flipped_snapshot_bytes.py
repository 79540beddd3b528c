"""RFC 0008 section 5, counterexample 45: a snapshot that does not arrive as it was sent is not installed, and is sent again."""

import pytest

import raft.snapshot_receiver
from model.ids import NodeId
from raft.links_raft_client import LinksRaftClient
from raft.messages import InstallSnapshotRequest
from tests.simulation.scenarios.scenario import QUORUM, Scenario
from tests.simulation.world.world import SimulationError

_SEGMENT_BYTES = 4096


class _FlipsOneBit:
    """What lies between the leader's memory and the follower's: one bit of one chunk is another one when it arrives."""

    def __init__(self, patch: pytest.MonkeyPatch, byte: int) -> None:
        self.flipped = 0
        self._byte = byte
        self._send = LinksRaftClient.install_snapshot
        patch.setattr(LinksRaftClient, "install_snapshot", lambda *sent: self._install_snapshot(*sent))

    def _install_snapshot(
        self, client: LinksRaftClient, node_id: NodeId, request: InstallSnapshotRequest, chunk: bytes
    ) -> object:
        position = self._byte - request.position
        if not self.flipped and 0 <= position < len(chunk):
            self.flipped += 1
            chunk = chunk[:position] + bytes([chunk[position] ^ 1]) + chunk[position + 1 :]
        return self._send(client, node_id, request, chunk)


def _state(story: Scenario, node_id: int) -> bytes:
    return story.world.run(story.machine(node_id), story.replica(node_id)._log_state.take_snapshot()).state


def _a_bit_flips_on_the_way(patch: pytest.MonkeyPatch, byte: int) -> None:
    with Scenario(11, segment_bytes=_SEGMENT_BYTES) as story:
        leader, _, away = story.leader, *story.followers
        story.connect([node_id for node_id in story.world.nodes if node_id != away])
        story.written(leader, QUORUM, 12, size=900)
        partition = story.cluster.partition(leader, story.group)
        story.wait(lambda: partition.high_watermark >= 12)
        deadline = story.machine(leader).loop.time() + 30.0
        story.world.run(story.machine(leader), partition.delete_records(9, deadline))
        assert byte < len(_state(story, leader))
        flips = _FlipsOneBit(patch, byte)
        story.heal()
        story.wait(lambda: story.replica(away).log.start_offset == 9)
        assert flips.flipped == 1
        story.converge()
        assert _state(story, away) == _state(story, leader), "what was installed is not what was sent"
        assert story.probe(away).snapshots_damaged == 1
        assert story.probe(away).snapshots_installed == 1
        assert story.probe(leader).snapshots_sent == 2


@pytest.mark.parametrize("byte", range(0, 16, 3))
def test_a_flipped_bit_in_a_snapshot_is_noticed_before_the_install(monkeypatch, byte: int) -> None:
    _a_bit_flips_on_the_way(monkeypatch, byte)


async def _takes_it_as_it_comes(request: InstallSnapshotRequest, snapshot: object) -> bool:
    return True


def test_a_damaged_snapshot_is_installed_if_the_checksum_is_not_compared(monkeypatch) -> None:
    monkeypatch.setattr(raft.snapshot_receiver, "_is_as_sent", _takes_it_as_it_comes)
    with pytest.raises((AssertionError, SimulationError)):
        _a_bit_flips_on_the_way(monkeypatch, 0)
