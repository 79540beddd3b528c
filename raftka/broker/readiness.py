"""Whether this broker serves, and if not, why and what helps: `GET /v1/status/ready` once the node has started."""

import asyncio
from collections.abc import Collection, Iterable
from typing import NamedTuple

from cluster.node import Node
from cluster.partition import Partition
from model.ids import RAFT0, NodeId, Replica
from raftka.broker.leader_memory import LeaderMemory
from raftka.health.refusals import Refusal, RefusedLink, explain
from rpc.errors import RETIRED, HandshakeRefusedError

# A broker that is refused tries again within seconds.
_PASSED_SECONDS = 30.0


class NotReady(NamedTuple):
    """Why a broker does not serve; `cure` is what an operator can do about it, None: wait, or see the reason."""

    reason: str
    cure: str | None = None


def not_ready(node: Node, leaders: LeaderMemory | None = None) -> NotReady | None:
    """Return what is missing until this broker can serve; None: it serves.

    It serves if it is registered, raft0 has a leader, every replica that was here at its start was opened, and every
    replica here is undamaged and led. A replica that does not vote yet, because its partition is moved here, need not
    have its entries. A broker that lacks a majority because others refuse it, or it them, does not serve, whatever it
    still knows of leaders.

    Args:
        node: From its phase SEEDS on.
        leaders: When partitions last had a leader; None: each must have one at this moment.
    """
    refused = refusals(node, now=True)
    if not refused and not node.is_registered.is_set():
        # Whoever it refuses may dial it and not be dialled: a foreign directory names the addresses of other brokers.
        refused = refusals(node, now=False)
    explained = explain(node.options.node_id, refused)
    if explained is not None and 2 * len(_reached(node)) <= len(_members(node)):
        silent = _members(node) - {refusal.peer for refusal in refused}
        # Whom a retired directory has known may be gone since, and none of them helps it.
        is_retired = any(each.by_peer and RETIRED in each.message for each in refused)
        cures = [explained.cure, None if is_retired else _start(node, silent)]
        return NotReady(explained.words, "; ".join(cure for cure in cures if cure is not None))
    leaders = LeaderMemory() if leaders is None else leaders
    found = _missing(node, leaders)
    if found is None:
        leaders.note_ready()
    if explained is not None and found is not None and found.cure is None and not node.is_registered.is_set():
        return NotReady(f"{found.reason}: {explained.words}", explained.cure)
    return found


def not_ready_reason(node: Node, leaders: LeaderMemory | None = None) -> str | None:
    """Return the reason of `not_ready` alone."""
    found = not_ready(node, leaders)
    return None if found is None else found.reason


def refusals(node: Node, *, now: bool) -> list[Refusal]:
    """Return which peers refuse this node or are refused by it.

    Args:
        node: From its phase SEEDS on.
        now: By the newest attempt of this node to reach the peer. False: also refusals of earlier, in any direction,
            until a link with that peer has worked again.
    """
    if not now:
        return [refusal_of(peer, error) for peer, error in sorted(node.links.refusals.items())]
    outcomes = ((link.node_id, link.why_down) for link in node.links.outgoing())
    return [refusal_of(peer, why) for peer, why in outcomes if isinstance(why, HandshakeRefusedError)]


def refused_links(node: Node) -> dict[int, RefusedLink]:
    """Return why links between this node and others are refused, or were last, by the node id of the other."""
    now = asyncio.get_running_loop().time()
    found = {}
    for each in refusals(node, now=False):
        if _has_passed(node, each, now):
            continue
        told = explain(node.options.node_id, [each])
        assert told is not None
        found[each.peer] = RefusedLink(told.words, told.cure, now - node.links.refusal_times[NodeId(each.peer)])
    return found


def _has_passed(node: Node, refusal: Refusal, now: float) -> bool:
    """Whether a refusal says nothing of the peer any more, though no link has begun to work since."""
    peer = NodeId(refusal.peer)
    if node.is_alive(peer):
        # Another process has tried to be that broker, and has given up.
        return now - node.links.refusal_times[peer] > _PASSED_SECONDS
    members = node.controller.members
    member = members.member(peer)
    # The directory that was missed is given up since: the broker is to come with an empty one.
    is_replaced = member is not None and members.is_retired(member)
    return is_replaced and refusal.kind == "WRONG_DIRECTORY" and not refusal.by_peer and RETIRED not in refusal.message


def refusal_of(peer: int, error: HandshakeRefusedError) -> Refusal:
    """Return a refusal as the rules of health take it."""
    return Refusal(int(peer), error.refusal.name, error.by_peer, error.message)


def _missing(node: Node, leaders: LeaderMemory) -> NotReady | None:
    if not node.is_registered.is_set():
        return NotReady("not registered with raft0 yet", _start_a_majority(node))
    if node.controller.leader_id is None:
        return NotReady("raft0 has no leader", _start_a_majority(node))
    if (gone := _gone(node)) is not None:
        return gone
    if others := _members(node) - {broker.node_id for broker in node.controller.members.all()}:
        return NotReady("not every broker has registered yet", _start(node, others))
    if (doubt := node.groups.limits.stalls.doubt) is not None:
        return NotReady(
            f"the disk hangs, and nothing is led here before a probe write has passed: {doubt}",
            "look at the disk of data.dir and at its load",
        )
    if not node.backend.has_opened:
        return NotReady("replicas are being opened")
    return _unfit_replica(node) or _unled_partition(node, leaders)


def _unfit_replica(node: Node) -> NotReady | None:
    """Return which replica here does not run whole."""
    if node.backend.failed:
        group, why = next(iter(node.backend.failed.items()))
        return NotReady(f"{node.controller.topics.name_of(group)} cannot start: {why}")
    if node.backend.reopening:
        name = node.controller.topics.name_of(min(node.backend.reopening))
        return NotReady(f"{name} is opened again without what is damaged")
    for consensus in node.groups:
        why_not = consensus.failure or consensus.damage
        if why_not is not None:
            return NotReady(f"{consensus.name} {'has stopped' if consensus.failure else 'is damaged'}: {why_not}")
        lost, partition = consensus.state.lost_end, node.partitions.get(consensus.group)
        if lost is None or consensus.state.flushed_end >= lost:
            # All is back where only the floor of the vote is still to be forgotten, which takes an fsync.
            continue
        # What a replica held before it left its node is a floor as well (RFC 0019), and no damage.
        if partition is None or _counts(node, partition):
            return NotReady(f"{consensus.name} gets back what damage took, up to entry {lost.last_index}@{lost.term}")
    return None


def _unled_partition(node: Node, leaders: LeaderMemory) -> NotReady | None:
    now = asyncio.get_running_loop().time()
    for partition in node.partitions:
        has_leader = node.leadership.leader_of(partition.group) is not None
        if leaders.is_missed(partition.group, now, has_leader=has_leader) and _counts(node, partition):
            name = f"{partition.topic.name}-{partition.partition}"
            return NotReady(f"partition {name} has no leader", _start(node, _holders(partition)))
    return None


def _counts(node: Node, partition: Partition) -> bool:
    """Whether the group needs the replica here: not while it is on its way here and does not vote yet, nor out again.

    Its log may begin with configurations of earlier moves, in which a replica that returns did vote.
    """
    topic, number = node.controller.topics.get_by_id(partition.topic.topic_id), partition.partition
    if topic is None:
        return False
    if node.replica in topic.replicas[number]:
        return True
    consensus = node.groups.get(partition.group)
    if consensus is None or topic.move_of(number) is None:
        return False
    configuration = consensus.configuration
    is_of_this_move = configuration.revision > topic.placements[number].finished
    return is_of_this_move and configuration.is_voter(node.replica)


def _holders(partition: Partition) -> list[NodeId]:
    return [replica.node_id for replica in partition.topic.replicas[partition.partition]]


def _members(node: Node) -> set[int]:
    """Return the brokers that count: admitted, and their directory not retired; before raft0 is read, the founders."""
    members = node.controller.members
    return {int(member.node_id) for member in members.admitted() if not members.is_retired(member)}


def _gone(node: Node) -> NotReady | None:
    """Return why this broker is not in the cluster any more; None: it is."""
    members, own = node.controller.members, node.replica
    member = members.member(own.node_id)
    if member is None:
        return NotReady(f"broker {own.node_id} was removed from the cluster", "stop it: nothing is placed here")
    if own.directory_id in members.retired or member.replica != own:
        return NotReady(
            f"the data directory {own.directory_id} of broker {own.node_id} is retired and never counts again",
            "stop it, and start it with an empty data.dir",
        )
    return None


def _reached(node: Node) -> list[int]:
    """Return the members of the cluster that this node can send to, itself included."""
    return [number for number in _members(node) if node.is_alive(NodeId(number))]


def _start_a_majority(node: Node) -> str | None:
    retired = node.controller.members.retired
    voters = [voter.node_id for voter in _raft0_voters(node) if voter.directory_id not in retired]
    if 2 * sum(map(node.is_alive, voters)) > len(voters):
        return None
    return _start(node, voters)


def _raft0_voters(node: Node) -> Collection[Replica]:
    """Return who votes in raft0: until its tables are read they name the founders, and the log here may know better."""
    raft0 = node.groups.get(RAFT0)
    voters = frozenset() if raft0 is None or node.is_registered.is_set() else raft0.configuration.voter_sets[-1]
    return voters or node.controller.raft0.voters


def _start(node: Node, wanted: Iterable[int]) -> str | None:
    """Return what helps where some of the wanted nodes cannot be reached."""
    away = sorted(int(number) for number in wanted if not node.is_alive(NodeId(number)))
    if not away:
        return None
    brokers = f"broker{'s' if len(away) > 1 else ''} {', '.join(map(str, away))}"
    return f"start {brokers}, or repair the network to {'them' if len(away) > 1 else 'it'}"
