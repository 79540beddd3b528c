"""Idempotent producers of a simulated run: they live outside the brokers, and retry until acks=all has said yes.

Each has five batches in flight at most and sends them in order; what it has given up waiting for may arrive later all
the same. Now and then it sends with acks=1 and takes no answer for one: the retry at acks=all meets an original that is
written but not committed (counterexample 8).
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from cluster.producer_errors import DuplicateSequenceError, OutOfOrderSequenceError, ProducerRefusedError
from model.ids import ConsistencyLevel, GroupId
from raft.errors import RaftError
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.cluster import SimCluster
from tests.simulation.world.replica_view import Ghost, ReplicaView, content_key
from tests.unit.model.record_batches import build_batch

QUORUM, LEADER = ConsistencyLevel.QUORUM_ACK, ConsistencyLevel.LEADER_ACK

_IN_FLIGHT_MAX = 5
_DEADLINE_SECONDS = 5.0
# Far above what the brokers hand out in a run.
_FIRST_PRODUCER_ID = 1_000_000


@dataclass(slots=True, eq=False)
class ClientBatch:
    """A batch until acks=all has confirmed it. `busy_until`: when the client no longer waits for the last attempt."""

    first: int
    count: int
    payload: bytes
    content: bytes
    busy_until: float = 0.0
    is_done: bool = False


class ProducersInOrder(Invariant):
    """What is committed of a producer has its sequence numbers from 0, each once, in order."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self.batches: dict[bytes, tuple[int, ClientBatch]] = {}
        self._next: dict[tuple[GroupId, int], int] = {}

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        for ghost in new:
            if ghost.content in self.batches:
                producer_id, batch = self.batches[ghost.content]
                key = (view.group, producer_id)
                expected = self._next.get(key, 0)
                if batch.first != expected:
                    self.violated(view, f"producer {producer_id}: sequence {batch.first} after {expected - 1}")
                self._next[key] = batch.first + batch.count
                self.history.counts["idempotent batches committed"] += 1

    def committed_of(self, group: GroupId, producer_id: int) -> int:
        """Return how many records of a producer are committed."""
        return self._next.get((group, producer_id), 0)


class IdempotentClient:
    """One producer of one partition."""

    def __init__(self, cluster: SimCluster, order: ProducersInOrder, number: int, rng: Random) -> None:
        self._cluster = cluster
        self._order = order
        self._rng = rng
        self._group_number = number % cluster.options.partitions
        self.producer_id = _FIRST_PRODUCER_ID + number
        self._window: deque[ClientBatch] = deque()
        self._next = 0
        self._acks_1 = rng.choice([0.0, 0.2, 0.5])
        self._patience = rng.choice([0.02, 0.3, 2.0])
        self._pause = rng.choice([0.005, 0.02, 0.1])
        self.is_producing = True

    @property
    def group(self) -> GroupId:
        return self._cluster.data_groups()[self._group_number]

    @property
    def is_idle(self) -> bool:
        """Everything is confirmed."""
        return not self._window

    @property
    def sent(self) -> int:
        """Records handed over so far."""
        return self._next

    def start(self) -> None:
        self._tick()

    def _tick(self) -> None:
        while self._window and self._window[0].is_done:
            self._window.popleft()
        if self.is_producing and len(self._window) < _IN_FLIGHT_MAX:
            self._window.append(self._new_batch())
        now = self._cluster.world.time
        node_id = self._target()
        for batch in self._window:
            if batch.is_done:
                continue
            if batch.busy_until <= now and node_id is not None:
                # At the end only acks=all is left: no bad luck may keep a batch open.
                acks_1 = self._acks_1 if self.is_producing else 0.0
                level = LEADER if self._rng.random() < acks_1 else QUORUM
                batch.busy_until = now + self._patience * self._rng.uniform(0.5, 2.0)
                self._cluster.world.nodes[node_id].spawn(self._attempt(node_id, batch, level))
        self._cluster.world.after(self._rng.expovariate(1 / self._pause), self._tick)

    def _new_batch(self) -> ClientBatch:
        count = self._rng.randrange(1, 4)
        values = [b"%d/%d" % (self.producer_id, self._next + position) for position in range(count)]
        payload = build_batch(*values, producer_id=self.producer_id, base_sequence=self._next)
        batch = ClientBatch(self._next, count, payload, content_key(payload))
        self._next += count
        self._cluster.history.sent.add(batch.content)
        self._order.batches[batch.content] = (self.producer_id, batch)
        return batch

    def _target(self) -> int | None:
        """Clients follow the newest epoch they have heard of; now and then they ask somebody else."""
        if self._rng.random() < 0.1:
            return self._rng.choice(sorted(self._cluster.nodes)) if self._cluster.nodes else None
        return self._cluster.leader_of(self.group)

    async def _attempt(self, node_id: int, batch: ClientBatch, level: ConsistencyLevel) -> None:
        counts = self._cluster.history.counts
        partition = self._cluster.partition(node_id, self.group)
        if partition is None or not partition.is_in_office:
            # Told so at once, a client asks somebody else soon.
            batch.busy_until = min(batch.busy_until, self._cluster.world.time + self._rng.uniform(0.0, 0.2))
            return
        is_head = batch is self._window[0]
        deadline = asyncio.get_running_loop().time() + _DEADLINE_SECONDS
        try:
            stages = partition.produce(bytearray(batch.payload), batch.count, level, deadline)
            await stages.enqueued
            result = await stages.replicated
        except ProducerRefusedError as error:
            counts[f"idempotent {type(error).__name__}"] += 1
            if not batch.is_done:
                self._on_refused(node_id, batch, error, is_head=is_head)
        except RaftError as error:
            counts[f"idempotent {type(error).__name__}"] += 1
            batch.busy_until = min(batch.busy_until, self._cluster.world.time + self._rng.uniform(0.0, 0.2))
        else:
            self._cluster.observe(node_id)
            self._cluster.observer.answered(node_id, self.group, level, batch.content, result)
            counts[f"idempotent acked {level.name}"] += 1
            if level is QUORUM:
                batch.is_done = True

    def _on_refused(self, node_id: int, batch: ClientBatch, error: ProducerRefusedError, *, is_head: bool) -> None:
        if isinstance(error, DuplicateSequenceError):
            # Success to a client, so it must be true.
            if self._order.committed_of(self.group, self.producer_id) < batch.first + batch.count:
                self._order.violated(None, f"{error}; but it is not committed")
            batch.is_done = True
        elif not isinstance(error, OutOfOrderSequenceError):
            self._order.violated(None, f"a producer of one epoch is refused: {error}")
        elif is_head:
            # Everything before it is confirmed: a client gives up here. Not even a deposed leader may say so.
            self._order.violated(None, f"the oldest open batch is out of order at its leader {node_id}: {error}")
        else:
            batch.busy_until = 0.0
