"""Bodies of the node-to-node requests of a group (RFC 0003 section 3). Entries travel as raw payload.

Field order is the wire format (cbor arrays); it changes only together with the link's format version. `group` is the
group's name on links (`raft/link_names.py`).
"""

from enum import IntEnum
from typing import Annotated

import msgspec

from storage.log_start import LogStart

# Terms and indexes count up from 0 by one at a time: a larger number is no peer's, and no log entry could hold what
# follows it. What is out of range is refused with the body that it came in.
NUMBER_MAX = 2**62
_Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]


class AppendStatus(IntEnum):
    """What became of an append or a heartbeat."""

    SUCCESS = 0
    STALE_TERM = 1  # the sender's term is over; `term` is the newer one
    GAP = 2  # prev_index is past the end of the log
    TERM_MISMATCH = 3  # another entry stands at prev_index
    BUSY = 4  # the buffer is full or an append is in flight: nothing was decided
    FAILED = 5  # the replica could not write; it may hold nothing of the request
    UNKNOWN_GROUP = 6  # no replica of that group here
    ALIVE = 7  # a light heartbeat was heard: says nothing about the log
    DAMAGED = 8  # a snapshot did not arrive as it was sent: nothing of it is used


class AppendEntriesRequest(msgspec.Struct, frozen=True, array_like=True):
    """Raft paper figure 2, AppendEntries; the entries are the frame's payload.

    Attributes:
        prev_index, prev_term: The entry just before the payload's first.
        commit, visible: The leader's; the follower moves only as far as it has matched this term's leader.
        flush: Answer only once the entries are durable here.
    """

    group: str
    term: _Number
    prev_index: _Number
    prev_term: _Number
    commit: _Number
    visible: _Number
    flush: bool


class AppendEntriesReply(msgspec.Struct, frozen=True, array_like=True):
    """What the follower's log is like now.

    Attributes:
        term: The replier's current term.
        match: SUCCESS: last index known equal to the leader's. GAP, TERM_MISMATCH: where the leader may try next
            (the entry before the term that conflicts, or the log's end).
        dirty, flushed: Last index written / fsynced here that is also known equal to the log of the leader of
            `term`: a foreign tail is never reported.
    """

    term: _Number
    status: AppendStatus
    match: _Number
    dirty: _Number
    flushed: _Number


class InstallSnapshotRequest(msgspec.Struct, frozen=True, array_like=True):
    """For a follower below the leader's log start (RFC 0008); the frame's payload is one chunk of the state.

    With a configuration, the chunk travels behind a checksum of its own (`raft/snapshot_chunks.py`).

    Attributes:
        start: Where the leader's log starts.
        applied_index, applied_term: The committed entry that the state includes last, at least the one before `start`.
        position: Where the chunk begins; a transfer begins at 0, and each chunk is answered before the next is sent.
        size: Bytes of the whole state.
        checksum: That of the snapshot's file (storage/snapshot_file.py); the receiver compares before it installs.
        configuration: That of the snapshot; versions that know no other than the first one leave it out.
        compacted_index: Entries up to here may lack records when the leader sends them: the receiver needs this state,
            or one of its own that includes them (RFC 0022, section 7). 0: none does.

    The reply is that of an append: ALIVE for more chunks, SUCCESS with `match` just before `start` at the end, DAMAGED
    where a checksum is another one.
    """

    group: str
    term: _Number
    start: LogStart
    applied_index: _Number
    applied_term: _Number
    position: int
    size: int
    checksum: int
    configuration: bytes = b""
    compacted_index: _Number = 0


class CompactionBound(msgspec.Struct, frozen=True, array_like=True):
    """What a leader says of one group: up to `deletes_to` tombstones and markers may go (RFC 0022, section 4)."""

    group: str
    term: _Number
    deletes_to: _Number


class CompactionBoundsRequest(msgspec.Struct, frozen=True, array_like=True):
    """Of all compacted groups that the sender leads and the receiver follows."""

    bounds: list[CompactionBound]


class CompactionBoundsReply(msgspec.Struct, frozen=True, array_like=True):
    """In the same order, up to where each log is clean; None: there is no replica that follows the sender."""

    clean: list[_Number | None]


class Heartbeat(msgspec.Struct, frozen=True, array_like=True):
    """One group's part of a heartbeat. `prev_index` -1: light, it carries term, commit and visible only."""

    group: str
    term: _Number
    commit: _Number
    visible: _Number
    prev_index: Annotated[int, msgspec.Meta(ge=-1, le=NUMBER_MAX)]
    prev_term: _Number


class HeartbeatRequest(msgspec.Struct, frozen=True, array_like=True):
    """All groups that the sender leads and the receiver follows."""

    beats: list[Heartbeat]


class HeartbeatReply(msgspec.Struct, frozen=True, array_like=True):
    """One reply per beat, in the same order, and what the node says of itself.

    Attributes:
        spare_bytes: Free bytes of the node's disk above its reserve; negative below it.
    """

    replies: list[AppendEntriesReply]
    spare_bytes: int


class VoteRequest(msgspec.Struct, frozen=True, array_like=True):
    """Raft paper figure 2, RequestVote; with `pre` the question of thesis section 9.6, which changes nothing.

    Attributes:
        transfer: The leader has asked the candidate to stand: voters that hear it vote all the same.
    """

    group: str
    term: _Number
    last_index: _Number
    last_term: _Number
    pre: bool
    transfer: bool = False


class VoteReply(msgspec.Struct, frozen=True, array_like=True):
    """The voter's answer and its own log end, so that a candidate can prefer a longer log."""

    term: _Number
    granted: bool
    last_index: _Number
    last_term: _Number
    reason: str


class TimeoutNowRequest(msgspec.Struct, frozen=True, array_like=True):
    """Thesis section 3.10: the leader of `term` asks the receiver, which holds its log up to `last_index`, to stand."""

    group: str
    term: _Number
    last_index: _Number


class TimeoutNowReply(msgspec.Struct, frozen=True, array_like=True):
    """Whether the receiver stands, and if not, why."""

    term: _Number
    accepted: bool
    reason: str


class StepDownNotice(msgspec.Struct, frozen=True, array_like=True):
    """The sender has given up the leadership of `term`: nobody need wait until its silence is long enough."""

    group: str
    term: _Number


class RecoveryCreditRequest(msgspec.Struct, frozen=True, array_like=True):
    """A leader wants to send so many bytes of entries or of a snapshot to a follower that lags (RFC 0004, throttle)."""

    group: str
    size: _Number


class RecoveryCreditReply(msgspec.Struct, frozen=True, array_like=True):
    """What the follower's node lets pass.

    Attributes:
        is_granted: The bytes count from now on, and may be sent after the wait. If not, ask again after it.
        wait_us: Microseconds, at most a second.
        rate: Bytes per second that the node lets pass; -1: there is no bound.
    """

    is_granted: bool
    wait_us: _Number
    rate: Annotated[int, msgspec.Meta(ge=-1)]


class StepDownAck(msgspec.Struct, frozen=True, array_like=True):
    """Taken."""
