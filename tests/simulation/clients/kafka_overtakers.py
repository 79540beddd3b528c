"""Who commits offsets of one group in transactions and outside of them, so that pending offsets are overtaken.

What is committed in the end is no client's to say here: a request that comes late puts an older offset back, as in
Kafka. That all replicas have the same offsets is an invariant's, and `test_overtaken_offsets` shows which they are.
"""

from tests.simulation.clients.kafka_transformers import SimTransformer


class SimOvertaker(SimTransformer):
    """One process."""

    def __init__(self, *arguments, **shared) -> None:
        super().__init__(*arguments, **shared)
        # Told apart by it: two batches with the same bytes are one write to observers.
        self._offset = 0

    async def _transaction(self) -> None:
        name = self.begin_line()
        is_whole = await self.commit_offset(self._next())
        if is_whole and self.rng.random() < 0.5:
            await self.commit_plainly(self._next())
        await self.end(name, is_commit=is_whole and self.rng.random() < 0.7)
        await self.committed()

    def _next(self) -> int:
        self._offset += 1
        return self._offset
