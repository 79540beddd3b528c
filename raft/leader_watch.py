"""Looks, on a tick of its own, whether a leader still does its work: it gives up where others would do it.

check-quorum    no majority has answered for an election timeout: it is alone (thesis 6.2)
flush stall     its own fsync hangs while the followers hold what it waits for (counterexample 39)
"""

from collections.abc import Awaitable, Callable

from model.ids import Index, NodeId
from raft.errors import RaftError
from raft.replica_context import ReplicaContext
from raft.replica_flusher import ReplicaFlusher
from raft.rules.agreement import point


class LeaderWatch:
    """See the module. `hand_over` transfers the leadership without waiting for answers."""

    def __init__(
        self, context: ReplicaContext, flusher: ReplicaFlusher, hand_over: Callable[[], Awaitable[NodeId]]
    ) -> None:
        self._context = context
        self._flusher = flusher
        self._hand_over = hand_over
        self._is_handing_over = False

    def check(self) -> None:
        """Step down or hand over if it is time to."""
        if not self._context.state.is_leader:
            return
        if not self._hears_majority():
            self._context.step_down("no majority has answered for an election timeout")
        elif self._is_stalled() and not self._is_handing_over:
            self._is_handing_over = True
            self._context.gate.spawn(self._leave_office(), name="flush-stall")

    def _hears_majority(self) -> bool:
        context, state = self._context, self._context.state
        now_ms = int(context.now() * 1000)

        def last_heard_ms(node: NodeId) -> Index:
            follower = state.followers.get(node)
            return Index(now_ms if follower is None else max(0, int(follower.last_reply_at * 1000)))

        return point(state.commit_quorums, last_heard_ms) >= now_ms - int(context.options.election_timeout * 1000)

    def _is_stalled(self) -> bool:
        """Whether the oldest flush is too old, and the others could have committed more without this replica."""
        context, state = self._context, self._context.state
        since = self._flusher.flushing_since
        if since is None or context.now() - since < context.options.flush_stall_timeout:
            return False

        def flushed_elsewhere(node: NodeId) -> Index:
            return Index(0) if node == state.node_id else state.position_of(node).flushed

        return point(state.commit_quorums, flushed_elsewhere) > state.commit_index

    async def _leave_office(self) -> None:
        context = self._context
        context.probe.flush_stalls += 1
        context.logger.warning("an fsync has been running for more than %.1f s", context.options.flush_stall_timeout)
        term = context.state.term
        try:
            await self._hand_over()
        except RaftError:
            if context.state.term == term:
                context.step_down("an fsync hangs, and others can commit")
        finally:
            self._is_handing_over = False
