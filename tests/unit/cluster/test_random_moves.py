"""A partition is moved at random, under writes, while nodes stop and start: what was acknowledged is where it ends up.

More seeds: `MOVES_SEEDS=1..40 pytest tests/unit/cluster/test_random_moves.py`; each takes about ten seconds. A seed
decides what is asked for, not what comes of it.
"""

import asyncio
import os
import random
from contextlib import suppress

import pytest

from cluster.errors import ControllerUnavailableError
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.cluster.test_moves import (
    NODES,
    acknowledged,
    ask,
    assert_kept,
    assigned,
    movable,
    until_held,
    writes,
)

STEPS = 14
_FIRST, _LAST = map(int, os.environ.get("MOVES_SEEDS", "1..2").split(".."))


class Operator:
    """Asks for moves, and stops one node at a time."""

    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.rng = random.Random(seed)
        self.down = None

    async def step(self):
        if self.rng.random() < 0.55:
            target = self.rng.sample(NODES, self.rng.choice([1, 2, 3, 3, 3])) if self.rng.random() < 0.8 else None
            # Without a leader of raft0 nobody knows what came of it.
            with suppress(ControllerUnavailableError):
                refused = await ask(self.cluster, (0, target), through=next(iter(self.cluster.nodes)))
                assert refused in ({}, {0: "NoReassignmentError"})
        elif self.down is None:
            self.down = self.rng.choice(NODES)
            await self.cluster.stop(self.down)
        else:
            await self.start()
        await asyncio.sleep(self.rng.choice([0.0, 0.1, 0.5, 1.5]))

    async def start(self):
        if self.down is not None:
            await self.cluster.start(self.down)
            self.down = None


@pytest.mark.parametrize("seed", range(_FIRST, _LAST + 1))
def test_what_was_acknowledged_is_where_the_partition_ends_up(tmp_path, seed):
    async def test():
        async with movable(tmp_path) as cluster:
            await assigned(cluster, 1, 2, 3)
            operator = Operator(cluster, seed)
            async with writes(cluster) as written:
                for _ in range(STEPS):
                    await operator.step()
                await operator.start()
                target = operator.rng.sample(NODES, 3)
                assert await ask(cluster, (0, target)) == {}
                group = await until_held(cluster, *target)
                count = len(written)
                await until(lambda: len(written) > count + 2)
            assert_kept(written, await acknowledged(cluster, group, *target))

    run(test, seconds=120)
