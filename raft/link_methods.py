"""The raft methods of the links between brokers, by number.

Both ends import these: `links_raft_client` sends, `service` answers.
"""

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
from rpc.methods import Method

VOTE = Method(1, "vote", VoteRequest, VoteReply, urgent=True)
APPEND_ENTRIES = Method(2, "append_entries", AppendEntriesRequest, AppendEntriesReply, takes_payload=True)
HEARTBEAT = Method(3, "heartbeat", HeartbeatRequest, HeartbeatReply, urgent=True)
TIMEOUT_NOW = Method(5, "timeout_now", TimeoutNowRequest, TimeoutNowReply, urgent=True)
# Not urgent: it must not overtake the appends of the leadership that it ends.
STEPPED_DOWN = Method(6, "stepped_down", StepDownNotice, StepDownAck)
# Urgent: the bulk that it is asked for must not hold it up. An older broker does not know it, so a leader asks only for
# replicas that a topic's configuration names, which needs a feature.
RECOVERY_CREDIT = Method(8, "recovery_credit", RecoveryCreditRequest, RecoveryCreditReply, urgent=True)
# A broker asks only once the feature of log compaction is in force: an older one does not know it.
COMPACTION_BOUNDS = Method(50, "compaction_bounds", CompactionBoundsRequest, CompactionBoundsReply)
INSTALL_SNAPSHOT = Method(4, "install_snapshot", InstallSnapshotRequest, AppendEntriesReply, takes_payload=True)
