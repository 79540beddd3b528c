"""One replica's public face: replicate, positions, roles; and the receiving side of its peers' requests.

Contains no arithmetic: decisions are in `rules/`, positions in `replica_state`, waiting in the fibers.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from model.ids import ConsistencyLevel, GroupId, Index, NodeId, Replica, Term
from raft.append_dispatch import take_reply
from raft.append_entries_buffer import AppendEntriesBuffer, follower_reply
from raft.client import RaftClient
from raft.deadline_queue import DeadlineQueue
from raft.election_timer import ElectionTimer
from raft.errors import (
    InvariantViolatedError,
    LeadershipLostError,
    RaftError,
    ReplicaFailedError,
    ShuttingDownError,
)
from raft.group_configuration import AgreementPolicy, GroupConfiguration
from raft.log_start_stm import LogStartStm
from raft.messages import (
    AppendEntriesReply,
    AppendEntriesRequest,
    AppendStatus,
    Heartbeat,
    VoteReply,
    VoteRequest,
)
from raft.node_limits import NodeLimits
from raft.options import RaftOptions
from raft.probe import RaftProbe
from raft.recovery_stm import RecoveryStm
from raft.replica_context import ReplicaContext, ReplicaLogger
from raft.replica_flusher import ReplicaFlusher
from raft.replica_state import ReplicaState, Role
from raft.replicate_batcher import ReplicateBatcher
from raft.replicate_item import NewEntry, ReplicateStages
from raft.replication_monitor import ReplicationMonitor
from raft.rules.agreement import point
from raft.rules.election import LogEnd, VoterView, refuse_reason
from raft.rules.recovery import retry_index
from runtime.environment import Environment
from runtime.gate import Gate
from storage.entry import Entry, EntryKind
from storage.errors import CorruptLogError, KvStoreError, StorageError
from storage.kvstore import KvStore
from storage.log import Log

_NO_INDEX = Index(0)
_BARRIER = NewEntry(EntryKind.BARRIER, b"", 0)


class PersistedVote(msgspec.Struct, frozen=True, array_like=True):
    """Term and vote as they lie in the kvstore."""

    term: int
    voted_for: int | None


def vote_key(group: GroupId) -> str:
    """Return the kvstore key of a group's term and vote."""
    return f"raft/{group}/vote"


class Consensus:
    """One replica of one group. Owns its log; `stop` or `remove` ends it."""

    def __init__(
        self,
        group: GroupId,
        env: Environment,
        options: RaftOptions,
        self_replica: Replica,
        configuration: GroupConfiguration,
        policy: AgreementPolicy,
        log: Log,
        kvstore: KvStore,
        client: RaftClient,
        deadlines: DeadlineQueue,
        probe: RaftProbe,
        log_state: LogStartStm,
        limits: NodeLimits,
        *,
        is_internal: bool = False,
    ) -> None:
        self.group = group
        self.log = log
        self.configuration = configuration
        self.state = ReplicaState(self_replica, configuration, policy, log, self._on_moved, self._on_progress)
        self._log_state = log_state
        self._kvstore = kvstore
        self._gate = Gate(f"{group} n{self_replica.node_id}")
        self.logger = ReplicaLogger(group, self.state)
        log.logger = ReplicaLogger(group, self.state, "storage")
        log.on_damage = self._on_damage
        self._context = ReplicaContext(
            group,
            env,
            options,
            self.state,
            log,
            log_state,
            kvstore,
            client,
            probe,
            limits,
            is_internal,
            self._gate,
            self.logger,
            on_failed=self.fail,
            step_down=self.step_down,
            observe_term=self._observe_term,
            start_recovery=self._start_recovery,
        )
        self.monitor = ReplicationMonitor(self.state)
        self._flusher = ReplicaFlusher(self._context, deadlines)
        self._batcher = ReplicateBatcher(self._context, self._flusher, self.monitor)
        self._buffer = AppendEntriesBuffer(self._context, self._flusher)
        self._election = ElectionTimer(self._context, deadlines, self._persist_vote, self._on_elected)
        self._leadership_listeners: list[Callable[[Consensus], None]] = []
        self.failure: StorageError | RaftError | None = None
        # The newest damage that a read has found; only a replica without peers goes on after it.
        self.damage: CorruptLogError | None = None
        self._was_in_office = False

    # -- lifecycle ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take part in the group from what is on disk.

        Raises:
            KvStoreError: The stored vote cannot be read.
        """
        stored = self._kvstore.get(vote_key(self.group))
        vote = PersistedVote(0, None)
        if stored is not None:
            try:
                vote = msgspec.msgpack.decode(stored, type=PersistedVote)
            except msgspec.MsgspecError as error:
                raise KvStoreError(f"{self.group}: the stored vote is damaged: {error}") from error
        voted_for = None if vote.voted_for is None else NodeId(vote.voted_for)
        self.state.restore(Term(vote.term), voted_for)
        is_new = self.log.last_index == 0 and vote.term == 0
        first_voter = self.configuration.voter_sets[0][0].node_id
        is_alone = len(self.configuration.node_ids) == 1
        self._election.start(eager=is_alone or (is_new and first_voter == self.state.node_id))
        self.logger.info(
            "starts with log [%d, %d], flushed %d, voters %s",
            self.log.start_index,
            self.log.last_index,
            self.log.flushed_index,
            list(self.configuration.node_ids),
        )

    async def stop(self) -> None:
        """End all fibers, answer whoever waits, close the log."""
        await self._end_fibers()
        await self.log.close()

    async def remove(self) -> None:
        """Stop, and delete the replica's log. Its vote goes after that (`replica_directories`)."""
        await self._end_fibers()
        await self.log.remove()

    async def _end_fibers(self) -> None:
        self._election.stop()
        error = ShuttingDownError(f"{self.group} is being stopped on node {self.state.node_id}")
        self._batcher.fail_pending(error)
        self._buffer.close()
        await self._gate.close()
        self.state.fail()
        self._batcher.close(error)
        self.monitor.fail_all(error)
        self._notify_leadership()

    # -- what callers know and do -------------------------------------------------------------------------------

    @property
    def is_in_office(self) -> bool:
        """Leader whose barrier is committed: may serve produce, fetch and offsets."""
        return self.state.is_in_office

    @property
    def term(self) -> Term:
        """The current term; the Kafka leader epoch while this replica leads."""
        return self.state.term

    @property
    def leader_id(self) -> NodeId | None:
        """Who leads the current term, as far as known here."""
        return self.state.leader_id

    @property
    def in_sync(self) -> tuple[NodeId, ...]:
        """Leader: the voters that held everything committed within `replica_lag_max`; elsewhere empty."""
        state = self.state
        if not state.is_leader:
            return ()
        oldest = self._context.now() - self._context.options.replica_lag_max
        in_sync = [node for node, follower in state.followers.items() if follower.caught_up_at >= oldest]
        return tuple(sorted([state.node_id, *in_sync]))

    def replicate(
        self,
        entries: Sequence[NewEntry],
        level: ConsistencyLevel,
        *,
        expected_term: Term | None = None,
        deadline: float | None = None,
    ) -> ReplicateStages:
        """Append `entries` as one run and answer at `level` (RFC 0003 section 4).

        Args:
            entries: At least one; data payloads are stamped in place and belong to the engine from now on.
            level: quorum_ack ends when committed, leader_ack and no_ack when the leader has written.
            expected_term: Refuse unless this is the term in which they are appended.
            deadline: Loop time after which `replicated` fails; the entries may be appended all the same.

        Errors through `replicated`:
            RetryableError: Nothing was written. AmbiguousError: it may still commit. FatalError: the replica stopped.
        """
        if self.failure is not None:
            return self._refused(ReplicaFailedError(str(self.failure)))
        if self._gate.is_closed:
            return self._refused(ShuttingDownError(f"{self.group} is being stopped"))
        return self._batcher.replicate(entries, level, expected_term=expected_term, deadline=deadline)

    def apply_policy(self, policy: AgreementPolicy, *, write_caching: bool) -> None:
        """Change how many copies an answer needs and whether they must be fsynced, while the group works.

        Args:
            policy: Commit, votes and barriers do not depend on it: a configuration changes who they count.
            write_caching: acks=all is answered once the copies are written (RFC 0003, levels).
        """
        self.state.set_levels(policy, write_caching=write_caching)

    def add_leadership_listener(self, listener: Callable[["Consensus"], None]) -> None:
        """Call `listener(self)` whenever role, term or office may have changed; it must not block."""
        self._leadership_listeners.append(listener)

    def step_down(self, reason: str) -> None:
        """Give leadership up in the current term; everyone who waits is answered at once."""
        if not self.state.is_leader:
            return
        self.logger.warning("steps down: %s", reason)
        self.state.lose_leader()
        self._end_leadership(reason)

    def fail(self, error: StorageError | RaftError) -> None:
        """Stop this replica for good: what it holds can no longer be trusted. Idempotent."""
        if self.failure is not None:
            return
        self.failure = error
        self.logger.error("stops: %s: %s", type(error).__name__, error)
        self.state.fail()
        self._election.stop()
        stopped = ReplicaFailedError(str(error))
        self._batcher.fail_pending(stopped)
        self.monitor.fail_all(stopped)
        self._notify_leadership()

    def _on_damage(self, error: CorruptLogError) -> None:
        """A read found durable bytes changed: another replica shall serve them, or, without peers, this one the rest.

        With peers it stops also where it only follows: it could not serve what it may be elected for.
        """
        self.damage = error
        if len(self.configuration.node_ids) > 1:
            self.fail(error)

    # -- requests of peers --------------------------------------------------------------------------------------

    def on_append_entries(
        self, leader: NodeId, request: AppendEntriesRequest, entries: Sequence[Entry]
    ) -> AppendEntriesReply | asyncio.Future[AppendEntriesReply]:
        """Take an append of `leader`. `entries` are checked, dense, and follow `request.prev_index`."""
        if not self._accept_leader(leader, Term(request.term)):
            return follower_reply(self._context, AppendStatus.STALE_TERM, _NO_INDEX)
        return self._buffer.submit(leader, request, entries)

    def on_heartbeat(self, leader: NodeId, beat: Heartbeat) -> AppendEntriesReply:
        """Take one group's part of a heartbeat; never waits and never takes op_lock."""
        if not self._accept_leader(leader, Term(beat.term)):
            return follower_reply(self._context, AppendStatus.STALE_TERM, _NO_INDEX)
        status, match = self._judge_heartbeat(beat)
        if status is AppendStatus.SUCCESS:
            self.state.on_matched(match)
        self.state.on_leader_progress(Index(beat.commit), Index(beat.visible))
        return follower_reply(self._context, status, match)

    async def answer_vote(self, candidate: NodeId, request: VoteRequest) -> VoteReply:
        """Take a (pre-)vote request; a granted vote is durable before this returns."""
        state = self.state
        voter = VoterView(
            state.term,
            state.voted_for,
            state.log_end,
            state.is_leader or (self._election.hears_leader and state.leader_id != candidate),
        )
        end = LogEnd(Term(request.last_term), Index(request.last_index))
        reason = refuse_reason(voter, candidate, Term(request.term), end, pre=request.pre)
        if state.role is Role.FAILED:
            reason = "this replica has stopped"
        if reason is not None:
            self._context.probe.votes_refused += 1
            self.logger.debug("refuses node %d in term %d: %s", candidate, request.term, reason)
            return self._vote_reply(granted=False, reason=reason)
        if request.pre:
            return self._vote_reply(granted=True, reason="")
        state.grant_vote(candidate, Term(request.term))
        self._election.rearm()
        is_durable = await self._persist_vote()
        granted = is_durable and state.term == request.term and state.voted_for == candidate
        if granted:
            self._context.probe.votes_granted += 1
            self.logger.info("votes for node %d", candidate)
        return self._vote_reply(granted=granted, reason="" if granted else "overtaken")

    def on_link_reset(self, node_id: NodeId) -> None:
        """A working link to or from `node_id` was lost."""
        self._election.on_link_reset(node_id)

    # -- the leader's side of heartbeats ------------------------------------------------------------------------

    def heartbeat_for(self, node_id: NodeId) -> Heartbeat | None:
        """Return this group's part of the next heartbeat to a node, None if we do not lead it there."""
        follower = self.state.followers.get(node_id)
        if follower is None:
            return None
        state = self.state
        prev_index, prev_term = -1, 0
        # A heartbeat that overtakes appends must neither fail the follower nor start recovery: it is light.
        if follower.in_flight == 0 and not follower.needs_recovery:
            prev_index = follower.expected_log_end_index
            prev_term = self.log.term_at(follower.expected_log_end_index)
        return Heartbeat(self.group, state.term, state.commit_index, state.visible_index, prev_index, prev_term)

    def on_heartbeat_reply(self, node_id: NodeId, term: Term, reply: AppendEntriesReply) -> None:
        """Take the reply to a beat sent in `term`."""
        follower = self.state.followers.get(node_id)
        if follower is not None:
            take_reply(self._context, follower, term, reply)
        else:
            self._observe_term(reply.term)

    def check_quorum(self) -> None:
        """Step down if no majority has answered within one election timeout (thesis 6.2)."""
        state, options = self.state, self._context.options
        if not state.is_leader:
            return
        now_ms = int(self._context.now() * 1000)

        def last_heard_ms(node: NodeId) -> Index:
            follower = state.followers.get(node)
            return Index(now_ms if follower is None else max(0, int(follower.last_reply_at * 1000)))

        if point(state.commit_quorums, last_heard_ms) < now_ms - int(options.election_timeout * 1000):
            self.step_down("no majority has answered for an election timeout")

    # -- transitions --------------------------------------------------------------------------------------------

    def _accept_leader(self, leader: NodeId, term: Term) -> bool:
        state = self.state
        if term < state.term or state.role is Role.FAILED:
            return False
        self._observe_term(term)
        is_new = state.leader_id != leader
        try:
            state.follow(leader)
        except InvariantViolatedError as error:
            self.fail(error)
            return False
        self._election.heard_leader()
        if is_new:
            self.logger.info("follows node %d", leader)
            self._notify_leadership()
        return True

    def _judge_heartbeat(self, beat: Heartbeat) -> tuple[AppendStatus, Index]:
        log = self.log
        if beat.prev_index < 0 or log.pending_index != log.last_index:
            return AppendStatus.ALIVE, _NO_INDEX
        prev_index = Index(beat.prev_index)
        if prev_index > log.last_index:
            return AppendStatus.GAP, log.last_index
        if prev_index >= log.start_index - 1 and log.term_at(prev_index) != beat.prev_term:
            return AppendStatus.TERM_MISMATCH, retry_index(log.term_at, log.start_index, prev_index)
        return AppendStatus.SUCCESS, prev_index

    def _observe_term(self, term: int) -> None:
        state = self.state
        if term <= state.term or state.role is Role.FAILED:
            return
        was_leader = state.is_leader
        state.adopt_term(Term(term))
        self.logger.info("steps down: a newer term was seen" if was_leader else "a newer term was seen")
        if was_leader:
            self._end_leadership(f"term {term} has begun")
        else:
            self._notify_leadership()

    def _on_elected(self) -> None:
        for follower in self.state.followers.values():
            follower.last_reply_at = self._context.now()
        # The first entry of the term: once it is committed, everything before it is, and we are in office.
        self._batcher.replicate([_BARRIER], ConsistencyLevel.QUORUM_ACK, expected_term=self.state.term)
        self._notify_leadership()

    def _end_leadership(self, reason: str) -> None:
        self._context.probe.step_downs += 1
        error = LeadershipLostError(reason)
        self._batcher.fail_pending(error)
        self.monitor.fail_all(error)
        self._election.on_stepped_down()
        self._notify_leadership()

    def _start_recovery(self, node_id: NodeId) -> None:
        follower = self.state.followers[node_id]
        self._gate.spawn(RecoveryStm(self._context, follower).run(), name=f"recovery-{node_id}")

    def _on_moved(self) -> None:
        was_in_office = self._was_in_office
        # Whoever asks for an offset asks at commit, at visible or above.
        self.log.forget_marks(min(self.state.commit_index, self.state.visible_index))
        self._log_state.on_commit(self.state.commit_index)
        self.monitor.on_moved()
        self._batcher.admit_waiting()
        if self.state.is_in_office != was_in_office:
            self._notify_leadership()

    def _on_progress(self) -> None:
        self.monitor.answer()
        self._batcher.admit_waiting()

    def _notify_leadership(self) -> None:
        self._was_in_office = self.state.is_in_office
        for listener in self._leadership_listeners:
            listener(self)
        self.monitor.notify()

    async def _persist_vote(self) -> bool:
        vote = PersistedVote(self.state.term, self.state.voted_for)
        try:
            self._kvstore.put(vote_key(self.group), msgspec.msgpack.encode(vote))
            await self._kvstore.sync()
        except KvStoreError as error:
            self.fail(error)
            return False
        return True

    def _vote_reply(self, *, granted: bool, reason: str) -> VoteReply:
        end = self.state.log_end
        return VoteReply(self.state.term, granted, end.last_index, end.term, reason)

    def _refused(self, error: RaftError) -> ReplicateStages:
        loop = asyncio.get_running_loop()
        stages = ReplicateStages(loop.create_future(), loop.create_future())
        stages.enqueued.set_result(None)
        stages.replicated.set_exception(error)
        stages.replicated.exception()
        return stages
