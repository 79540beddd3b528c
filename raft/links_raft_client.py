"""`raft.client.RaftClient` on the links between brokers.

It protects the rest of `raft` from `rpc`: which method a request travels by, and how long its answer may take.
"""

import asyncio
from collections.abc import Sequence

from model.ids import NodeId, Replica
from raft.client import Buffer
from raft.link_methods import (
    APPEND_ENTRIES,
    COMPACTION_BOUNDS,
    HEARTBEAT,
    INSTALL_SNAPSHOT,
    RECOVERY_CREDIT,
    STEPPED_DOWN,
    TIMEOUT_NOW,
    VOTE,
)
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
from raft.options import RaftOptions
from rpc.links import Links


class LinksRaftClient:
    """`raft.client.RaftClient` on `rpc.links.Links`.

    It keeps the wire out of the engine: here alone a request gets its method and its deadline, so that the fibers know
    neither, and a test puts a wire of its own in the place of this class.
    """

    def __init__(self, links: Links, options: RaftOptions) -> None:
        self._links = links
        self._options = options

    def is_up(self, node_id: NodeId) -> bool:
        """Whether the link to a node works."""
        return self._links.is_up(node_id)

    def has_room(self, node_id: NodeId, size: int) -> bool:
        """Whether the link to a node takes `size` bytes."""
        return self._links.has_room(node_id, size)

    def replica_of(self, node_id: NodeId) -> Replica | None:
        """Return which data directory answers as that node."""
        return self._links.replica_of(node_id)

    def append_entries(
        self, node_id: NodeId, request: AppendEntriesRequest, entries: Sequence[Buffer]
    ) -> asyncio.Future[AppendEntriesReply]:
        """Send entries."""
        return self._links.send(node_id, APPEND_ENTRIES, request, entries, timeout=self._options.append_timeout)

    def install_snapshot(
        self, node_id: NodeId, request: InstallSnapshotRequest, chunk: Buffer
    ) -> asyncio.Future[AppendEntriesReply]:
        """Send one chunk of a snapshot."""
        return self._links.send(node_id, INSTALL_SNAPSHOT, request, [chunk], timeout=self._options.append_timeout)

    def recovery_credit(self, node_id: NodeId, request: RecoveryCreditRequest) -> asyncio.Future[RecoveryCreditReply]:
        """Ask a follower's node for credit."""
        return self._links.send(node_id, RECOVERY_CREDIT, request, timeout=self._options.append_timeout)

    def compaction_bounds(
        self, node_id: NodeId, request: CompactionBoundsRequest
    ) -> asyncio.Future[CompactionBoundsReply]:
        """Ask how far replicas are clean."""
        return self._links.send(node_id, COMPACTION_BOUNDS, request, timeout=self._options.append_timeout)

    def vote(self, node_id: NodeId, request: VoteRequest) -> asyncio.Future[VoteReply]:
        """Ask for a (pre-)vote."""
        return self._links.send(node_id, VOTE, request, timeout=self._options.vote_timeout)

    def heartbeat(self, node_id: NodeId, request: HeartbeatRequest) -> asyncio.Future[HeartbeatReply]:
        """Send heartbeats."""
        return self._links.send(node_id, HEARTBEAT, request, timeout=self._options.heartbeat_timeout)

    def timeout_now(self, node_id: NodeId, request: TimeoutNowRequest) -> asyncio.Future[TimeoutNowReply]:
        """Ask a follower to stand."""
        return self._links.send(node_id, TIMEOUT_NOW, request, timeout=self._options.vote_timeout)

    def stepped_down(self, node_id: NodeId, notice: StepDownNotice) -> asyncio.Future[StepDownAck]:
        """Say that a leadership is over."""
        return self._links.send(node_id, STEPPED_DOWN, notice, timeout=self._options.vote_timeout)
