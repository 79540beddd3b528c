"""Tells the invariants which replicas leave a broker because their partitions were moved (RFC 0019 section 5)."""

from cluster.node import Node
from model.ids import GroupId
from raft.group_configuration import Revision
from raft.rules.election import LogEnd
from tests.simulation.world.observer import Observer
from tests.simulation.world.watched_partitions import reported


def watch_leaves(node: Node, life: int, observer: Observer) -> None:
    """Watch each replica that leaves the node; before it opens the first."""
    directories = node.groups._directories
    leave, begin_leaving, finish_leaving = node.groups.leave, directories.begin_leaving, directories.finish_leaving
    revisions: dict[GroupId, Revision] = {}
    begun: set[GroupId] = set()

    async def left(group: GroupId, revision: Revision) -> bool:
        revisions[group] = revision
        # It may have been opened in this very step; behind `leave` it is not among the open ones.
        with reported():
            observer.observe(node, node.options.node_id, life)
        return await leave(group, revision)

    async def gone(group: GroupId, log_end: LogEnd) -> None:
        await begin_leaving(group, log_end)
        # The gravestone is durable; the log is still there.
        begun.add(group)
        with reported():
            observer.observe(node, node.options.node_id, life)
            observer.left(node, group, revisions[group])

    async def finished(group: GroupId) -> None:
        if group not in begun:
            # A former life has ended in the instant in which the gravestone became durable, or after it.
            with reported():
                observer.left(node, group, None)
        await finish_leaving(group)
        begun.discard(group)

    node.groups.leave = left  # type: ignore[method-assign]
    directories.begin_leaving, directories.finish_leaving = gone, finished  # type: ignore[method-assign]
