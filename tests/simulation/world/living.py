"""What is done to the members of a living run: partitions move, and faults strike amid the moves (RFC 0019).

The table `LIVING_KINDS` has what may be done. Its times and choices come from streams of their own, so a run whose
members do not change is what it was without this module.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from cluster.errors import ClusterError
from cluster.node import Node
from cluster.placements import AlterPlacementsRequest, WantedMove
from cluster.topic_table import Topic
from model.ids import GroupId
from raft.consensus import Consensus
from tests.simulation.world.ambush import wait_for_leader
from tests.simulation.world.cluster import TOPIC, SimCluster
from tests.simulation.world.living_brokers import LivingBrokers
from tests.simulation.world.living_upgrade import RollingUpgrade
from tests.simulation.world.nemesis import Nemesis

_TIMEOUT = 5.0
# A learner may wait for as long as its broker is away.
_AMBUSH_SECONDS = 8.0


class Act(NamedTuple):
    """One thing that is done: where its chances come from."""

    living: "Living"
    rng: Random


# Adds what it does to the cluster; its name is that of the fault.
LIVING_KINDS: dict[str, Callable[[Act], None]] = {}


def _kind(act: Callable[[Act], None]) -> Callable[[Act], None]:
    LIVING_KINDS[act.__name__] = act
    return act


@_kind
def move(act: Act) -> None:
    """A partition shall have as many replicas elsewhere."""
    act.living.ask(act.rng, lambda rng, now: act.living.sample(rng, len(now)))


@_kind
def change_count(act: Act) -> None:
    """A partition shall have more replicas, or fewer."""
    act.living.ask(act.rng, lambda rng, now: act.living.sample(rng, rng.choice([1, 2, 3, 3, 4, 5, 5])))


@_kind
def drain(act: Act) -> None:
    """A broker leads nothing and gets nothing for some time."""
    act.living.brokers.drain(act.rng)


@_kind
def join(act: Act) -> None:
    """A broker with an empty disk joins."""
    act.living.brokers.join(act.rng)


@_kind
def decommission(act: Act) -> None:
    """A broker is emptied and removed."""
    act.living.brokers.decommission(act.rng)


@_kind
def replace_disk(act: Act) -> None:
    """A broker loses its disk, and joins with an empty one."""
    act.living.brokers.replace_disk(act.rng)


@_kind
def old_disk_returns(act: Act) -> None:
    """A broker is started with a disk whose directory is retired."""
    act.living.brokers.old_disk_returns(act.rng)


@_kind
def upgrade(act: Act) -> None:
    """All brokers begin in the version before, and are upgraded one after the other."""
    act.living.upgrade.begin(act.rng)


@_kind
def cancel(act: Act) -> None:
    """A partition begins to move, and is wanted where it was: at any time, or once two sets of voters decide."""
    living, rng = act.living, act.rng
    is_late = rng.random() < 0.5
    delay = rng.choice([0.05, 0.5, 2.0])

    def take_back(number: int, group: GroupId) -> None:
        def strike(leader: int) -> None:
            living.alter(rng, number, group, None)

        if is_late:
            wait_for_leader(living.cluster, group, _MOMENTS["joint"], strike, _AMBUSH_SECONDS)
        else:
            living.cluster.world.after(delay, strike, 0)

    found = living.ask(rng, lambda rng, now: living.sample(rng, len(now)), TOPIC)
    if found is not None:
        take_back(*found)


# What a leader has on its way.
_MOMENTS: dict[str, Callable[[int, Consensus], bool]] = {
    "learners": lambda leader, consensus: bool(consensus.configuration.learners),
    "joint": lambda leader, consensus: consensus.configuration.is_joint,
    "uncommitted": lambda leader, consensus: not consensus.state.configurations.is_committed,
    "new": lambda leader, consensus: (
        not consensus.configuration.is_joint
        and not consensus.configuration.learners
        and not consensus.state.configurations.is_committed
    ),
}


class Living:
    """Changes members until the nemesis stops, with faults of its own amid each change.

    Args:
        cluster: The cluster; it was founded with the feature.
        nemesis: Counts what is done, and mends what is broken.
        rng: Of times and kinds; all else comes from the stream that the nemesis gives each.
    """

    def __init__(self, cluster: SimCluster, nemesis: Nemesis, rng: Random) -> None:
        self.cluster = cluster
        self._nemesis = nemesis
        self._rng = rng
        # Swarm: what is done, how often, and whether something strikes in the middle.
        self.kinds = [kind for kind in LIVING_KINDS if rng.random() < 0.8 and kind != "upgrade"] or ["move"]
        self._mean_pause = rng.choice([1.0, 2.0, 4.0])
        self._strikes = rng.choice([0.2, 0.5, 0.8])
        self.brokers = LivingBrokers(cluster, nemesis, self._strikes)
        self.upgrade = RollingUpgrade(cluster, nemesis, self.brokers)

    @property
    def nodes(self) -> list[int]:
        """Where replicas can be, by the newest tables."""
        node = self.brokers.newest()
        if node is None:
            return self.cluster.members
        members = node.controller.members
        return [int(member.node_id) for member in members.admitted() if not members.is_retired(member)]

    def sample(self, rng: Random, count: int) -> list[int]:
        """Return so many brokers, or all that there are."""
        nodes = self.nodes
        return rng.sample(nodes, min(count, len(nodes)))

    def start(self) -> None:
        """Begin."""
        if self.cluster.older:
            self._act_by("upgrade")
        self._schedule()

    def _schedule(self) -> None:
        pause = min(self._rng.expovariate(1 / self._mean_pause), 3 * self._mean_pause)
        self.cluster.world.after(pause, self._act)

    def _act(self) -> None:
        if self._nemesis.is_stopped:
            return
        kind = self._rng.choice(self.kinds)
        self._schedule()
        self._act_by(kind)

    def _act_by(self, kind: str) -> None:
        rng = self._nemesis.begin(kind)
        if rng is not None:
            LIVING_KINDS[kind](Act(self, rng))

    # -- moves --------------------------------------------------------------------------------------------------

    def ask(
        self, rng: Random, choose: Callable[[Random, list[int]], list[int]], name: str | None = None
    ) -> tuple[int, GroupId] | None:
        """Ask for other replicas of a partition, and let something strike on the way.

        Args:
            rng: The stream of this change.
            choose: Returns the nodes that shall hold it, given those that do, or will.
            name: Of the topic; None: the one that records go to, or any.

        Returns:
            The partition's number and its group; None: nobody could be asked.
        """
        topic = self._topic(rng, name)
        if topic is None:
            return None
        number = rng.randrange(len(topic.replicas))
        move = topic.move_of(number)
        now = [int(each.node_id) for each in (topic.replicas[number] if move is None else move.target)]
        target = choose(rng, now)
        for poor in (self._nemesis.rotting, self.brokers.replaced):
            if len(target) < 3 and poor in target:
                # What has rotted there, and was not read yet, no majority without it would have; nor what is lost.
                others = [
                    node for node in self.nodes if node not in (self._nemesis.rotting, self.brokers.replaced, *target)
                ]
                target = [others[0] if node == poor and others else node for node in target]
        self.brokers.note_target(target)
        group = topic.group(number)
        if len(target) < 3:
            self._nemesis.keep_sound(group)
        self.alter(rng, number, group, target)
        if rng.random() < self._strikes:
            self._strike_amid(rng, group)
        return number, group

    def alter(self, rng: Random, number: int, group: GroupId, target: list[int] | None) -> None:
        """Ask some broker; None: take the move back."""
        node = self._any_node(rng)
        if node is None or self._nemesis.is_stopped:
            return
        topic = next((each for each in node.controller.topics.all() if group.startswith(each.topic_id)), None)
        if topic is not None:
            wanted = WantedMove(topic.name, number, target)
            self.cluster.world.nodes[node.options.node_id].spawn(self._alter(node, wanted))

    async def _alter(self, node: Node, wanted: WantedMove) -> None:
        counts = self.cluster.history.counts
        try:
            reply = await node.placements.alter(AlterPlacementsRequest([wanted], True, _TIMEOUT))
        except ClusterError as error:
            counts[f"alter placements {type(error).__name__}"] += 1
        else:
            for refused in reply.refused or [None]:
                counts[f"alter placements {'NONE' if refused is None else refused.error}"] += 1

    def _any_node(self, rng: Random) -> Node | None:
        up = [node for node in self.cluster.nodes.values() if hasattr(node, "backend") and node.is_registered.is_set()]
        return rng.choice(up) if up else None

    def _topic(self, rng: Random, name: str | None) -> Topic | None:
        node = self._any_node(rng)
        if node is None:
            return None
        if name is not None or rng.random() < 0.7:
            return node.controller.topics.get(name or TOPIC)
        return rng.choice(node.controller.topics.all() or [None])

    # -- what strikes amid a change -----------------------------------------------------------------------------

    def _strike_amid(self, rng: Random, group: GroupId) -> None:
        moment = rng.choice(list(_MOMENTS))
        how = rng.choice([self._kill, self._lose_power, self._kill_all, self._isolate, self._cut_member, self._slow])

        def strike(leader: int) -> None:
            consensus = self.cluster.consensus(leader, group)
            if self._nemesis.is_stopped or consensus is None:
                return
            self.cluster.world.record("amid", leader, (moment, how.__name__))
            self.cluster.history.counts[f"strikes amid: {moment}"] += 1
            how(rng, leader, [int(node) for node in consensus.configuration.node_ids])

        wait_for_leader(self.cluster, group, _MOMENTS[moment], strike, _AMBUSH_SECONDS)

    def _kill(self, rng: Random, leader: int, members: list[int]) -> None:
        self._nemesis.crash(rng.choice([leader, rng.choice(members)]), power_loss=False)

    def _lose_power(self, rng: Random, leader: int, members: list[int]) -> None:
        self._nemesis.crash(rng.choice([leader, rng.choice(members)]), power_loss=True)

    def _kill_all(self, rng: Random, leader: int, members: list[int]) -> None:
        for node_id in members:
            self._nemesis.crash(node_id, power_loss=False)

    def _isolate(self, rng: Random, leader: int, members: list[int]) -> None:
        self._nemesis.cut_off(
            leader, [node for node in self.cluster.world.nodes if node != leader], rng.uniform(0.5, 5.0)
        )

    def _cut_member(self, rng: Random, leader: int, members: list[int]) -> None:
        others = [node for node in members if node != leader]
        if others:
            self._nemesis.cut_off(leader, [rng.choice(others)], rng.uniform(0.5, 5.0))

    def _slow(self, rng: Random, leader: int, members: list[int]) -> None:
        disk = self.cluster.world.nodes[rng.choice(members)].disk
        disk.slow_factor = rng.choice([10.0, 100.0])
        self.cluster.world.after(
            rng.uniform(0.5, 5.0), lambda: None if self._nemesis.is_stopped else setattr(disk, "slow_factor", 1.0)
        )
