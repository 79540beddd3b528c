"""Hands the leadership of one group to a chosen voter without an election timeout (Raft thesis 3.10).

    leader                                   target                 other voters
    refuses a target that lags
    refuses new writes
    waits: target holds the whole log,
           older writes are answered
    ---- timeout_now ----------------------> stands at once
    <--- vote (transfer) ------------------- --- vote (transfer) -->
    votes, is a follower                     elected
    <--- barrier --------------------------- ---------------------->

Nobody can write during a transfer. So the leader refuses a target that lags far behind at once, and waits at most
300 ms for one that lags a little. The whole transfer ends within one election timeout. If it fails, the leader stays in
office.
"""

import asyncio
from collections.abc import Callable, Collection

from model.error_text import reason_of
from model.ids import Index, NodeId
from raft.append_dispatch import is_right_replica
from raft.errors import (
    NotLeaderError,
    RaftError,
    TransferRefusedError,
    TransferTargetError,
    TransferTimedOutError,
)
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.messages import TimeoutNowReply, TimeoutNowRequest
from raft.replica_context import ReplicaContext
from raft.replica_state import voters_of
from raft.replicate_batcher import ReplicateBatcher
from raft.replication_monitor import ReplicationMonitor
from raft.write_steps import Step

# What is waited for is told by events; this only bounds how late something is seen that has none.
_LOOK_INTERVAL = 0.050
# What a target may lack when it is asked for, and how long it has to get it.
_LAG_BYTES_MAX = 1024 * 1024
_CATCH_UP_SECONDS = 0.300
# Part of that time in which older writes may still be answered, where the target already holds them.
_ANSWERS_SHARE = 0.5


class LeadershipTransfer:
    """See the module; at most one at a time."""

    def __init__(self, context: ReplicaContext, batcher: ReplicateBatcher, monitor: ReplicationMonitor) -> None:
        self._context = context
        self._batcher = batcher
        self._monitor = monitor
        self._changed: asyncio.Event | None = None

    @property
    def is_active(self) -> bool:
        """Whether a transfer is under way: new writes are refused meanwhile."""
        return self._changed is not None

    def candidates(self) -> list[NodeId]:
        """Return the voters in sync, the one that holds most first; those that recover come last."""
        context, state = self._context, self._context.state
        voters = set(voters_of(state.commit_quorums))
        fit = [
            follower
            for node, follower in state.followers.items()
            if node in voters and self._is_reachable(follower) and self._is_in_sync(follower)
        ]
        # Which of several equals: drawn, so that the groups of a node that is stopped do not all go to one other.
        context.env.rng.shuffle(fit)
        fit.sort(key=lambda follower: (follower.needs_recovery, -follower.match_index))
        return [follower.node_id for follower in fit]

    async def run(
        self, target: NodeId | None, *, awaits_answers: bool = True, preferred: Collection[NodeId] = ()
    ) -> NodeId:
        """Hand over to `target`, None: to the best one; return who leads afterwards.

        Args:
            target: A voter other than this replica.
            preferred: Without a target: the best of these, if one is in sync.
            awaits_answers: Whether older writes are given time to be answered; without, they may end as ambiguous.

        Raises:
            NotLeaderError: This replica does not lead, or lost the leadership before it was asked for.
            TransferTargetError: The target cannot be a leader. TransferRefusedError: it does not want to be, it lags
                too far, or another transfer is under way; writes were not held up. TransferTimedOutError: it was not
                up to date, or not elected, in time; this replica may still lead.
        """
        follower = self._fit(target, preferred)
        self._context.probe.transfers_started += 1
        self._batcher.fail_waiting(NotLeaderError(f"the leadership of {self._context.name} is being handed over"))
        self._changed = asyncio.Event()
        watcher = self._monitor.watch(self._changed.set)
        try:
            leader = await self._hand_over(follower, awaits_answers=awaits_answers)
        except RaftError as error:
            self._context.logger.warning("leadership transfer to node %d failed: %s", follower.node_id, error)
            raise
        finally:
            self._monitor.unwatch(watcher)
            self._changed = None
        self._context.probe.transfers_completed += 1
        return leader

    def check(self, target: NodeId | None) -> NodeId:
        """Return to whom `run` would begin to hand over now, and hand over nothing.

        Raises:
            RaftError: What `run` raises before it holds writes up.
        """
        return self._fit(target, ()).node_id

    def on_reply(self) -> None:
        """A follower has answered: it may be up to date now."""
        if self._changed is not None:
            self._changed.set()

    def _fit(self, target: NodeId | None, preferred: Collection[NodeId]) -> FollowerIndexMetadata:
        if not self._context.state.is_in_office:
            raise NotLeaderError(f"not in office as the leader of {self._context.name}")
        if self.is_active:
            raise TransferRefusedError(f"a leadership transfer of {self._context.name} is under way")
        follower = self._choose(target, preferred)
        self._check_near(follower)
        return follower

    def _is_reachable(self, follower: FollowerIndexMetadata) -> bool:
        return self._context.client.is_up(follower.node_id) and is_right_replica(self._context, follower)

    def _choose(self, target: NodeId | None, preferred: Collection[NodeId]) -> FollowerIndexMetadata:
        context, state = self._context, self._context.state
        if target is None:
            candidates = [state.followers[node] for node in self.candidates()]
            if not candidates:
                raise TransferTargetError("no other voter is in sync and reachable")
            fit = (each for each in candidates if each.node_id in preferred and not each.needs_recovery)
            return next(fit, candidates[0])
        voters = voters_of(state.commit_quorums)
        if target == state.node_id:
            raise TransferTargetError(f"node {target} already leads")
        if target not in voters:
            raise TransferTargetError(f"node {target} is not a voter; the voters are {', '.join(map(str, voters))}")
        follower = state.followers[target]
        if not self._is_reachable(follower):
            raise TransferTargetError(f"the link from node {context.state.node_id} to node {target} is down")
        return follower

    def _is_in_sync(self, follower: FollowerIndexMetadata) -> bool:
        return follower.caught_up_at >= self._context.now() - self._context.options.replica_lag_max

    def _check_near(self, follower: FollowerIndexMetadata) -> None:
        """Refuse a target that would hold writes up for longer than it takes to send what it lacks."""
        log = self._context.log
        lag = f"node {follower.node_id} lacks {log.dirty_index - follower.match_index} entries"
        if follower.needs_recovery:
            raise TransferRefusedError(f"{lag} and is being recovered; try again once it is in sync")
        if not self._is_in_sync(follower):
            seconds = self._context.options.replica_lag_max
            raise TransferRefusedError(f"{lag} and was not in sync in the last {seconds:g} s; try again once it is")
        if follower.match_index == log.dirty_index:
            return
        lacked = log.recent(Index(follower.match_index + 1), _LAG_BYTES_MAX)
        if lacked is None or lacked[-1].index < log.dirty_index or sum(each.size for each in lacked) > _LAG_BYTES_MAX:
            raise TransferRefusedError(f"{lag}, more than {_LAG_BYTES_MAX} bytes; try again once it holds more")

    async def _hand_over(self, follower: FollowerIndexMetadata, *, awaits_answers: bool) -> NodeId:
        context, state = self._context, self._context.state
        term, begun = state.term, context.now()
        deadline = begun + context.options.election_timeout
        ready_by = min(begun + _CATCH_UP_SECONDS, deadline)
        until = begun + ((ready_by - begun) * _ANSWERS_SHARE if awaits_answers else 0.0)

        def leads() -> bool:
            return state.is_leader and state.term == term

        context.logger.info("hands over to node %d", follower.node_id)
        await self._until(lambda: not leads() or self._is_ready(follower, answers_until=until), ready_by)
        if not leads():
            raise NotLeaderError(f"the leadership of {context.name} was lost before it was handed over")
        if not self._is_ready(follower, answers_until=until):
            raise TransferTimedOutError(
                f"node {follower.node_id} holds the log up to {follower.match_index} of {context.log.dirty_index}"
            )
        request = TimeoutNowRequest(context.link_name, term, context.log.dirty_index)
        answer = context.client.timeout_now(follower.node_id, request)
        answer.add_done_callback(lambda _: self.on_reply())
        # The vote for its election may arrive before its answer does.
        await self._until(lambda: answer.done() or not leads(), deadline)
        if leads():
            _check_accepted(follower.node_id, answer)
        await self._until(lambda: state.term > term and state.leader_id is not None, deadline)
        if state.term == term or state.leader_id is None:
            raise TransferTimedOutError(f"node {follower.node_id} was not elected in time")
        return state.leader_id

    def _is_ready(self, follower: FollowerIndexMetadata, *, answers_until: float) -> bool:
        context = self._context
        if not self._has_written() or follower.match_index < context.log.dirty_index:
            return False
        return self._monitor.is_idle or context.now() >= answers_until

    def _has_written(self) -> bool:
        """Whether all that this leader will send is in its log: the batcher takes nothing new."""
        context = self._context
        # What an append that hangs would write is not sent any more: it may come back long after this leadership.
        oldest = context.now() - context.options.stall_timeout
        return self._batcher.is_idle or context.steps.stall(Step.APPEND, oldest) is not None

    async def _until(self, holds: Callable[[], bool], deadline: float) -> None:
        changed = self._changed
        assert changed is not None
        while not holds() and (left := deadline - self._context.now()) > 0:
            changed.clear()
            try:
                async with asyncio.timeout(min(left, _LOOK_INTERVAL)):
                    await changed.wait()
            except TimeoutError:
                continue


def _check_accepted(node: NodeId, answer: asyncio.Future[TimeoutNowReply]) -> None:
    if not answer.done():
        raise TransferTimedOutError(f"node {node} did not answer in time")
    if answer.cancelled():
        raise TransferTimedOutError(f"node {node} did not answer: cancelled")
    if (error := answer.exception()) is not None:
        raise TransferTimedOutError(f"node {node} did not answer: {reason_of(error)}")
    if not answer.result().accepted:
        raise TransferRefusedError(f"node {node} {answer.result().reason or 'refuses and gives no reason'}")
