"""Looks, on a tick of its own, whether a leader still does its work: it gives up where others would do it.

check-quorum    no majority has answered for an election timeout: it is alone (thesis 6.2)
append stall    its own write hangs: it has nothing to send, and whoever it hears could lead
flush stall     its own fsync hangs while the followers hold what it waits for (counterexample 39)
kvstore stall   no term and no vote becomes durable here: the disk that every step of a write needs hangs
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
            # A late tick and the next one come together. What the first one found is judged anew once the loop has
            # taken the ends of steps that ended while it stood still.
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
        """Whether the loop has not run since then: it has not taken the ends of steps, and says nothing of the disk."""
        options = self._context.options
        # Groups at rest are checked at every third tick or so: with a short stall timeout that is no stall of the loop.
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
            # Nothing of this leader shows whether their disks work; that they answer is all that is known.
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
            # Older writes wait for the step that hangs: nobody waits for their answers.
            await self._transfer.run(None, awaits_answers=False)
        except RaftError:
            if context.state.term == term:
                context.effects.step_down(f"its {stall}, and others can go on")
        finally:
            self._is_handing_over = False
