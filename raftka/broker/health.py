"""`GET /v1/health`: what this broker finds wrong with the cluster, by the rules of `raftka.health`.

{"node_id": N, "worst": LEVEL, "findings": [{"level", "what", "words", "cause", "cure"}],
 "broker": {"version", "disk_spare_bytes", "stalled": [[topic, partition]], "events_lost", "events_span",
            "features": {name: highest}, "levels": {name: level}, "unleft": [[partition, why]],
            "transactions": [{"topic", "partition", "producer_id", "epoch", "first_offset", "open_seconds",
                              "max_seconds"}],
            "uncompacted": [partition], "held_deletes": [[node, partitions, seconds]]}}

`broker` holds what only this broker knows: `raftka doctor` puts it into its own picture. `transactions` are those that
have been open for longest in partitions that it leads. `uncompacted` are replicas over which it makes no pass of log
compaction any more; `held_deletes` says because of whom tombstones stay in partitions that it leads.
"""

import asyncio
import heapq
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from aiohttp import web

from cluster.broker_waits import retired_voters, waits_for_force
from cluster.members_table import BrokerState
from cluster.node import Node
from cluster.topic_table import Topic
from model.features import told_features
from model.ids import GroupId, NodeId
from raftka.broker.bounds import node_fills
from raftka.broker.broker_rows import raft0_role
from raftka.broker.stall_watch import StallWatch
from raftka.health.findings import Finding, to_json, worst
from raftka.health.picture import (
    RATE_KEYS,
    THROTTLED_KEYS,
    BoundFill,
    BrokerPicture,
    MemberPicture,
    MovePicture,
    PartitionPicture,
    Picture,
    TopicPicture,
    TransactionPicture,
)
from raftka.health.refusals import RefusedLink
from raftka.health.rules import RULES, in_order
from raftka.version import installed_version

# Other tasks run after so many partitions.
_PARTITIONS_PER_STEP = 100
# Those that have been open for longest.
_TRANSACTIONS_MAX = 20
# So long everybody who asks gets the same answer.
_KEPT_SECONDS = 1.0


class _Judged(NamedTuple):
    """What was found at `at` (loop time), as JSON."""

    at: float
    body: bytes


class HealthReader:
    """Fills the picture from the tables of one node, and judges it.

    Args:
        node: Started.
        stalls: Which partitions of it are stalled; its owner starts and stops it.
        not_ready: Why this broker is not ready, and the cure if there is one to name; None: it is ready.
        refused: Why links with other brokers are refused, by node id.
    """

    def __init__(
        self,
        node: Node,
        stalls: StallWatch,
        not_ready: Callable[[], tuple[str, str | None] | None],
        refused: Callable[[], Mapping[int, RefusedLink]] = dict,
    ) -> None:
        self._node = node
        self._not_ready = not_ready
        self._refused = refused
        self._version = installed_version()
        self._stalls = stalls
        self._judging = asyncio.Lock()
        self._last: _Judged | None = None

    async def answer(self, _: web.Request) -> web.Response:
        """Answer `GET /v1/health`."""
        return web.Response(body=await self._judged(), content_type="application/json", charset="utf-8")

    async def _judged(self) -> bytes:
        # Who asks meanwhile waits for the same answer; it waits for nothing but steps of the loop.
        async with self._judging:
            now = asyncio.get_running_loop().time()
            if self._last is None or now - self._last.at >= _KEPT_SECONDS:
                self._last = _Judged(now, await self._judge())
            return self._last.body

    async def _judge(self) -> bytes:
        picture = in_order(await self.read_picture())
        findings: list[Finding] = []
        for rule in RULES:
            findings += rule.check(picture)
            await asyncio.sleep(0)
        own = next(each for each in picture.brokers if each.node_id == self._node.options.node_id)
        stalled = [[each.topic, each.number] for each in picture.partitions or () if each.is_stalled]
        return json.dumps(
            {
                "node_id": own.node_id,
                "worst": worst(findings).value,
                "findings": [to_json(each) for each in findings],
                "broker": {
                    "version": own.version,
                    "disk_spare_bytes": own.disk_spare_bytes,
                    "stalled": stalled,
                    "events_lost": own.events_lost,
                    "events_span": own.events_span,
                    "features": own.features,
                    "levels": own.levels,
                    "unleft": own.unleft,
                    "transactions": [_transaction_row(each) for each in own.transactions],
                    "uncompacted": own.uncompacted,
                    "held_deletes": own.held_deletes,
                },
            }
        ).encode()

    async def read_picture(self) -> Picture:
        """Return what this broker knows of the cluster; other tasks run between its steps.

        Before it is registered its tables may be as old as its last life: then it knows of no partition.
        """
        node = self._node
        leader = node.controller.leader_id
        partitions, topics = await self._read_topics() if node.is_registered.is_set() else (None, ())
        return Picture(
            brokers=tuple(
                replace(each, member=self._member(each.node_id), throttles=self._throttles(each.node_id))
                for each in self._brokers()
            ),
            controller=-1 if leader is None else leader,
            partitions=partitions,
            topics=topics,
            moves=await self._moves(),
        )

    def _throttles(self, node_id: int) -> tuple[str, ...]:
        options = self._node.controller.options
        return tuple(key for key in RATE_KEYS if key in options.of(NodeId(node_id)) or key in options.of(None))

    async def _moves(self) -> tuple[MovePicture, ...] | None:
        node = self._node
        if not node.is_registered.is_set():
            return None
        if not node.controller.topics.is_moving:
            return ()
        return tuple(
            MovePicture(
                *(each.topic.name, each.number, tuple(int(replica.node_id) for replica in each.move.target)),
                *(each.move.is_cancelled, each.state, each.waits_for),
                None if each.replica is None else each.replica.idle_ms / 1000,
                *(each.lost, each.away, each.retired),
                origin=tuple(int(replica.node_id) for replica in each.move.origin),
            )
            for each in await node.move_status.read()
        )

    def _brokers(self) -> tuple[BrokerPicture, ...]:
        node = self._node
        kafka = {each.node_id: f"{each.kafka_host}:{each.kafka_port}" for each in node.controller.members.all()}
        features = {each.node_id: each.features for each in node.controller.members.all()}
        refused = self._refused()
        # Before raft0 is read these are the founders. A broker that was removed is not among them.
        admitted = (int(each.node_id) for each in node.controller.members.admitted())
        nodes = sorted({*kafka, *admitted, int(node.options.node_id)})
        return tuple(
            self._own(kafka.get(each, ""))
            if each == node.options.node_id
            else replace(
                self._other(each, kafka.get(each, ""), refused.get(each)), **self._features(features.get(each))
            )
            for each in nodes
        )

    def _member(self, node_id: int) -> MemberPicture | None:
        """Return what raft0's table has of a broker: nothing while it may be as old as this broker's last life."""
        node = self._node
        member = node.controller.members.member(NodeId(node_id))
        if member is None or not node.is_registered.is_set():
            return None
        is_to_be_empty = member.state is BrokerState.DECOMMISSIONING
        return MemberPicture(
            member.state.value,
            node.broker_watch.seconds_in_state(member.node_id),
            node.broker_watch.seconds_without_progress(member.node_id),
            node.controller.members.is_retired(member),
            raft0_role(node, member),
            node.controller.topics.replica_count(member.node_id) if is_to_be_empty else 0,
        )

    def _other(self, node_id: int, kafka: str, refused: RefusedLink | None) -> BrokerPicture:
        return BrokerPicture(
            node_id,
            kafka=kafka,
            answers=self._node.is_alive(NodeId(node_id)),
            refused="" if refused is None else refused.words,
            refused_cure="" if refused is None else refused.cure,
            refused_age=None if refused is None else refused.age,
            is_disk_short=node_id in self._node.groups.limits.disk.nodes_below,
        )

    def _features(self, features: Mapping[str, int] | None) -> dict[str, Any]:
        """Return what a broker can and does use, as raft0's tables have it; nothing of one that is not registered."""
        known = features is not None and self._node.is_registered.is_set()
        return {"features": features, "levels": self._node.controller.features.all()} if known else {}

    def _own(self, kafka: str) -> BrokerPicture:
        node = self._node
        not_ready = self._not_ready()
        reason, cure = ("", None) if not_ready is None else not_ready
        lost, span = node.events.lost()
        return BrokerPicture(
            node.options.node_id,
            kafka=kafka,
            answers=True,
            runs=True,
            is_ready=not_ready is None,
            not_ready=reason,
            cure=cure or "",
            version=self._version,
            configs={"disk.reserve.bytes": str(node.options.raft.disk_reserve_bytes)},
            fills=tuple(BoundFill(*fill) for fill in node_fills(node)),
            # Exactly 0 is what it is before the first look at the disk.
            disk_spare_bytes=node.groups.limits.disk.spare_bytes or None,
            events_lost=lost,
            events_span=span,
            unleft=tuple(node.backend.unleft.items()),
            transactions=self._transactions(),
            uncompacted=tuple(partition.name for partition in node.compactor.suspended()),
            held_deletes=self._held_deletes(),
            **self._features(told_features(node.options.features)),
        )

    def _transactions(self) -> tuple[TransactionPicture, ...]:
        now, watch = asyncio.get_running_loop().time(), self._stalls.transactions
        oldest = heapq.nsmallest(_TRANSACTIONS_MAX, watch.led(), key=lambda each: each.since)
        return tuple(
            TransactionPicture(
                *(each.partition.topic.name, each.partition.partition),
                *(each.transaction.producer_id, each.transaction.epoch, each.transaction.first_offset),
                *(now - each.since, watch.max_timeout_seconds),
            )
            for each in oldest
        )

    def _held_deletes(self) -> tuple[tuple[int, int, float], ...]:
        since: dict[int, list[float]] = {}
        for seen in self._node.compactor.seen():
            if seen.held_since is not None:
                for node_id in seen.holders:
                    since.setdefault(node_id, []).append(seen.held_since)
        now = asyncio.get_running_loop().time()
        return tuple((node_id, len(times), round(now - min(times), 3)) for node_id, times in sorted(since.items()))

    async def _read_topics(self) -> tuple[tuple[PartitionPicture, ...], tuple[TopicPicture, ...]]:
        stalled = self._stalls.groups()
        partitions: list[PartitionPicture] = []
        topics = []
        for topic in self._node.controller.topics.all():
            throttles = tuple(key for key in THROTTLED_KEYS if topic.overrides.get(key))
            config = topic.config
            topics.append(
                TopicPicture(topic.name, config.min_insync_replicas, config.write_caching, throttles=throttles)
            )
            for number in range(len(topic.replicas)):
                partitions.append(self._partition(topic, number, stalled))
                if len(partitions) % _PARTITIONS_PER_STEP == 0:
                    await asyncio.sleep(0)
        return tuple(partitions), tuple(topics)

    def _partition(self, topic: Topic, number: int, stalled: set[GroupId]) -> PartitionPicture:
        group = topic.group(number)
        leader = self._node.leadership.leader_of(group)
        retired = self._node.controller.members.retired
        move = topic.move_of(number)
        # The last leader that was heard of may be dead, and with a single replica there will be no other.
        if leader is not None and (not self._node.is_alive(leader.node_id) or waits_for_force(topic, number, retired)):
            leader = None
        return PartitionPicture(
            topic.name,
            number,
            None if leader is None else int(leader.node_id),
            tuple(int(replica.node_id) for replica in topic.replicas[number]),
            () if leader is None else tuple(int(node) for node in leader.in_sync),
            topic.config.min_insync_replicas,
            group in stalled,
            retired_voters(topic, number, retired),
            () if move is None else tuple(int(replica.node_id) for replica in move.target),
        )


def _transaction_row(each: TransactionPicture) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.number,
        "producer_id": each.producer_id,
        "epoch": each.epoch,
        "first_offset": each.first_offset,
        "open_seconds": round(each.open_seconds, 3),
        "max_seconds": each.max_seconds,
    }
