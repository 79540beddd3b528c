"""One replica's public face: replicate, positions, roles; and the receiving side of its peers' requests.

Contains no arithmetic: decisions are in `rules/`, positions in `replica_state`, waiting in the fibers.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from model.ids import NO_INDEX, ConsistencyLevel, GroupId, Index, NodeId, Term
from raft.append_entries_buffer import AppendEntriesBuffer, follower_reply
from raft.effects import (
    Answered,
    Effect,
    Elected,
    LeaderChanged,
    LeadershipLost,
    Moved,
    Progressed,
    RecoveryWanted,
)
from raft.election_timer import ElectionTimer
from raft.errors import (
    InvariantViolatedError,
    LeadershipLostError,
    NotLeaderError,
    RaftError,
    ReplicaFailedError,
    ReplicateTimedOutError,
    ShuttingDownError,
)
from raft.group_configuration import AgreementPolicy, GroupConfiguration
from raft.group_heartbeats import GroupHeartbeats
from raft.interval_figures import IntervalFigures
from raft.invariants import check_replica
from raft.leader_watch import LeaderWatch
from raft.leadership_transfer import LeadershipTransfer
from raft.linearizable_barrier import LinearizableBarrier
from raft.membership_steps import Target
from raft.messages import (
    AppendEntriesReply,
    AppendEntriesRequest,
    AppendStatus,
    Heartbeat,
    InstallSnapshotRequest,
)
from raft.node_resources import NodeResources
from raft.reconfiguration_stm import Reconfiguration
from raft.recovery_stm import RecoveryStm
from raft.recovery_throttle import ThrottledMembers
from raft.replica_context import ReplicaContext, ReplicaLogger
from raft.replica_flusher import ReplicaFlusher
from raft.replica_opening import OpenedLog
from raft.replica_state import ReplicaState, Role
from raft.replicate_batcher import ReplicateBatcher
from raft.replicate_item import NewEntry, ReplicateStages, refused_stages
from raft.replication_monitor import ReplicationMonitor
from raft.snapshot_receiver import SnapshotReceiver
from raft.vote_floor import VoteFloor, read_floor
from raft.vote_store import VoteStore
from raft.voter import Voter
from raft.write_steps import WriteSteps
from storage.entry import Entry, EntryKind
from storage.errors import CorruptLogError, StorageError
from storage.log_start import LogStart, encode_log_start

_BARRIER = NewEntry(EntryKind.BARRIER, b"", 0)


class GroupOwner(Protocol):
    """What a replica asks of its node; `GroupManager` does it. None of it waits."""

    def on_leadership(self, consensus: "Consensus") -> None:
        """Role, term or office of the replica may have changed."""
        ...

    def beat_soon(self, consensus: "Consensus", nodes: Collection[NodeId]) -> None:
        """Send these followers of the group a heartbeat before the next tick: readers wait for their answers."""
        ...


class Consensus:
    """One replica of one group, and the `ReplicaEffects` of its fibers. Owns its log; `stop` or `remove` ends it."""

    def __init__(
        self,
        group: GroupId,
        node: NodeResources,
        owner: GroupOwner,
        policy: AgreementPolicy,
        opened: OpenedLog,
        *,
        is_internal: bool = False,
    ) -> None:
        self.group = group
        self._owner = owner
        self.log, self._log_state = opened
        self.state = ReplicaState(node.self_replica, self._log_state.configurations, policy, self.log)
        self._context = ReplicaContext(group, node, self.state, self.log, self._log_state, is_internal, effects=self)
        self._gate, self.logger, self.name = self._context.gate, self._context.logger, self._context.name
        self.log.health.logger = ReplicaLogger(self.name, self.state, "storage")
        self.log.health.on_damage = self._on_damage
        self.monitor = ReplicationMonitor(self.state)
        self._flusher = ReplicaFlusher(self._context)
        self.barrier = LinearizableBarrier(self._context)
        self._batcher = ReplicateBatcher(self._context, self._flusher, self.monitor, self.barrier)
        self._votes = VoteStore(self._context)
        self._buffer = AppendEntriesBuffer(self._context, self._flusher, self._votes)
        self.heartbeats = GroupHeartbeats(self._context, self._buffer)
        self._floor = VoteFloor(self._context)
        self._receiver = SnapshotReceiver(self._context)
        self._log_state.attach(self._gate, self.logger, self.fail, self._context.probe, self._context.counts)
        self._election = ElectionTimer(self._context, self._votes)
        self.voter = Voter(self._context, self._votes, self._election)
        self.transfer = LeadershipTransfer(self._context, self._batcher, self.monitor)
        self.watch = LeaderWatch(self._context, self.transfer)
        self.reconfiguration = Reconfiguration(self._context, self._batcher, self.transfer, self._notify_leadership)
        self._leadership_listeners: list[Callable[[Consensus], None]] = []
        self.failure: StorageError | RaftError | None = None
        # The newest damage that a read has found. Only a replica without peers continues after it.
        self.damage: CorruptLogError | None = None
        self._was_in_office = False
        self._deletes_to = NO_INDEX

    # -- lifecycle ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take part in the group from what is on disk.

        Raises:
            KvStoreError: The stored vote cannot be read.
        """
        vote = self._votes.load()
        voted_for = None if vote.voted_for is None else NodeId(vote.voted_for)
        self.state.restore(Term(vote.term), voted_for, read_floor(self._context.kvstore, self.group))
        if (lost_end := self.state.lost_end) is not None:
            # Damage took them, or the replica was placed elsewhere meanwhile and has left its log there.
            self.logger.warning("held entries up to %d@%d once, and gets them from the others", *reversed(lost_end))
        is_new = self.log.dirty_index == 0 and vote.term == 0
        log, voters = self.log, list(self.configuration.voter_ids)
        is_first = self.configuration.voter_sets[0][0].node_id == self.state.node_id
        self._election.start(eager=voters == [self.state.node_id] or (is_new and is_first))
        span = (log.start_index, log.dirty_index, log.flushed_index)
        self.logger.info("starts with log [%d, %d], flushed %d, voters %s", *span, voters)

    def logger_of(self, part: str) -> ReplicaLogger:
        """Return what another part of the broker logs of this replica with; `part` is the name of its logger."""
        return ReplicaLogger(self.name, self.state, part)

    @property
    def configuration(self) -> GroupConfiguration:
        """Who the members are, by the newest configuration in this replica's log."""
        return self.state.configuration

    @property
    def state_bytes_max(self) -> int:
        """The most bytes of state that a snapshot may hold."""
        return self._context.options.state_bytes_max

    @property
    def snapshot_refusal(self) -> str | None:
        """Why the last snapshot was refused as too large; None: it was not."""
        return self._log_state.refusal

    async def save_before_stop(self) -> None:
        """Write a snapshot if the next start would replay much without it. If this fails, the next start replays."""
        if self.failure is None:
            try:
                await self._log_state.save_before_stop()
            except StorageError as error:
                self.logger.warning("no snapshot was written before the stop: %s", error)

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
        error = ShuttingDownError(f"{self.name} is being stopped on node {self.state.node_id}")
        self._batcher.fail_pending(error)
        self._buffer.close()
        self._receiver.forget()
        await self._gate.close()
        self.state.fail()
        self._batcher.close(error)
        self.monitor.fail_all(error)
        self.barrier.fail_all(error)
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
    def steps(self) -> WriteSteps:
        """The steps of writes that are under way here."""
        return self._context.steps

    @property
    def figures(self) -> IntervalFigures | None:
        """What this replica does in an interval, for telemetry; None: it is not kept."""
        return self._context.figures

    @property
    def applied_index(self) -> Index:
        """The last committed entry that the replica's state includes."""
        return self._log_state.applied_index

    @property
    def in_sync(self) -> tuple[NodeId, ...]:
        """Leader: the voters that held everything committed within `replica_lag_max`; elsewhere empty."""
        if not (state := self.state).is_leader:
            return ()
        oldest = self._context.now() - self._context.options.replica_lag_max
        in_sync = {node for node, follower in state.followers.items() if follower.caught_up_at >= oldest}
        in_sync.add(state.node_id)
        return tuple(node for node in state.configuration.voter_ids if node in in_sync)

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
        refusal: RaftError | None = None
        if self.failure is not None:
            refusal = ReplicaFailedError(str(self.failure))
        elif self._gate.is_closed:
            refusal = ShuttingDownError(f"{self.name} is being stopped")
        elif self.transfer.is_active:
            refusal = NotLeaderError(f"the leadership of {self.name} is being handed over")
        if refusal is not None:
            self._context.counts.replicate_failed(level, entries[0].kind)
            return refused_stages(refusal)
        return self._batcher.replicate(entries, level, expected_term=expected_term, deadline=deadline)

    def apply_policy(self, policy: AgreementPolicy, *, write_caching: bool) -> None:
        """Change how many copies an answer needs and whether they must be fsynced, while the group works.

        Args:
            policy: Commit, votes and barriers do not depend on it: a configuration changes who they count.
            write_caching: acks=all is answered once the copies are written (RFC 0003, levels).
        """
        self.settle(self.state.set_levels(policy, write_caching=write_caching))

    @property
    def link_name(self) -> str:
        """What messages call the group."""
        return self._context.link_name

    @property
    def clean_index(self) -> Index:
        """Up to where the log holds no record that another one up to there supersedes (RFC 0022, section 4).

        0 while the log has not reached what the state was saved as of: what is open in it is not known.
        """
        if self.state.commit_index < self._log_state.applied_index:
            return NO_INDEX
        return self.log.compaction.clean_index

    @property
    def deletes_to(self) -> Index:
        """Up to where tombstones and markers may go: every member of the group was clean up to there."""
        return self._deletes_to

    @property
    def holders_of_deletes(self) -> tuple[NodeId, ...]:
        """Leader: the members that are not as clean as this replica; it keeps deletes because of them."""
        state = self.state
        return state.clean_indexes.behind(state.followers, self.clean_index) if state.is_leader else ()

    def note_deletes_bound(self, bound: Index) -> None:
        """The leader has computed this bound; what holds of the group once holds for good."""
        self._deletes_to = max(self._deletes_to, bound)

    def raise_deletes_bound(self) -> Index:
        """Leader: compute the bound from what the followers have answered, and return the largest one so far."""
        # Whom a configuration drops is a member until it is committed: the next leader may not have it.
        if self.state.configurations.is_committed:
            self.note_deletes_bound(self.state.clean_indexes.bound(self.state.followers, self.clean_index))
        return self._deletes_to

    def throttle(self, members: ThrottledMembers) -> None:
        """Let the recovery of followers that are far behind be bound by rates, as this names leader and follower.

        A recovery that is under way follows it from its next chunk on. `NodeLimits.throttle` has the rates.
        """
        self._context.throttled = members

    def reconfigure(self, target: Target) -> None:
        """Let the group have these voters, step by step, while this replica or a later leader is in office.

        Whoever wants them tells every replica, again after each restart: the target is not in the log. A target of an
        earlier revision is ignored. `reconfiguration` tells how far it is.
        """
        self.reconfiguration.aim(target)

    async def move_log_start(self, start: LogStart, term: Term, deadline: float) -> None:
        """Leader of `term`: let every replica begin at `start`; on this one it does when this returns.

        Raises:
            RaftError: As `replicate`; after an ambiguous one the start may still move.
        """
        entry = NewEntry(EntryKind.LOG_START, encode_log_start(start), 0)
        stages = self.replicate([entry], ConsistencyLevel.QUORUM_ACK, expected_term=term, deadline=deadline)
        await stages.replicated
        moved = asyncio.Event()
        watcher = self.monitor.watch(moved.set)
        try:
            async with asyncio.timeout_at(deadline):
                while self.log.start_offset < start.offset:
                    moved.clear()
                    await moved.wait()
        except TimeoutError:
            raise ReplicateTimedOutError("the deadline passed before the log start moved") from None
        finally:
            self.monitor.unwatch(watcher)

    def add_leadership_listener(self, listener: Callable[["Consensus"], None]) -> None:
        """Call `listener(self)` whenever role, term or office may have changed; it must not block."""
        self._leadership_listeners.append(listener)

    def step_down(self, reason: str) -> None:
        """Give leadership up in the current term; everyone who waits is answered at once."""
        if not self.state.is_leader:
            return
        self.logger.warning("steps down: %s", reason)
        self.voter.say_that_it_steps_down()
        self.settle(self.state.lose_leader(reason))

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
        self.barrier.fail_all(stopped)
        self._notify_leadership()

    def _on_damage(self, error: CorruptLogError) -> None:
        """A read found durable bytes changed.

        A replica with peers stops, so that one of them serves these bytes. It stops as a follower, too: if it were
        elected, it could not serve them. A replica without peers serves the undamaged rest.
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
            return follower_reply(self._context, AppendStatus.STALE_TERM, NO_INDEX)
        return self._buffer.submit(leader, request, entries)

    def on_heartbeat(self, leader: NodeId, beat: Heartbeat) -> AppendEntriesReply:
        """Take one group's part of a heartbeat; never waits and never takes op_lock."""
        if not self._accept_leader(leader, Term(beat.term)):
            return follower_reply(self._context, AppendStatus.STALE_TERM, NO_INDEX)
        if not self.state.is_term_durable:
            return follower_reply(self._context, AppendStatus.BUSY, NO_INDEX)
        status, match = self.heartbeats.judge(beat)
        if status is AppendStatus.SUCCESS:
            self.state.on_matched(match)
        self.settle(self.state.on_leader_progress(Index(beat.commit), Index(beat.visible)))
        self._floor.look()
        return follower_reply(self._context, status, match)

    def on_install_snapshot(
        self, leader: NodeId, request: InstallSnapshotRequest, chunk: bytes
    ) -> AppendEntriesReply | asyncio.Future[AppendEntriesReply]:
        """Take one chunk of a snapshot of `leader`; bounds are checked. The last one is answered once it is durable."""
        if not self._accept_leader(leader, Term(request.term)):
            return follower_reply(self._context, AppendStatus.STALE_TERM, NO_INDEX)
        if not self.state.is_term_durable:
            return follower_reply(self._context, AppendStatus.BUSY, NO_INDEX)
        return self._receiver.receive(leader, request, chunk)

    def on_link_reset(self, node_id: NodeId) -> None:
        """A working link to or from `node_id` was lost."""
        self._election.on_link_reset(node_id)

    # -- transitions --------------------------------------------------------------------------------------------

    def _accept_leader(self, leader: NodeId, term: Term) -> bool:
        state = self.state
        if term < state.term or state.role is Role.FAILED:
            return False
        self.observe_term(term)
        try:
            changed = state.follow(leader)
        except InvariantViolatedError as error:
            self.fail(error)
            return False
        self._election.heard_leader()
        self._votes.start_persisting_term()
        if changed is not None:
            self.logger.info("follows node %d", leader)
            self.settle(changed)
        return True

    def observe_term(self, term: int) -> None:
        """Enter `term` as a follower if it is newer; it becomes durable in the background."""
        state = self.state
        if term <= state.term or state.role is Role.FAILED:
            return
        changed = state.adopt_term(Term(term))
        self._votes.start_persisting_term()
        was_leader = isinstance(changed, LeadershipLost)
        self.logger.info("steps down: a newer term was seen" if was_leader else "a newer term was seen")
        self.settle(changed)

    def ask_for_heartbeats(self, nodes: Collection[NodeId]) -> None:
        """Send these followers heartbeats now: linearizable reads wait for a majority of the answers."""
        self._owner.beat_soon(self, nodes)

    # -- effects ------------------------------------------------------------------------------------------------

    def settle(self, effect: Effect | None) -> None:
        """Act on what a transition has returned, in the same step.

        After it `raft.invariants` hold. An effect may lead to the next one: a replica that is elected appends its
        barrier, and a group of one commits it at once.
        """
        match effect:
            case None:
                return
            case Moved():
                self._on_moved(effect)
            case Progressed():
                self._answer_writes()
            case Answered():
                self.barrier.on_reply()
                self.transfer.on_reply()
            case RecoveryWanted():
                self._start_recovery(effect.node_id)
            case Elected():
                self._begin_leadership()
            case LeadershipLost():
                self._end_leadership(effect.reason)
            case LeaderChanged():
                self._notify_leadership()
        check_replica(self.state)

    def _on_moved(self, moved: Moved) -> None:
        was_in_office, state = self._was_in_office, self.state
        # Callers ask for the end offset of no entry below both commit and visible.
        self.log.forget_marks(min(moved.commit, moved.visible))
        self._log_state.on_commit(moved.commit)
        self.monitor.on_moved()
        self._batcher.admit_waiting()
        if state.is_in_office != was_in_office:
            self._notify_leadership()
        if not state.is_voter and state.is_in_office and state.configurations.is_committed:
            # RFC 0019 section 3: whoever is no voter of a committed configuration leads only until then.
            self.step_down("it is no voter any more")

    def _answer_writes(self) -> None:
        self.monitor.answer()
        self._batcher.admit_waiting()

    def on_options(self) -> None:
        """The node's options have changed: a larger bound lets producers go on that wait at it."""
        self._context.options = self._context.node.options
        self.heartbeats.on_options()
        self._batcher.admit_waiting()

    def _begin_leadership(self) -> None:
        for follower in self.state.followers.values():
            follower.last_reply_at = self._context.now()
        # The first entry of the term. Once it is committed, so is every entry before it, and this replica is in office.
        self._batcher.replicate([_BARRIER], ConsistencyLevel.QUORUM_ACK, expected_term=self.state.term)
        self._notify_leadership()

    def _end_leadership(self, reason: str) -> None:
        self._context.probe.step_downs += 1
        error = LeadershipLostError(reason)
        self._batcher.fail_pending(error)
        self.monitor.fail_all(error)
        self.barrier.fail_all(error)
        self._election.on_stepped_down()
        self._notify_leadership()

    def _start_recovery(self, node_id: NodeId) -> None:
        follower = self.state.followers[node_id]
        self._gate.spawn(RecoveryStm(self._context, follower).run(), name=f"recovery-{node_id}")

    def _notify_leadership(self) -> None:
        self._was_in_office = self.state.is_in_office
        self.reconfiguration.look()
        self._owner.on_leadership(self)
        for listener in self._leadership_listeners:
            listener(self)
        self.monitor.notify()
