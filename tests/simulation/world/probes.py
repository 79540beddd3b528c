"""What a campaign must have seen: probes that count rare sights, and the list of all that must be seen at least once.

A fault that never happens, and a path that is never taken, prove nothing: a campaign that misses one of `SOMETIMES`
fails, whatever its invariants say.
"""

from collections import defaultdict
from collections.abc import Sequence

from model.ids import RAFT0, ConsistencyLevel, GroupId
from raft.replica_state import Role
from raft.replicate_item import ReplicateResult
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.living_probes import SOMETIMES_LIVING
from tests.simulation.world.nemesis import KINDS, KINDS_OF_LARGE_CLUSTERS
from tests.simulation.world.replica_view import Ghost, ReplicaView, Standing
from tests.simulation.world.transaction_probes import SELDOM_TRANSACTIONAL, SOMETIMES_TRANSACTIONAL

# Sizes of clusters, and of the groups in them.
_VOTERS = [(3, 1), (3, 3), (5, 1), (5, 3), (5, 5), (7, 1), (7, 3), (7, 5), (7, 7)]

SOMETIMES = (
    "registrations",
    "leftovers removed",
    *(f"fault {kind}" for kind in (*KINDS, *KINDS_OF_LARGE_CLUSTERS)),
    # Elections.
    "a split vote",
    "a refused vote",
    "a refused pre-vote",
    "a vote while an fsync is under way",
    "a leader elected with uncommitted entries of others",
    "two leaders of different terms at once",
    "a leader stepped down with entries that it had not fsynced",
    "a leader stepped down within its term",
    "a deposed leader of raft0 that believes to lead",
    *(f"a leader by {voters} of {brokers} brokers" for brokers, voters in _VOTERS),
    "transfers",
    "transfers back",
    "transfer TransferTimedOutError",
    # Replication.
    "a round of several levels",
    "an entry of an older term committed in a later one",
    "truncations",
    "data truncated",
    "a truncation of what nobody could see",
    "visible entries released by a power loss",
    "visible entries replaced",
    "a truncation across a segment roll",
    "a follower handed over by recovery",
    "raft recoveries_started",
    "raft replicate_timeouts",
    "raft producers_held",
    "a leader as far ahead as it may be",
    "raft append_stalls",
    "raft flush_stalls",
    "raft kvstore_stalls",
    "raft append_requests_failed",
    "raft snapshots_sent",
    "snapshots installed",
    "snapshots seen",
    "equal tables",
    "log starts moved",
    "lags measured",
    "bits flipped on a link",
    "damage on a link noticed",
    # Disks.
    "brokers that ended without their directory",
    "disk bytes lost with power",
    "disk writes torn with power",
    "disk names lost with power",
    "disk write failed",
    "disk read failed",
    "disk fsync failed",
    *(f"disk {operation} failed" for operation in ("open", "rename", "unlink", "truncate", "fsync_dir")),
    "disk later names survive earlier ones",
    "disk descriptors refused",
    "disk written on the loop",
    "disk refused on the loop",
    "disk full",
    "starts that the disk refused",
    *(f"bits flipped in {kind}" for kind in ("a segment", "an index file", "a snapshot")),
    "damage found below the mark",
    "a damaged log filled again",
    # Clients.
    *(f"acked {level.name}" for level in ConsistencyLevel),
    "an answer before the fsync at acks=all",
    "leader_ack lost",
    "allowed lost-write",
    "allowed unseen",
    "client send fail",
    "client send info",
    "client poll info",
    "client latest ok",
    "client latest fail",
    "client produce NOT_LEADER_OR_FOLLOWER",
    "client produce KAFKA_STORAGE_ERROR",
    "client produce REQUEST_TIMED_OUT",
    "client fetch NOT_LEADER_OR_FOLLOWER",
    "client fetch FENCED_LEADER_EPOCH",
    "client fetch OFFSET_OUT_OF_RANGE",
    "client high watermark of a newer leader",
    "client older leader refused",
    "client retry answered",
    "client retry answered by another leader",
    "client create topic NONE",
    "client create topic TOPIC_ALREADY_EXISTS",
    "client delete topic NONE",
    "client alter topic NONE",
    "client grow topic NONE",
    "client delete topic UNKNOWN_TOPIC_OR_PARTITION",
    "client cas info",
    "client create topic POLICY_VIOLATION",
    # Groups.
    "a table near its bound",
    "offset admin commit NONE",
    "offset admin commit INVALID_COMMIT_OFFSET_SIZE",
    "offset admin delete NONE",
    "group join NONE",
    "group sync NONE",
    "group sync REBALANCE_IN_PROGRESS",
    "group sync NOT_COORDINATOR",
    "group commit NONE",
    "group commit UNKNOWN_MEMBER_ID",
    "group commit NOT_COORDINATOR",
    "group fetch NONE",
    "group heartbeat NONE",
    "group heartbeat REBALANCE_IN_PROGRESS",
    "group heartbeat UNKNOWN_MEMBER_ID",
    "group heartbeat NOT_COORDINATOR",
    "group leave NONE",
    "group member vanished",
    "group keeper commit NONE",
    "group keeper delete NONE",
    "group keeper delete GROUP_ID_NOT_FOUND",
    "group keeper fetch NONE",
    # What operators are told.
    *(f"event {kind}" for kind in ("node_connected", "node_lost", "node_back", "leader")),
    "partitions counted as under-replicated",
    "partitions counted as offline",
    "group lags reported",
    "group lags above 0",
    "group lags with unknown ends",
    "group lags of another coordinator",
    *SOMETIMES_LIVING,
    *SOMETIMES_TRANSACTIONAL,
    *SELDOM_TRANSACTIONAL,
)


class Probes(Invariant):
    """Objects to nothing, and counts."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._candidates: dict[tuple[GroupId, int], set[int]] = defaultdict(set)
        self._leaders: dict[GroupId, dict[int, ReplicaView]] = defaultdict(dict)
        self._elected: set[tuple[GroupId, int]] = set()
        self._segments: dict[tuple[int, GroupId], int] = {}
        self._refilling: set[tuple[int, GroupId]] = set()
        self._recovering: set[tuple[GroupId, int]] = set()

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._leaders[view.group].pop(view.node_id, None)
        self._watch_rounds(view)
        self._watch_votes(view)

    def _count(self, name: str) -> None:
        self.history.counts[name] += 1

    def _watch_rounds(self, view: ReplicaView) -> None:
        batcher = view.consensus._batcher
        run_round = batcher._run_round

        async def watched(items):
            if len({item.level for item in items if item.is_data}) > 1:
                self._count("a round of several levels")
            await run_round(items)

        batcher._run_round = watched

    def _watch_votes(self, view: ReplicaView) -> None:
        voter = view.consensus.voter
        answer = voter.answer

        async def watched(candidate, request):
            reply = await answer(candidate, request)
            if not reply.granted:
                self._count("a refused pre-vote" if request.pre else "a refused vote")
            return reply

        voter.answer = watched

    def on_vote(self, view: ReplicaView, term: int, candidate: int) -> None:
        if view.now.flushed < view.now.last:
            self._count("a vote while an fsync is under way")

    def on_elected(self, view: ReplicaView) -> None:
        self._elected.add((view.group, view.now.term))
        # All brokers vote in raft0.
        voters, brokers = len(view.configuration.voter_ids), len(frozenset().union(*self.history.voter_sets[RAFT0]))
        self._count(f"a leader by {voters} of {brokers} brokers")
        leaders = self._leaders[view.group]
        if any(other.now.role is Role.LEADER for node_id, other in leaders.items() if node_id != view.node_id):
            self._count("two leaders of different terms at once")
            if view.group == RAFT0:
                self._count("a deposed leader of raft0 that believes to lead")
        leaders[view.node_id] = view
        if any(ghost.term < view.now.term for ghost in view.entries[view.now.commit :]):
            self._count("a leader elected with uncommitted entries of others")

    def on_truncated(self, view: ReplicaView, removed: Sequence[Ghost], before: Standing) -> None:
        visible = self.history.visible_in(view.group)
        if not any(ghost.index in visible for ghost in removed):
            self._count("a truncation of what nobody could see")
        if len(view.consensus.log._segments) < self._segments.get((view.node_id, view.group), 0):
            self._count("a truncation across a segment roll")

    def on_answered(self, view: ReplicaView, level: ConsistencyLevel, content: bytes, result: ReplicateResult) -> None:
        is_cached = view.consensus.state.write_caching and level is ConsistencyLevel.LEADER_ACK
        if is_cached and result.last_index > view.now.commit:
            self._count("an answer before the fsync at acks=all")

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        if new[0].term < view.now.term:
            self._count("an entry of an older term committed in a later one")

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        now, key = view.now, (view.node_id, view.group)
        self._segments[key] = len(view.consensus.log._segments)
        if now.role is Role.CANDIDATE:
            self._candidates[view.group, now.term].add(view.node_id)
        if before.role is Role.LEADER and now.role is not Role.LEADER:
            if before.flushed < before.last:
                self._count("a leader stepped down with entries that it had not fsynced")
            if now.term == before.term:
                self._count("a leader stepped down within its term")
        if view.is_refilling and key not in self._refilling:
            self._refilling.add(key)
            self._count("damage found below the mark")
        elif key in self._refilling and not view.is_refilling:
            self._refilling.discard(key)
            self._count("a damaged log filled again")
        if now.role is Role.LEADER:
            self._watch_recoveries(view)

    def _watch_recoveries(self, view: ReplicaView) -> None:
        for node_id, follower in view.consensus.state.followers.items():
            key = (view.group, node_id)
            if follower.is_recovering:
                self._recovering.add(key)
            elif key in self._recovering:
                self._recovering.discard(key)
                if not follower.needs_recovery:
                    self._count("a follower handed over by recovery")

    def at_end(self) -> None:
        for term, candidates in self._candidates.items():
            if len(candidates) > 1 and term not in self._elected:
                self._count("a split vote")
