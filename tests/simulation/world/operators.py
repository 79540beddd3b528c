"""What else is done to a simulated cluster under faults: leaders are moved, and the latest offset is asked for."""

import asyncio
from random import Random

from model.ids import GroupId, NodeId
from raft.consensus import Consensus
from raft.errors import RaftError
from tests.engine import consensus_of
from tests.simulation.world.cluster import SimCluster

_NEVER = 1e9
# A follower is silent after two heartbeats without an answer; seconds.
_SILENCE = 0.4
_LOOK_PAUSE = 0.5


class Operators:
    """They live and die with the broker they talk to."""

    def __init__(self, cluster: SimCluster, rng: Random) -> None:
        self._cluster = cluster
        # Swarm: some runs move no leader, some hardly anything else.
        self._transfer_pause = rng.choice([_NEVER, 8.0, 1.0])
        self._is_nervous = rng.random() < 0.5
        self.is_at_work = True

    def start(self, node_id: int) -> None:
        """Start those of a broker's new life."""
        node = self._cluster.world.nodes[node_id]
        stream, life = self._cluster.world.stream, f"{node_id}/{node.incarnation}"
        node.spawn(self._move_leaders(node_id, stream(f"transfers/{life}")))
        node.spawn(self._ask_latest(node_id, stream(f"latest/{life}")))
        if self._is_nervous:
            node.spawn(self._flee_silence(node_id, stream(f"silence/{life}")))

    async def _move_leaders(self, node_id: int, rng: Random) -> None:
        while self.is_at_work:
            await asyncio.sleep(rng.expovariate(1 / self._transfer_pause))
            consensus = self._cluster.consensus(node_id, rng.choice(self._cluster.groups()))
            if consensus is None or not consensus.is_in_office or not self.is_at_work:
                continue
            if await self._transfer(consensus, rng.choice([None, *consensus.state.followers])) and rng.random() < 0.5:
                self._hand_back_soon(consensus.group, node_id, rng)

    async def _flee_silence(self, node_id: int, rng: Random) -> None:
        """Where one follower does not answer the leader, try another leader, and see that it helps nothing."""
        while self.is_at_work:
            await asyncio.sleep(rng.expovariate(1 / _LOOK_PAUSE))
            consensus = self._cluster.consensus(node_id, rng.choice(self._cluster.groups()))
            if consensus is None or not consensus.is_in_office:
                continue
            since = asyncio.get_running_loop().time() - _SILENCE
            followers = consensus.state.followers.values()
            heard = [follower.node_id for follower in followers if follower.last_reply_at >= since]
            if len(heard) == 1 and await self._transfer(consensus, heard[0]):
                self._hand_back_soon(consensus.group, node_id, rng)

    async def _transfer(self, consensus: Consensus, target: NodeId | None, name: str = "transfers") -> bool:
        counts = self._cluster.history.counts
        try:
            await consensus.transfer.run(target)
        except RaftError as error:
            counts[f"transfer {type(error).__name__}"] += 1
            return False
        counts[name] += 1
        return True

    def _hand_back_soon(self, group: GroupId, former: int, rng: Random) -> None:
        """Somebody thinks better of a transfer: what was under way at its beginning may be answered after both."""
        world = self._cluster.world

        def hand_back() -> None:
            leader = self._cluster.leader_of(group)
            if leader not in (None, former) and self.is_at_work:
                world.nodes[leader].spawn(self._hand_back(leader, group, former))

        world.after(rng.uniform(0.0, 0.1), hand_back)

    async def _hand_back(self, leader: int, group: GroupId, former: int) -> None:
        consensus = self._cluster.consensus(leader, group)
        if consensus is not None and consensus.is_in_office:
            await self._transfer(consensus, NodeId(former), "transfers back")

    async def _ask_latest(self, node_id: int, rng: Random) -> None:
        history = self._cluster.history
        while True:
            await asyncio.sleep(rng.expovariate(1))
            group = rng.choice(self._cluster.data_groups())
            partition = self._cluster.partition(node_id, group)
            if partition is None or not partition.is_in_office:
                continue
            self._cluster.observe(node_id)
            committed = len(history.committed_in(group))
            barrier = consensus_of(partition).barrier
            begun, end = barrier.arrive(), partition.high_watermark
            try:
                await barrier.wait(begun)
            except RaftError as error:
                history.counts[f"latest {type(error).__name__}"] += 1
            else:
                self._cluster.observer.latest(group, committed, end)
