"""What a replica needs of the wire; `rpc.links.Links` behind it in the broker and in the simulator alike."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from model.ids import NodeId, Replica
from raft.messages import (
    AppendEntriesReply,
    AppendEntriesRequest,
    CompactionBoundsReply,
    CompactionBoundsRequest,
    HeartbeatReply,
    HeartbeatRequest,
    InstallSnapshotRequest,
    RecoveryCreditReply,
    RecoveryCreditRequest,
    StepDownAck,
    StepDownNotice,
    TimeoutNowReply,
    TimeoutNowRequest,
    VoteReply,
    VoteRequest,
)

Buffer = bytes | bytearray | memoryview


class RaftClient(Protocol):
    """Sends requests to peer nodes. Requests to one node are queued in call order, synchronously.

    The futures end with the reply or with an exception of the rpc package (link down, timed out, busy, remote);
    whatever it is, what the peer did is unknown.
    """

    def is_up(self, node_id: NodeId) -> bool:
        """Whether the link to a node works."""
        ...

    def has_room(self, node_id: NodeId, size: int) -> bool:
        """Whether `size` bytes for a node would be taken now; where they would not, what is unsent already is much."""
        ...

    def replica_of(self, node_id: NodeId) -> Replica | None:
        """Return which data directory answers as that node; None while the link is down."""
        ...

    def append_entries(
        self, node_id: NodeId, request: AppendEntriesRequest, entries: Sequence[Buffer]
    ) -> asyncio.Future[AppendEntriesReply]:
        """Send entries, as headers and payloads in turn."""
        ...

    def install_snapshot(
        self, node_id: NodeId, request: InstallSnapshotRequest, chunk: Buffer
    ) -> asyncio.Future[AppendEntriesReply]:
        """Send one chunk of a snapshot."""
        ...

    def recovery_credit(self, node_id: NodeId, request: RecoveryCreditRequest) -> asyncio.Future[RecoveryCreditReply]:
        """Ask a follower's node whether bytes of a recovery may be sent to it now."""
        ...

    def compaction_bounds(
        self, node_id: NodeId, request: CompactionBoundsRequest
    ) -> asyncio.Future[CompactionBoundsReply]:
        """Ask a node how far its replicas of groups that are led here are clean."""
        ...

    def vote(self, node_id: NodeId, request: VoteRequest) -> asyncio.Future[VoteReply]:
        """Ask for a vote or a pre-vote."""
        ...

    def heartbeat(self, node_id: NodeId, request: HeartbeatRequest) -> asyncio.Future[HeartbeatReply]:
        """Send the heartbeats of all groups this node leads and that node follows."""
        ...

    def timeout_now(self, node_id: NodeId, request: TimeoutNowRequest) -> asyncio.Future[TimeoutNowReply]:
        """Ask a follower to stand for election at once."""
        ...

    def stepped_down(self, node_id: NodeId, notice: StepDownNotice) -> asyncio.Future[StepDownAck]:
        """Say that this node leads a group no longer, behind everything that was sent before."""
        ...
