"""What else is done to a simulated cluster under faults: leaders are moved, and the latest offset is asked for."""

import asyncio
from random import Random

from raft.errors import RaftError
from tests.simulation.cluster import SimCluster

_NEVER = 1e9


class Operators:
    """They live and die with the broker they talk to, as the producers do."""

    def __init__(self, cluster: SimCluster, rng: Random) -> None:
        self._cluster = cluster
        # Swarm: some runs move no leader, some hardly anything else.
        self._transfer_pause = rng.choice([_NEVER, 8.0, 1.0])
        self.is_at_work = True

    def start(self, node_id: int) -> None:
        """Start those of a broker's new life."""
        node = self._cluster.world.nodes[node_id]
        stream, life = self._cluster.world.stream, f"{node_id}/{node.incarnation}"
        node.spawn(self._move_leaders(node_id, stream(f"transfers/{life}")))
        node.spawn(self._ask_latest(node_id, stream(f"latest/{life}")))

    async def _move_leaders(self, node_id: int, rng: Random) -> None:
        counts = self._cluster.history.counts
        while self.is_at_work:
            await asyncio.sleep(rng.expovariate(1 / self._transfer_pause))
            consensus = self._cluster.consensus(node_id, rng.choice(self._cluster.groups()))
            if consensus is None or not consensus.is_in_office:
                continue
            target = rng.choice([None, *consensus.state.followers])
            try:
                await consensus.transfer.run(target)
            except RaftError as error:
                counts[f"transfer {type(error).__name__}"] += 1
            else:
                counts["transfers"] += 1

    async def _ask_latest(self, node_id: int, rng: Random) -> None:
        history = self._cluster.history
        while True:
            await asyncio.sleep(rng.expovariate(20))
            group = rng.choice(self._cluster.data_groups())
            partition = self._cluster.partition(node_id, group)
            if partition is None or not partition.is_in_office:
                continue
            self._cluster.observe(node_id)
            committed = len(history.committed_in(group))
            barrier = partition.consensus.barrier
            begun, end = barrier.arrive(), partition.high_watermark
            try:
                await barrier.wait(begun)
            except RaftError as error:
                history.counts[f"latest {type(error).__name__}"] += 1
            else:
                self._cluster.observer.latest(node_id, group, committed, end)
