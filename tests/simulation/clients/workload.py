"""Producers and consumers of a simulated run: they live and die with the broker they talk to.

Every batch is unique, so that a history can be told from what was sent, acknowledged and read. Levels are mixed
within one partition: quorum_ack and leader_ack share one path, and that path is what is attacked.
"""

import asyncio
import struct
from collections import Counter
from random import Random

import crc32c

from model.ids import ConsistencyLevel, GroupId
from raft.errors import RaftError
from storage.errors import StorageError
from tests.simulation.world.cluster import SimCluster
from tests.simulation.world.replica_view import content_key

_RECORD_HEAD = struct.Struct(">hiqqqhii")
_BATCH_HEAD = struct.Struct(">qiibI")
_DEADLINE_SECONDS = 5.0


def record_batch(values: list[bytes]) -> bytearray:
    """Return an uncompressed v2 batch; values of up to 63 bytes."""
    records = b""
    for position, value in enumerate(values):
        body = bytes([0, 0, 2 * position, 1]) + _varint(len(value)) + value + b"\0"
        records += _varint(len(body)) + body
    count = len(values)
    body = _RECORD_HEAD.pack(0, count - 1, 1000, 1000, -1, -1, -1, count) + records
    return bytearray(_BATCH_HEAD.pack(0, 9 + len(body), 0, 2, crc32c.crc32c(body)) + body)


def _varint(number: int) -> bytes:
    zigzag, out = number << 1, bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


class Workload:
    """What all clients of one run share.

    Attributes:
        is_producing: Set it to False and producers end.
        open_calls: Produce calls without an answer, by (node, life): those of ended lives stay open for ever.
    """

    def __init__(self, cluster: SimCluster, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._next = 0
        self.is_producing = True
        # Swarm: how often each level is chosen, how long producers pause, how large batches are.
        self._weights = [rng.choice([0, 1, 1, 4]) + 0.1 for _ in ConsistencyLevel]
        self._pause = rng.choice([0.02, 0.06, 0.2])
        self._large = rng.choice([0.0, 0.02, 0.1])
        self._delete_pause = rng.choice([None, 1.0, 4.0])
        self.open_calls: Counter[tuple[int, int]] = Counter()

    @property
    def acked(self) -> int:
        """How many batches were acknowledged."""
        return self._cluster.history.counts["acked"]

    def note_fault(self, kind: str) -> None:
        """Something was done to the cluster; the invariants see what."""

    def stop(self) -> None:
        """Producers end after the batch at hand."""
        self.is_producing = False

    def finish(self, seconds: float) -> None:
        """Judge what clients have seen, at the end of the run.

        Raises:
            AssertionError: Some were never answered.
        """
        if self.hanging():
            raise AssertionError(f"{self.hanging()} produce calls were never answered")

    def hanging(self) -> int:
        """Return how many calls of lives that go on have no answer."""
        nodes = self._cluster.world.nodes.values()
        return sum(self.open_calls[(node.node_id, node.incarnation)] for node in nodes if node.is_alive)

    def start(self, node_id: int) -> None:
        """Start the clients of a broker's new life."""
        node = self._cluster.world.nodes[node_id]
        stream, life = self._cluster.world.stream, f"{node_id}/{node.incarnation}"
        for client in range(3):
            node.spawn(self._produce(node_id, stream(f"producer/{client}/{life}")))
        node.spawn(self._consume(node_id, stream(f"consumer/{life}")))
        if self._delete_pause is not None:
            node.spawn(self._delete(node_id, stream(f"deleter/{life}"), self._delete_pause))

    async def _produce(self, node_id: int, rng: Random) -> None:
        loop = asyncio.get_running_loop()
        while self.is_producing:
            await asyncio.sleep(rng.expovariate(1 / self._pause))
            group = rng.choice(self._cluster.data_groups())
            partition = self._cluster.partition(node_id, group)
            if partition is None or (not partition.is_in_office and rng.random() < 0.9):
                await asyncio.sleep(0.05)
                continue
            level = rng.choices(list(ConsistencyLevel), self._weights)[0]
            batch = self._batch(rng)
            content, count = content_key(batch), _count_of(batch)
            self._cluster.history.sent.add(content)
            stages = partition.produce(batch, count, level, loop.time() + _DEADLINE_SECONDS)
            await stages.enqueued
            waiting = self._await_answer(node_id, group, level, content, stages.replicated)
            if rng.random() < 0.5:
                # A pipelining client: the next request does not wait for this answer.
                self._cluster.world.nodes[node_id].spawn(waiting)
            else:
                await waiting

    async def _await_answer(self, node_id, group: GroupId, level, content: bytes, replicated) -> None:
        counts = self._cluster.history.counts
        life = (node_id, self._cluster.world.nodes[node_id].incarnation)
        self.open_calls[life] += 1
        try:
            # The broker's own deadline must end every call: one more second and it hangs.
            async with asyncio.timeout(_DEADLINE_SECONDS + 1):
                result = await replicated
        except RaftError as error:
            counts[f"produce {type(error).__name__}"] += 1
        else:
            counts[f"acked {level.name}"] += 1
            counts["acked"] += 1
            self._cluster.observe(node_id)
            self._cluster.observer.answered(node_id, group, level, content, result)
        self.open_calls[life] -= 1

    async def _delete(self, node_id: int, rng: Random, pause: float) -> None:
        counts, loop = self._cluster.history.counts, asyncio.get_running_loop()
        while self.is_producing:
            await asyncio.sleep(rng.expovariate(1 / pause))
            partition = self._cluster.partition(node_id, rng.choice(self._cluster.data_groups()))
            if partition is None or not partition.is_in_office:
                continue
            offset = rng.randint(partition.start_offset, max(partition.start_offset, partition.high_watermark))
            try:
                start = await partition.delete_records(offset, loop.time() + _DEADLINE_SECONDS)
            except (RaftError, StorageError) as error:
                counts[f"delete {type(error).__name__}"] += 1
            else:
                assert start >= offset
                counts["records deleted"] += 1

    def _batch(self, rng: Random) -> bytearray:
        self._next += 1
        count = rng.randrange(1, 4)
        values = [b"%d-%d" % (self._next, position) for position in range(count)]
        if rng.random() < self._large:
            values[0] += b"x" * rng.randrange(1, 20_000)
        return record_batch(values)

    async def _consume(self, node_id: int, rng: Random) -> None:
        offsets: dict[GroupId, int] = {}
        while True:
            await asyncio.sleep(rng.expovariate(10))
            group = rng.choice(self._cluster.data_groups())
            partition = self._cluster.partition(node_id, group)
            if partition is None or not partition.is_in_office:
                continue
            offset = max(offsets.get(group, 0), partition.start_offset)
            term = partition.leader_epoch
            try:
                batches = await partition.fetch(offset, 64 * 1024)
            except StorageError:
                continue
            if not partition.is_in_office or partition.leader_epoch != term:
                continue
            self._cluster.observe(node_id)
            for batch in batches:
                base, count = int.from_bytes(batch[:8], "big"), _count_of(batch)
                self._cluster.observer.read(node_id, group, base, count, content_key(batch))
                offsets[group] = base + count
            if not batches and rng.random() < 0.2:
                offsets[group] = 0


def _count_of(batch) -> int:
    return int.from_bytes(memoryview(batch)[57:61], "big")
