"""The raft methods of the links between brokers, by number.

Both ends import these: `links_raft_client` sends, `service` answers.
"""

from raft.messages import (
    AppendEntriesReply,
    AppendEntriesRequest,
    HeartbeatReply,
    HeartbeatRequest,
    InstallSnapshotRequest,
    StepDownAck,
    StepDownNotice,
    TimeoutNowReply,
    TimeoutNowRequest,
    VoteReply,
    VoteRequest,
)
from rpc.methods import Method

VOTE = Method(1, "vote", VoteRequest, VoteReply, urgent=True)
APPEND_ENTRIES = Method(2, "append_entries", AppendEntriesRequest, AppendEntriesReply, takes_payload=True)
HEARTBEAT = Method(3, "heartbeat", HeartbeatRequest, HeartbeatReply, urgent=True)
TIMEOUT_NOW = Method(5, "timeout_now", TimeoutNowRequest, TimeoutNowReply, urgent=True)
# Not urgent: it must not overtake the appends of the leadership that it ends.
STEPPED_DOWN = Method(6, "stepped_down", StepDownNotice, StepDownAck)
INSTALL_SNAPSHOT = Method(4, "install_snapshot", InstallSnapshotRequest, AppendEntriesReply, takes_payload=True)
