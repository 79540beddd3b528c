"""Brokers are decommissioned and taken back at random while nodes stop and start: raft0 keeps what it acknowledged.

More seeds: `RAFT0_SEEDS=1..40 pytest tests/unit/cluster/test_random_raft0_moves.py`; each takes about ten seconds. A
seed decides what is asked for, not what comes of it.
"""

import asyncio
import os
import random
from contextlib import suppress

import pytest

from cluster.errors import ClusterError, TopicExistsError
from cluster.raft0_voters import voter_count
from tests.unit.cluster.cluster_nodes import create_request, run, until
from tests.unit.cluster.test_raft0_moves import founded, gone, has_settled, settled

NODES = 6
STEPS = 12
_FIRST, _LAST = map(int, os.environ.get("RAFT0_SEEDS", "1..2").split(".."))


class Operator:
    """Decommissions, takes back, stops and starts; one node at a time is down."""

    def __init__(self, cluster, patch, seed):
        self.cluster = cluster
        self.patch = patch
        self.rng = random.Random(seed)
        self.down = None
        self.leaving = set()
        self.created = []

    async def step(self):
        if self.rng.random() < 0.5:
            changed = self.leaving ^ {self.rng.randint(1, NODES)}
            # Somebody must be left to vote.
            self.leaving = changed if len(changed) < NODES else self.leaving
            gone(self.patch, leaving=frozenset(self.leaving))
        elif self.down is None:
            self.down = self.rng.randint(1, NODES)
            await self.cluster.stop(self.down)
        else:
            await self.start()
        await asyncio.sleep(self.rng.choice([0.0, 0.2, 1.0, 2.0]))
        await self.create()

    async def create(self):
        """Ask any node; what it acknowledges must stay."""
        node = self.rng.choice(list(self.cluster.nodes))
        name = f"t{len(self.created)}"
        # Without a leader of raft0 nobody knows what came of it: it is asked for again.
        with suppress(ClusterError):
            with suppress(TopicExistsError):
                await self.cluster[node].admin.create_topic(create_request(name, timeout=3.0))
            self.created.append(name)

    async def start(self):
        if self.down is not None:
            await self.cluster.start(self.down)
            self.down = None


@pytest.mark.parametrize("seed", range(_FIRST, _LAST + 1))
def test_raft0_keeps_what_it_acknowledged_and_has_the_voters_that_are_wanted(tmp_path, monkeypatch, seed):
    async def test():
        async with founded(tmp_path, NODES) as cluster:
            await settled(cluster, 5)
            operator = Operator(cluster, monkeypatch, seed)
            for _ in range(STEPS):
                await operator.step()
            await operator.start()
            count = voter_count(NODES - len(operator.leaving))
            # Who leaves votes no more, as soon as somebody has taken its place.
            await until(
                lambda: (
                    has_settled(cluster, count)
                    and not {voter.node_id for voter in cluster[1].controller.raft0.voters} & operator.leaving
                ),
                seconds=60,
            )
            await until(lambda: len({node.controller.applied_index for node in cluster.nodes.values()}) == 1)
            for node in cluster.nodes.values():
                assert {*operator.created} <= {topic.name for topic in node.controller.topics.all()}
            states = {b"".join(node.controller._state.snapshot()) for node in cluster.nodes.values()}
            assert len(states) == 1

    run(test, seconds=200)
