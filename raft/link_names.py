"""What messages between brokers call a group: its id, or another name once its configuration was forced (RFC 0019).

A forced configuration leaves out a majority that is lost. If that majority comes back, its replicas still know the
group by the old name: so neither side answers the other.
"""

from model.ids import RAFT0, GroupId, group_of_link_name, link_name
from raft.group_configuration import NO_REVISION, Revision


class LinkNames:
    """The names of all groups on the links of one node; it outlives the node's replicas.

    A group that nobody has forced is called by its id. This version has no command that forces a group.
    """

    def __init__(self) -> None:
        self._forced: dict[GroupId, Revision] = {}

    def name_of(self, group: GroupId) -> str:
        """Return what this node calls a group on links, held here or not."""
        forced = self._forced.get(group)
        return group if forced is None else link_name(group, forced)

    def group_of(self, name: str) -> GroupId | None:
        """Return the group that a peer calls `name`; None: this node calls no group so, and has to know nothing of it.

        `name` may be anything that a peer sends.
        """
        group = group_of_link_name(name)
        return group if self.name_of(group) == name else None

    def force(self, group: GroupId, revision: Revision) -> None:
        """From now on the group's configuration is one that `revision` has forced.

        The revision is later than NO_REVISION and than that of an earlier force. raft0 is never forced: who recovers
        it by hand raises the generation, and links refuse another one.
        """
        assert group != RAFT0
        assert revision > self._forced.get(group, NO_REVISION)
        self._forced[group] = revision
