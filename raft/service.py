"""The RPC side of this node's groups: takes the requests of peers. `links_raft_client` is the way out."""

import asyncio
from collections.abc import Sequence

from model.ids import Index, Term
from raft.compaction_bounds import answer
from raft.configuration_entry import decode_configuration
from raft.consensus import Consensus
from raft.group_manager import GroupManager
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
    AppendStatus,
    CompactionBoundsReply,
    CompactionBoundsRequest,
    Heartbeat,
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
from raft.snapshot_chunks import chunk_size
from rpc.errors import MalformedBodyError
from rpc.identity import Peer
from rpc.links import Links
from storage.entry import Entry, parse_entries
from storage.errors import CorruptEntryError, UnknownFormatError
from storage.snapshot_file import STATE_BYTES_MAX, Snapshot


class RaftService:
    """Answers the peers' requests for this node's groups."""

    def __init__(self, links: Links, groups: GroupManager) -> None:
        self._groups = groups
        links.register_async(VOTE, self._vote)
        links.register(APPEND_ENTRIES, self._append_entries)
        links.register(HEARTBEAT, self._heartbeat)
        links.register(TIMEOUT_NOW, self._timeout_now)
        links.register(STEPPED_DOWN, self._stepped_down)
        links.register(INSTALL_SNAPSHOT, self._install_snapshot)
        links.register(RECOVERY_CREDIT, self._recovery_credit)
        links.register(COMPACTION_BOUNDS, self._compaction_bounds)
        links.add_reset_listener(groups.on_link_reset)

    async def _vote(self, peer: Peer, request: VoteRequest, _: memoryview) -> VoteReply:
        consensus = self._group_of(peer, request.group)
        if consensus is None:
            return VoteReply(0, granted=False, last_index=0, last_term=0, reason="no such replica here")
        return await consensus.voter.answer(peer.replica.node_id, request)

    def _append_entries(
        self, peer: Peer, request: AppendEntriesRequest, payload: memoryview
    ) -> AppendEntriesReply | asyncio.Future[AppendEntriesReply]:
        consensus = self._group_of(peer, request.group)
        if consensus is None:
            return _unknown_group()
        return consensus.on_append_entries(peer.replica.node_id, request, parse_run(request, payload))

    def _install_snapshot(
        self, peer: Peer, request: InstallSnapshotRequest, payload: memoryview
    ) -> AppendEntriesReply | asyncio.Future[AppendEntriesReply]:
        consensus = self._group_of(peer, request.group)
        if consensus is None:
            return _unknown_group()
        check_snapshot_chunk(request, payload)
        return consensus.on_install_snapshot(peer.replica.node_id, request, bytes(payload))

    def _recovery_credit(self, _: Peer, request: RecoveryCreditRequest, __: memoryview) -> RecoveryCreditReply:
        return self._groups.limits.throttle.give_credit(request.size, asyncio.get_running_loop().time())

    def _compaction_bounds(self, peer: Peer, request: CompactionBoundsRequest, _: memoryview) -> CompactionBoundsReply:
        leader = peer.replica.node_id
        return CompactionBoundsReply(
            [answer(self._group_of(peer, bound.group), leader, bound) for bound in request.bounds]
        )

    def _heartbeat(self, peer: Peer, request: HeartbeatRequest, _: memoryview) -> HeartbeatReply:
        return HeartbeatReply([self._beat(peer, beat) for beat in request.beats], self._groups.limits.disk.spare_bytes)

    def _beat(self, peer: Peer, beat: Heartbeat) -> AppendEntriesReply:
        consensus = self._group_of(peer, beat.group)
        return _unknown_group() if consensus is None else consensus.on_heartbeat(peer.replica.node_id, beat)

    def _timeout_now(self, peer: Peer, request: TimeoutNowRequest, _: memoryview) -> TimeoutNowReply:
        consensus = self._group_of(peer, request.group)
        if consensus is None:
            return TimeoutNowReply(0, accepted=False, reason="has no such replica")
        return consensus.voter.on_timeout_now(peer.replica.node_id, request)

    def _stepped_down(self, peer: Peer, notice: StepDownNotice, _: memoryview) -> StepDownAck:
        consensus = self._group_of(peer, notice.group)
        if consensus is not None:
            consensus.voter.on_leader_stepped_down(peer.replica.node_id, notice)
        return StepDownAck()

    def _group_of(self, peer: Peer, group: str) -> Consensus | None:
        """Return the replica asked for, unless it knows the peer's node by another directory (counterexample 4).

        A peer that is no member here may be one by entries that this replica lacks yet (thesis 4.1): it is judged. So
        is one whose link has told its epoch: the links compare directories by what raft0 knows (RFC 0020), and what
        this replica knows may be older. It may even be empty, and know the founders only.
        """
        consensus = self._groups.named(group)
        if consensus is None:
            return None
        known = consensus.state.configuration.replica_on(peer.replica.node_id)
        is_judged = known is None or known == peer.replica or peer.epoch is not None
        return consensus if is_judged else None


def parse_run(request: AppendEntriesRequest, payload: memoryview) -> Sequence[Entry]:
    """Return the entries of an append: checksums right, indexes dense after `prev_index`, terms and offsets in order.

    Raises:
        MalformedBodyError: They are not; nothing of the request is used.
    """
    entries: list[Entry] = []
    index, term = request.prev_index, request.prev_term
    try:
        for parsed in parse_entries(payload):
            entry = parsed.entry
            if entry.index != index + 1 or not term <= entry.term <= request.term:
                raise MalformedBodyError(f"entry {entry.index}@{entry.term} cannot follow {index}@{term}")
            if entries and entry.base_offset != (end := entries[-1].end_offset):
                raise MalformedBodyError(f"entry {entry.index} is at {entry.base_offset}, the one before ends at {end}")
            index, term = entry.last_index, entry.term
            entries.append(entry)
    except CorruptEntryError as error:
        raise MalformedBodyError(f"append_entries of {request.group}: {error}") from error
    return entries


def check_snapshot_chunk(request: InstallSnapshotRequest, payload: memoryview) -> None:
    """Check the bounds of what a peer sends.

    Raises:
        MalformedBodyError: They do not fit together; nothing of the request is used.
    """
    snapshot = Snapshot(
        *(request.start, Index(request.applied_index), Term(request.applied_term), b"", request.configuration)
    )
    flaw = snapshot.flaw() or _configuration_flaw(request.configuration)
    size = chunk_size(request, payload)
    end = request.position + size
    if request.position < 0 or not request.position <= end <= request.size <= STATE_BYTES_MAX:
        flaw = f"bytes [{request.position}, {end}) of {request.size}"
    elif request.size > 0 and size == 0:
        flaw = "an empty chunk"
    elif not 0 <= request.checksum < 1 << 32:
        flaw = f"{request.checksum} is no checksum"
    elif request.compacted_index > request.applied_index:
        flaw = f"entries are compacted up to {request.compacted_index}, the state is as of {request.applied_index}"
    elif request.applied_term > request.term:
        flaw = f"state of term {request.applied_term} from a leader of term {request.term}"
    if flaw is not None:
        raise MalformedBodyError(f"install_snapshot of {request.group}: {flaw}")


def _configuration_flaw(payload: bytes) -> str | None:
    try:
        if payload:
            decode_configuration(payload)
    except (CorruptEntryError, UnknownFormatError) as error:
        return str(error)
    return None


def _unknown_group() -> AppendEntriesReply:
    return AppendEntriesReply(0, AppendStatus.UNKNOWN_GROUP, 0, 0, 0)
