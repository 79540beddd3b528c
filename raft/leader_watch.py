"""Checks periodically whether a leader can still do its work. If not, the leader steps down or hands over.

check-quorum    no majority has answered within an election timeout (thesis 6.2): it steps down
append stall    its own append hangs, so it has nothing to send: it hands over if a majority without it answers
flush stall     its own fsync hangs: it hands over if commit could advance by the followers' fsyncs alone
                (counterexample 39)
node stall      a kvstore sync or a write of the node's probe hangs: as an append stall, for every leader on the node;
                an fsync of the probe that hangs counts as a flush stall

If a transfer fails, the leader steps down.
"""

from model.ids import Index, NodeId
from raft.errors import RaftError
from raft.leadership_transfer import LeadershipTransfer
from raft.replica_context import ReplicaContext
from raft.rules.agreement import has_majority, point
from raft.write_steps import Stall, Step


class LeaderWatch:
    """See the module."""

    def __init__(self, context: ReplicaContext, transfer: LeadershipTransfer) -> None:
        self._context = context
        self._transfer = transfer
        self._is_handing_over = False
        self._checked_at = float("-inf")

    def check(self) -> None:
        """Step down or hand over if it is time to."""
        context = self._context
        if not context.state.is_leader:
            return
        if context.now() - self._checked_at < context.options.heartbeat_interval / 2:
            # After the loop has stood still, a late tick and the next one come together. The second one is left out, so
            # that the loop first processes the completions of steps that ended meanwhile.
            return
        before, self._checked_at = self._checked_at, context.now()
        if not has_majority(context.state.commit_quorums, self._heard() | {context.state.node_id}):
            context.effects.step_down("no majority has answered for an election timeout")
        elif not self._stood_still(before) and not self._is_handing_over:
            stall = next((stall for stall in self._stalls() if self._others_can_go_on(stall)), None)
            if stall is not None:
                self._is_handing_over = True
                context.gate.spawn(self._leave_office(stall), name="stall")

    def _stood_still(self, before: float) -> bool:
        """Whether the loop stood still since `before`: then steps may have ended, and the loop does not know it yet."""
        options = self._context.options
        # A group at rest is checked at about every third tick. A short stall timeout must not count that as a stall.
        return self._checked_at - before >= max(options.stall_timeout / 2, 2 * options.rest_interval)

    def _heard(self) -> set[NodeId]:
        """Return the followers that have answered within an election timeout."""
        oldest = self._context.now() - self._context.options.election_timeout
        return {node for node, follower in self._context.state.followers.items() if follower.last_reply_at >= oldest}

    def _stalls(self) -> list[Stall]:
        own = [stall for stall in (self._append_stall(), self._flush_stall()) if stall is not None]
        return own + self._context.limits.stalls.stalls(self._context.now())

    def _append_stall(self) -> Stall | None:
        return self._context.steps.stall(Step.APPEND, self._oldest())

    def _flush_stall(self) -> Stall | None:
        return self._context.steps.stall(Step.FSYNC, self._oldest())

    def _oldest(self) -> float:
        return self._context.now() - self._context.options.stall_timeout

    def _others_can_go_on(self, stall: Stall) -> bool:
        state = self._context.state
        if stall.step is not Step.FSYNC:
            # This leader cannot see whether the followers' disks work. It knows only that they answer.
            return has_majority(state.commit_quorums, self._heard())

        def flushed_elsewhere(node: NodeId) -> Index:
            return Index(0) if node == state.node_id else state.position_of(node).flushed

        return point(state.commit_quorums, flushed_elsewhere) > state.commit_index

    async def _leave_office(self, stall: Stall) -> None:
        context, term = self._context, self._context.state.term
        seconds = context.now() - stall.since
        context.logger.warning("leaves office: its %s for %.1f s by now, and others can go on", stall, seconds)
        context.limits.stalls.raise_doubt(f"its {stall}")
        try:
            # Older writes wait for the step that hangs, so the transfer does not wait for their answers.
            await self._transfer.run(None, awaits_answers=False)
        except RaftError:
            if context.state.term == term:
                context.effects.step_down(f"its {stall}, and others can go on")
        finally:
            self._is_handing_over = False
