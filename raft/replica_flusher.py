"""When a replica fsyncs: at once if a writer waits for it, and otherwise within 100 ms or 256 KiB.

Because of the second rule, leader_ack data commits without a later quorum write (counterexample 7).
"""

from raft.replica_context import ReplicaContext
from raft.replica_state import Role
from raft.write_steps import Step
from storage.errors import StorageError


class ReplicaFlusher:
    """Flushes one replica's log and tells the state."""

    def __init__(self, context: ReplicaContext) -> None:
        self._context = context
        self._deadline = context.node.deadlines.deadline(self._on_due)
        self._is_flushing_behind = False

    def schedule_flush(self) -> None:
        """Entries were written that nobody waits for."""
        context = self._context
        if context.state.role is Role.FAILED:
            return
        unflushed = context.log.unflushed_bytes
        if unflushed >= context.options.flush_bytes:
            self._on_due()
        elif unflushed > 0 and self._deadline.when is None:
            self._deadline.arm(context.now() + context.options.flush_interval)

    async def flush(self) -> None:
        """Make durable what is written now; where that is refused the replica has failed when this returns."""
        context = self._context
        try:
            with context.steps.under_way(Step.FSYNC):
                await context.log.flush()
        except StorageError as error:
            context.fail(error)
            return
        # Whoever leads by now, in whichever term: `advance` starts from the positions as they are, nothing older.
        context.effects.settle(context.state.advance())

    def _on_due(self) -> None:
        self._deadline.disarm()
        # One at a time is enough: what is written meanwhile is looked at again afterwards.
        if not self._is_flushing_behind:
            self._is_flushing_behind = True
            self._context.gate.spawn(self._flush_behind(), name="flush")

    async def _flush_behind(self) -> None:
        try:
            await self.flush()
        finally:
            self._is_flushing_behind = False
        self.schedule_flush()
