"""What an operator of a living run does to brokers: they are drained, they join and leave, and get other disks (RFC 0020).

What is begun is brought to its end, also when the faults are over: at the end of the run the cluster is what its tables
say. Nobody does what no operator may: a disk is lost only while no group needs it.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple, TypeGuard

from cluster.broker_changes import ChangeBrokerRequest
from cluster.errors import BrokerInUseError, InvalidReplicationFactorError, UnknownBrokerError
from cluster.members_table import BrokerState, Member, MembersTable
from cluster.node import Node
from model.features import BROKERS_LEVEL, MEMBERSHIP
from model.ids import RAFT0, NodeId, Replica
from raft.group_configuration import GroupConfiguration
from rpc.errors import HandshakeRefusedError
from tests.simulation.world.cluster import DiskImage, SimCluster
from tests.simulation.world.errand import Errand
from tests.simulation.world.nemesis import Nemesis
from tests.simulation.world.sim_disk import Directory

# As many brokers stay, at least, and as many at most may not get anything.
_BROKERS_MIN = 4
_DRAINING_MAX = 2
_TIMEOUT = 5.0
_LOOK_SECONDS = 0.25
# After so long nobody counts any more what a broker has answered before it went down.
_SILENCE = 3.0
# For so long a request for few replicas may be under way.
_REQUEST_SECONDS = 7.0
# Longer than a majority takes to decide on what is in the log of raft0's leader, without faults.
_DOUBT_SECONDS = 2.0
# What may be under way when something strikes, and is no change of one broker.
UPGRADE = "an upgrade"
STRUCK_CHANGES = (
    *("a drain", "a join", "a decommission", "the loss of a disk", "the return of an old disk"),
    UPGRADE,
)


class _OldDisk(NamedTuple):
    """A disk whose directory is retired, and where it was."""

    node_id: int
    image: DiskImage


class LivingBrokers:
    """See the module.

    Args:
        cluster: The cluster.
        nemesis: Starts and ends brokers.
        strikes: How likely something strikes amid a change.
    """

    def __init__(self, cluster: SimCluster, nemesis: Nemesis, strikes: float) -> None:
        self._cluster = cluster
        self._nemesis = nemesis
        self._world = cluster.world
        self._strikes = strikes
        # Brokers to which something is being done.
        self._busy: dict[int, None] = {}
        self._draining: dict[int, None] = {}
        self._old_disks: list[_OldDisk] = []
        # The broker whose disk is being replaced.
        self.replaced: int | None = None
        # Until when a request for few replicas may be under way, and where they are wanted.
        self._small_targets: list[tuple[float, list[int]]] = []
        self._waiting: dict[int, Callable[[], None]] = {}
        self._number = 0
        self._is_hurried = False

    def hurry(self) -> None:
        """The faults are over: what waits for its time is done now."""
        self._is_hurried = True
        for number in list(self._waiting):
            self._run(number)

    def note_target(self, target: Sequence[int]) -> None:
        """A partition is asked to have these replicas; whoever is asked may take his time."""
        if len(target) < 3:
            self._small_targets.append((self._world.time + _REQUEST_SECONDS, list(target)))

    # -- kinds --------------------------------------------------------------------------------------------------

    def drain(self, rng: Random) -> None:
        """A broker leads nothing and gets nothing for some time."""
        free = self._free()
        if not self._is_living() or not free or len(self._draining) >= _DRAINING_MAX:
            return
        node_id, seconds = rng.choice(free), rng.uniform(2.0, 8.0)
        self._draining[node_id] = None
        self._begin(node_id)

        def end() -> None:
            del self._draining[node_id]
            self._end(node_id)

        def undrain() -> None:
            self._count_if_idle(node_id)
            self._ask(rng, node_id, "undrain", end, end)

        self._ask(rng, node_id, "drain", lambda: self.later(seconds, undrain), end)
        self.strike_amid(rng, node_id, "a drain")

    def join(self, rng: Random) -> None:
        """A broker with an empty disk joins."""
        outside = [node_id for node_id in self._cluster.kept_down if node_id not in self._busy]
        if outside and self._is_living():
            self._join(rng, rng.choice(outside), "brokers that joined")

    def decommission(self, rng: Random) -> None:
        """A broker is emptied and removed, or somebody thinks better of it."""
        free = self._free()
        if (
            not self._is_living()
            or len(free) + len(self._draining) <= _BROKERS_MIN
            or any(member.state is BrokerState.DECOMMISSIONING for member in self._members().admitted())
        ):
            return
        node_id, seconds = rng.choice(free), rng.choice([None, None, None, 0.5, 4.0])
        lingers = rng.choice([0.0, 0.0, 2.0])
        self._begin(node_id)

        def removed() -> None:
            self._cluster.history.counts["brokers removed"] += 1
            self.later(lingers, lambda: self._take_out(node_id))

        def go_on() -> None:
            if seconds is None:
                self._ask(rng, node_id, "remove", removed, removed)
            else:
                self.later(seconds, lambda: self._ask(rng, node_id, "recommission", end, end))

        def end() -> None:
            self._end(node_id)

        def look() -> None:
            member = self._members().member(NodeId(node_id))
            if member is not None and member.state is BrokerState.DECOMMISSIONING:
                self._ask(rng, node_id, "recommission", end, end)
            else:
                end()

        def doubted() -> None:
            # What was asked for first may have its place in the log, and is decided by then.
            self._world.after(_DOUBT_SECONDS, look)

        self._ask(rng, node_id, "decommission", go_on, end, doubted=doubted)
        self.strike_amid(rng, node_id, "a decommission")

    def replace_disk(self, rng: Random) -> None:
        """A broker stops, its disk is lost, and it joins with an empty one."""
        free = [node_id for node_id in self._free() if self._nemesis.rotting in (None, node_id)]
        if not self._is_living() or not free or self.replaced is not None:
            return
        node_id = rng.choice(free)
        if not self._can_lose(node_id):
            self._cluster.history.counts["disks that somebody needs"] += 1
            return
        self.replaced = node_id
        self._begin(node_id)
        self._stop(node_id, power_loss=rng.random() < 0.5)
        self.later(_SILENCE, lambda: self._lose_disk(rng, node_id))

    def _lose_disk(self, rng: Random, node_id: int) -> None:
        def end() -> None:
            self.replaced = None

        # Where only brokers run that have not heard of it yet, or again, nobody knows what its disk is for. They may also
        # have heard of the disk before this one only: to retire that one again would not let the broker join.
        member = self._members().member(NodeId(node_id))
        if self._nemesis.is_stopped or not self._is_current(member) or not self._can_lose(node_id):
            self._cluster.history.counts["disks that somebody needs"] += 1
            self._start(node_id)
            self._end(node_id)
            end()
            return
        # By its name: a directory that has come in the place of another one is retired by no other way.
        directory = member.replica.directory_id
        image = self._cluster.lose_disk(node_id)
        # The machine runs without a broker: connections of its former life are reset.
        self._world.network.power_on(self._world.nodes[node_id].host)

        def retired() -> None:
            end()
            self._old_disks.append(_OldDisk(node_id, image))
            self._join(rng, node_id, "disks replaced")

        self._ask(rng, node_id, "retire", retired, retired, directory)
        self.strike_amid(rng, node_id, "the loss of a disk")

    def _is_current(self, member: Member | None) -> TypeGuard[Member]:
        replicas = self._cluster.observer.replicas()
        return member is not None and any(view.replica == member.replica for view in replicas)

    def old_disk_returns(self, rng: Random) -> None:
        """A broker is started with the disk that it had before: nobody may speak with it."""
        there = [each for each in self._old_disks if each.node_id not in self._busy]
        if not there:
            return
        old = rng.choice(there)
        node_id, is_outside = old.node_id, old.node_id in self._cluster.kept_down
        if self._nemesis.is_away(node_id) or (not is_outside and node_id not in self._free()):
            return
        self._begin(node_id)
        self._stop(node_id, power_loss=rng.random() < 0.5)
        own = self._cluster.put_disk(node_id, old.image)
        self._cluster.start(node_id)

        def put_back() -> None:
            self._look_at_returned(node_id)
            self._stop(node_id, power_loss=False)
            self._cluster.put_disk(node_id, own)
            if not is_outside:
                self._start(node_id)
            self._end(node_id)

        self.later(rng.uniform(1.0, 5.0), put_back)
        self.strike_amid(rng, node_id, "the return of an old disk")

    def _look_at_returned(self, node_id: int) -> None:
        node = self._cluster.nodes.get(node_id)
        if node is None or not hasattr(node, "links"):
            return
        refusals = [node.links.why_down(link.node_id) for link in node.links.outgoing()]
        if any(isinstance(each, HandshakeRefusedError) and each.by_peer for each in refusals):
            self._cluster.history.counts["old disks refused"] += 1

    # -- steps --------------------------------------------------------------------------------------------------

    def _begin(self, node_id: int) -> None:
        self._busy[node_id] = self._nemesis.spared[node_id] = None

    def _end(self, node_id: int) -> None:
        del self._busy[node_id], self._nemesis.spared[node_id]

    def _ask(
        self,
        rng: Random,
        node_id: int,
        change: str,
        done: Callable[[], None],
        refused: Callable[[], None],
        directory: str = "",
        doubted: Callable[[], None] | None = None,
    ) -> None:
        request = ChangeBrokerRequest(node_id, change, directory, validate_only=False, timeout=_TIMEOUT)
        # What is refused now and taken later: links are seen to be down, replicas move away.
        is_patient = change in ("retire", "remove")
        final = (InvalidReplicationFactorError, UnknownBrokerError, *(() if is_patient else (BrokerInUseError,)))

        async def ask(node: Node) -> None:
            await node.broker_changes.change(request)

        Errand(self._cluster, rng, change, ask, done, refused, final, node_id, doubted).begin()

    def _stop(self, node_id: int, *, power_loss: bool) -> None:
        """Stop a broker that only `_start` starts again."""
        self._cluster.kept_down[node_id] = None
        if self._cluster.is_up(node_id):
            self._cluster.crash(node_id, power_loss=power_loss)

    def _start(self, node_id: int) -> None:
        self._cluster.kept_down.pop(node_id, None)
        self._nemesis.restart(node_id)

    def _join(self, rng: Random, node_id: int, name: str) -> None:
        """Start a broker with an empty disk, and look until it serves."""
        self._busy[node_id] = self._nemesis.spared[node_id] = None
        self._start(node_id)
        self.strike_amid(rng, node_id, "a join")

        def look() -> None:
            node = self._cluster.nodes.get(node_id)
            if node is None or not node.is_registered.is_set():
                self._world.after(_LOOK_SECONDS, look)
                return
            self._cluster.history.counts[name] += 1
            self._end(node_id)

        look()

    def _take_out(self, node_id: int) -> None:
        """A broker was removed: stop it, and keep its disk for whoever puts it in again."""
        self._stop(node_id, power_loss=False)
        self._cluster.observer.disk_taken_out(node_id)
        image = self._cluster.put_disk(node_id, (Directory(), {}))
        self._old_disks.append(_OldDisk(node_id, image))
        self._end(node_id)

    # -- time ---------------------------------------------------------------------------------------------------

    def later(self, seconds: float, step: Callable[[], None]) -> None:
        """Do a step after so long, or once the faults are over."""
        number = self._number
        self._number += 1
        self._waiting[number] = step
        self._world.after(0.0 if self._is_hurried else seconds, self._run, number)

    def _run(self, number: int) -> None:
        step = self._waiting.pop(number, None)
        if step is not None:
            step()

    def strike_amid(self, rng: Random, node_id: int, kind: str) -> None:
        """Let something strike soon, amid this one of `STRUCK_CHANGES`: its broker, raft0's leader, or any broker."""
        assert kind in STRUCK_CHANGES, kind
        strikes = rng.random() < self._strikes
        change = kind if kind == UPGRADE else "a change of brokers"
        who = rng.choice(["subject", "raft0's leader", "any"])
        how = rng.choice(["kill", "power loss", "isolate"])
        after = rng.choice([0.02, 0.2, 1.0, 4.0]) * rng.random()

        def strike() -> None:
            members = self._cluster.members
            victim = {"subject": node_id, "raft0's leader": self._cluster.leader_of(RAFT0)}.get(who)
            victim = rng.choice(members) if victim is None else victim
            if self._nemesis.is_stopped or not self._cluster.is_up(victim):
                return
            self._world.record("amid", victim, (change, how))
            self._cluster.history.counts[f"strikes amid {change}: {who}"] += 1
            self._cluster.history.counts[f"amid {kind}: {how}"] += 1
            if how == "isolate":
                others = [other for other in self._world.nodes if other != victim]
                self._nemesis.cut_off(victim, others, rng.uniform(0.5, 4.0))
            else:
                self._nemesis.crash(victim, power_loss=how == "power loss")

        if strikes:
            self._world.after(after, strike)

    # -- what may be done ---------------------------------------------------------------------------------------

    def newest(self) -> Node | None:
        """Return the broker whose tables are the newest; None: there are none."""
        nodes = [node for node in self._cluster.nodes.values() if hasattr(node, "controller")]
        return max(nodes, key=lambda node: node.controller.applied_index, default=None)

    def _members(self) -> MembersTable:
        node = self.newest()
        return MembersTable() if node is None else node.controller.members

    def _is_living(self) -> bool:
        """Whether brokers come and go by now: before that an operator is refused."""
        node = self.newest()
        return node is not None and node.controller.features.level(MEMBERSHIP) >= BROKERS_LEVEL

    def _free(self) -> list[int]:
        """Return the active brokers that have their disk, to which nothing is being done."""
        members = self._members()
        return [
            int(member.node_id)
            for member in members.admitted()
            if member.state is BrokerState.ACTIVE
            and not members.is_retired(member)
            and not self._nemesis.is_away(member.node_id)
            and int(member.node_id) not in self._busy
            and members.get(member.node_id) is not None
        ]

    def _count_if_idle(self, node_id: int) -> None:
        groups = getattr(self._cluster.nodes.get(node_id), "groups", None)
        if groups is not None and not any(consensus.is_in_office for consensus in groups):
            self._cluster.history.counts["a draining broker that led nothing"] += 1

    def _can_lose(self, node_id: int) -> bool:
        """Whether every group goes on without the replica of a broker, also one that is on its way to other replicas.

        Each set that decides, or that will, must have a majority without it, of replicas that are whole. Sets that name
        a directory that was lost before are not whole.
        """
        now = self._world.time
        self._small_targets = [each for each in self._small_targets if each[0] > now]
        if any(node_id in target for _, target in self._small_targets):
            return False
        members = self._members()
        current = {member.replica for member in members.admitted() if not members.is_retired(member)}
        whole: dict[str, set[Replica]] = {}
        configurations: list[tuple[str, GroupConfiguration]] = []
        for view in self._cluster.observer.replicas():
            configurations.append((view.group, view.configuration))
            if not view.is_refilling and view.replica in current:
                whole.setdefault(view.group, set()).add(view.replica)
        return all(
            _has_majority_without(node_id, voters, whole.get(group, set()))
            for group, configuration in configurations
            for voters in configuration.voter_sets
        ) and all(_has_majority_without(node_id, target, current) for target in self._targets())

    def _targets(self) -> Iterator[tuple[Replica, ...]]:
        """Yield what the tables say of where replicas are and will be."""
        node = self.newest()
        if node is None:
            return
        controller = node.controller
        placed = [
            (replicas, topic.move_of(number))
            for topic in controller.topics.all()
            for number, replicas in enumerate(topic.replicas)
        ]
        for replicas, move in [*placed, (controller.raft0.voters, controller.raft0.move)]:
            yield replicas
            if move is not None:
                yield move.origin
                yield move.target


def _has_majority_without(node_id: int, voters: Sequence[Replica], whole: set[Replica]) -> bool:
    if all(voter.node_id != node_id for voter in voters):
        return True
    return 2 * sum(voter in whole for voter in voters if voter.node_id != node_id) > len(voters)
