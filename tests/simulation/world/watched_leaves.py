"""Tells the invariants which replicas leave a broker because their partitions were moved (RFC 0019 section 5)."""

from cluster.node import Node
from model.ids import GroupId
from raft.group_configuration import NO_REVISION, Revision
from tests.simulation.world.observer import Observer
from tests.simulation.world.watched_partitions import reported


def watch_leaves(node: Node, life: int, observer: Observer) -> None:
    """Watch each replica that leaves the node; before it opens the first."""
    leave, finish_leaving = node.groups.leave, node.groups._directories.finish_leaving
    revisions: dict[GroupId, Revision] = {}

    async def left(group: GroupId, revision: Revision) -> bool:
        revisions[group] = revision
        return await leave(group, revision)

    async def finished(group: GroupId) -> None:
        # The gravestone is durable; the log is still there.
        with reported():
            observer.observe(node, node.options.node_id, life)
            observer.left(node, group, revisions.get(group, NO_REVISION))
        await finish_leaving(group)

    node.groups.leave = left  # type: ignore[method-assign]
    node.groups._directories.finish_leaving = finished  # type: ignore[method-assign]
